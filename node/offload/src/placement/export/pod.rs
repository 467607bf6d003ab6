//! What becomes of a pod that is bound to a virtual node: by what its namespace allows, and what
//! it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_protocol::id::{ClusterId, ContractId, Digest};
use mercato_protocol::workload::is_reserved;
use serde_json::Value;

use super::opt_in::{Leave, OptIn, Strategy};
use super::patience::Patience;
use super::secrets::Secrets;
use super::stand_in::stand_in;
use super::toleration::was_let_leave;
use crate::forge::told::{Note, kept_of_pod};
use crate::forge::{self, HomeContext, Refusal, ServiceEnv, TokenRequest, Tokens};
use crate::home::{HomePod, StandIn};
use crate::key::{ObjectKey, ObjectKind};
use crate::placement::claims::Mounts;

/// The virtual node that pods are bound to.
#[derive(Debug, Clone, Copy)]
pub struct BoundNode<'a> {
    /// Its name in home's cluster.
    pub name: &'a str,
    /// The lease that it stands for.
    pub contract: &'a ContractId,
    /// The cluster that it stands for.
    pub provider: &'a ClusterId,
    /// What pods read as the address of their host.
    pub host_ip: Option<IpAddr>,
    /// Tokens for these leave home, whatever a namespace says of the API server's.
    pub audiences: &'a BTreeSet<String>,
    /// What home calls its cluster, where guests may find its names.
    pub domain: Option<&'a str>,
    /// At which address inside the tunnel home's API server is reached by guests that have access.
    pub api: Option<IpAddr>,
}

/// What becomes of a pod that is bound to a virtual node.
#[derive(Debug)]
pub enum Departure {
    /// It is not known yet whether it may leave: nothing is said of it.
    Undecided,
    /// It stays, and its session is told why: see [`staying`].
    Stays {
        /// Why the pod stays at home.
        refusal: Refusal,
        /// It runs elsewhere, and its namespace is not offloaded any more: it is deleted, so that
        /// its owner makes it again at home.
        ends: bool,
    },
    /// It leaves, as far as its namespace is concerned.
    Leaves(Box<Permit>),
}

impl Departure {
    /// Of `pod`, bound to `node`, where `leave` is said of its namespace.
    ///
    /// What runs already runs on, whatever has been said of targets and names since. The end of a
    /// pod needs nothing to be known: a namespace that is being deleted is never ready again.
    pub fn of(pod: &Value, leave: Leave, node: BoundNode<'_>) -> Self {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let (deleting, runs) = (is_deleting(pod), pod["status"]["phase"] == "Running");
        let stays = |path: &str, reason, ends| {
            let refusal = Refusal { path: path.to_owned(), reason };
            Self::Stays { refusal, ends }
        };
        if stand_in(pod) == StandIn::Written {
            let reason = stood_in_for(namespace, &leave);
            return stays("metadata.namespace", reason, false);
        }
        let how = match leave {
            Leave::Now(how) => how,
            Leave::Soon if !deleting => return Self::Undecided,
            Leave::Soon | Leave::Never => {
                return stays("metadata.namespace", not_offloaded(namespace), runs && !deleting);
            }
        };
        if !runs && how.strategy == Strategy::Local {
            let reason = format!(
                "pods of namespace {namespace} stay on this cluster's own nodes: see spec.strategy of \
                 its NamespaceOffload"
            );
            return stays("spec.nodeName", reason, false);
        }
        if !runs && !how.targets.permit(node.name, node.contract, node.provider) {
            let reason = format!(
                "pods of namespace {namespace} may not go to {}: see spec.to of its NamespaceOffload",
                node.name
            );
            return stays("spec.nodeName", reason, false);
        }
        let place = match how.name.place(namespace) {
            Err(reason) if !runs => return stays("metadata.namespace", reason, false),
            place => place.unwrap_or_default(),
        };
        let tokens = if how.api_access { Tokens::All } else { Tokens::For(node.audiences.clone()) };
        let api = node.api.filter(|_| how.api_access);
        Self::Leaves(Box::new(Permit {
            how,
            place,
            host_ip: node.host_ip,
            domain: node.domain.map(str::to_owned),
            api,
            tokens,
        }))
    }
}

/// Why a pod that its virtual node has answered for stays, whatever is said of its namespace by now.
fn stood_in_for(namespace: &str, leave: &Leave) -> String {
    match leave {
        Leave::Soon | Leave::Never => not_offloaded(namespace),
        Leave::Now(_) => format!(
            "the pod is from before pods of namespace {namespace} could leave: delete it, and the next \
             one may"
        ),
    }
}

/// Why a pod of this namespace stays, which nobody has let leave.
fn not_offloaded(namespace: &str) -> String {
    if is_reserved(namespace) {
        format!(
            "namespace {namespace} never leaves this cluster, and nothing of it is open to guests: keep \
             its pods off virtual nodes, as mercato doctor says"
        )
    } else {
        format!("namespace {namespace} is not offloaded: mercato offload {namespace}")
    }
}

/// That a pod may leave, and how.
#[derive(Debug)]
pub struct Permit {
    how: OptIn,
    place: Option<String>,
    host_ip: Option<IpAddr>,
    domain: Option<String>,
    api: Option<IpAddr>,
    tokens: Tokens,
}

impl Permit {
    /// Whether the next pod of its owner would run at home: a claim of another class keeps it there.
    pub fn stays_next_time(&self, pod: &Value, mounts: &Mounts) -> bool {
        let owned = pod["metadata"]["ownerReferences"].as_array();
        let owned =
            owned.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true));
        let runs = pod["status"]["phase"] == "Running";
        self.how.strategy == Strategy::Both
            && owned
            && !runs
            && was_let_leave(pod)
            && mounts.of_another_class(pod)
    }

    /// The tokens that leave with the pod.
    pub fn token_requests(&self, pod: &Value) -> Vec<TokenRequest> {
        forge::token_requests_of(pod, &self.tokens)
    }

    /// What of the pod stays at home though it leaves, for its owner.
    pub fn notes(&self, pod: &Value) -> Vec<Note> {
        kept_of_pod(pod, &self.tokens)
    }

    /// The pod as its session sees it. `service_env` are the service variables of its namespace; `claims`
    /// says what those that it mounts are called there;
    /// `keep` stores the body that would be sent, and answers with its digest. None: what was given
    /// is no pod of an API server's.
    pub fn home_pod(
        self,
        pod: &Value,
        service_env: &ServiceEnv,
        claims: BTreeMap<String, String>,
        keep: impl FnOnce(Value) -> Result<Digest, Refusal>,
    ) -> Option<HomePod> {
        let (service_env, tokens) = (service_env.clone(), self.tokens.clone());
        let domain = self.domain.clone();
        let host_ip = self.host_ip.map(|address| address.to_string());
        let context = HomeContext { service_env, tokens, host_ip, domain, api: self.api, claims };
        let exported = forge::export_pod(pod, &context);
        let needs = forge::needs(&exported);
        if let Some(refusal) = self.kept_at_home(pod, &needs) {
            return staying(pod, refusal);
        }
        let told = match keep(exported) {
            Ok(digest) => HomePod { digest, needs, ..staying_as(pod, None)? },
            Err(refusal) => staying(pod, refusal)?,
        };
        Some(HomePod { place: self.place, patience_ms: self.how.patience.as_ms(), ..told })
    }

    /// A pod that uses a secret which may not leave stays.
    fn kept_at_home(&self, pod: &Value, needs: &[ObjectKey]) -> Option<Refusal> {
        let kept = kept_secret(&self.how.secrets, needs)?;
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let reason = format!(
            "secret {} may not leave namespace {namespace}: see spec.secrets of its NamespaceOffload",
            kept.name
        );
        Some(Refusal { path: "spec".to_owned(), reason })
    }
}

/// The first secret that a pod uses and that may not leave.
pub(super) fn kept_secret<'a>(secrets: &Secrets, needs: &'a [ObjectKey]) -> Option<&'a ObjectKey> {
    let mut used = needs.iter().filter(|need| need.kind == ObjectKind::Secret);
    used.find(|secret| !secrets.permit(&secret.name))
}

/// A pod that stays at home, as its session sees it. None: it is no pod of an API server's.
pub fn staying(pod: &Value, refusal: Refusal) -> Option<HomePod> {
    staying_as(pod, Some(refusal))
}

fn staying_as(pod: &Value, refusal: Option<Refusal>) -> Option<HomePod> {
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    let pod_ip = pod["status"]["podIP"].as_str().and_then(|text| text.parse().ok());
    Some(HomePod {
        pod: forge::pod_id(pod)?,
        digest: forge::digest(&Value::Null),
        needs: Vec::new(),
        deletion_grace_s: is_deleting(pod).then(|| u32::try_from(grace).unwrap_or(u32::MAX)),
        terminal: matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")),
        counted: forge::is_counted(pod),
        gates: forge::open_gates(pod),
        pod_ip,
        second_ip: pod_ip.and_then(|first| other_ip(pod, first)),
        route: forge::came(pod).map(Box::new),
        place: None,
        patience_ms: Patience::default().as_ms(),
        stand_in: if refusal.is_some() { stand_in(pod) } else { StandIn::Never },
        refusal,
    })
}

/// The address of the other family that is shown.
fn other_ip(pod: &Value, first: IpAddr) -> Option<IpAddr> {
    let all = pod["status"]["podIPs"].as_array().into_iter().flatten();
    let mut all = all.filter_map(|it| it["ip"].as_str()?.parse::<IpAddr>().ok());
    all.find(|other| other.is_ipv4() != first.is_ipv4())
}

fn is_deleting(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{GuestName, Secrets, Targets};
    use super::*;

    const TURIN: ClusterId = ClusterId([0x4f; 32]);
    const CONTRACT: ContractId = ContractId([0x2f; 16]);
    const NODE: BoundNode<'_> = BoundNode {
        name: "turin",
        contract: &CONTRACT,
        provider: &TURIN,
        host_ip: None,
        audiences: &BTreeSet::new(),
        domain: None,
        api: None,
    };

    fn pod(phase: &str, deleting: bool) -> Value {
        let mut pod = json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
            "spec": {
                "containers": [{ "name": "app", "image": "a" }],
                "volumes": [{ "name": "c", "secret": { "secretName": "tls" } }],
            },
            "status": { "phase": phase },
        });
        if deleting {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        }
        pod
    }

    /// What the session is told of a pod, and whether the pod is deleted.
    fn told(pod: &Value, leave: Leave) -> (Option<HomePod>, bool) {
        match Departure::of(pod, leave, NODE) {
            Departure::Undecided => (None, false),
            Departure::Stays { refusal, ends } => (staying(pod, refusal), ends),
            Departure::Leaves(permit) => {
                let keep = |body: Value| Ok(forge::digest(&body));
                (permit.home_pod(pod, &ServiceEnv::default(), BTreeMap::new(), keep), false)
            }
        }
    }

    fn refused_at(pod: &Value, how: OptIn) -> Option<String> {
        let (told, _) = told(pod, Leave::Now(how));
        told.unwrap().refusal.map(|refusal| refusal.path)
    }

    #[test]
    fn only_what_may_leave_does_and_only_what_ran_elsewhere_is_deleted() {
        for (phase, deleting, leave, is_told, ends) in [
            ("Pending", false, Leave::Soon, false, false),
            ("Running", false, Leave::Soon, false, false),
            ("Running", true, Leave::Soon, true, false),
            ("Pending", false, Leave::Never, true, false),
            ("Running", false, Leave::Never, true, true),
            ("Running", true, Leave::Never, true, false),
        ] {
            let what = format!("{phase} {deleting} {leave:?}");
            let (told, ended) = told(&pod(phase, deleting), leave);
            assert_eq!((told.is_some(), ended), (is_told, ends), "{what}");
            if let Some(told) = told {
                let refusal = told.refusal.unwrap();
                assert!(refusal.reason.contains("mercato offload shop"), "{refusal:?}");
                assert_eq!(told.deletion_grace_s, deleting.then_some(30), "{what}");
            }
        }
        let (told, _) = told(&pod("Pending", false), Leave::Now(OptIn::default()));
        let told = told.unwrap();
        assert_eq!((told.refusal, told.needs.len(), told.place), (None, 1, None));
    }

    #[test]
    fn a_daemon_sets_pod_that_was_answered_for_stays_so() {
        let mut agent = pod("Pending", false);
        agent["metadata"]["ownerReferences"] =
            json!([{ "kind": "DaemonSet", "name": "agent", "controller": true }]);
        agent["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
        let state = |pod: &Value, leave| {
            let (told, ends) = told(pod, leave);
            assert!(!ends, "another would come in its place, for ever");
            told.map(|told| (told.stand_in, told.refusal.map(|refusal| refusal.reason)))
        };
        let (first, reason) = state(&agent, Leave::Never).unwrap();
        assert_eq!(first, StandIn::Possible);
        let leaves = state(&agent, Leave::Now(OptIn::default())).unwrap();
        assert_eq!(leaves, (StandIn::Never, None), "where it may leave, it does");
        agent["status"] = super::super::stand_in_status(&agent, None, &reason.unwrap(), "now");
        for leave in [Leave::Never, Leave::Soon] {
            assert_eq!(state(&agent, leave).unwrap().0, StandIn::Written);
        }
        let (later, reason) = state(&agent, Leave::Now(OptIn::default())).unwrap();
        assert_eq!(later, StandIn::Written);
        assert!(reason.unwrap().contains("delete it"));
    }

    #[test]
    fn where_pods_may_run_holds_for_what_does_not_run_yet() {
        let elsewhere = OptIn { targets: Targets::new(["lyon".into()]), ..OptIn::default() };
        let local = OptIn { strategy: Strategy::Local, ..OptIn::default() };
        let unnamed = OptIn { name: GuestName::from("kube-x"), ..OptIn::default() };
        let (new, running) = (pod("Pending", false), pod("Running", false));
        for (how, path) in [
            (elsewhere, "spec.nodeName"),
            (local, "spec.nodeName"),
            (unnamed, "metadata.namespace"),
        ] {
            assert_eq!(refused_at(&new, how.clone()).as_deref(), Some(path));
            assert_eq!(refused_at(&running, how), None);
        }
        let here = OptIn { targets: Targets::new([TURIN.to_string()]), ..OptIn::default() };
        assert_eq!(refused_at(&new, here), None);
    }

    #[test]
    fn a_pod_of_the_clusters_own_namespaces_is_not_advised_to_leave() {
        let mut own = pod("Pending", false);
        own["metadata"]["namespace"] = "kube-system".into();
        let (told, _) = told(&own, Leave::Never);
        let reason = told.unwrap().refusal.unwrap().reason;
        assert!(!reason.contains("mercato offload") && reason.contains("doctor"), "{reason}");
    }

    #[test]
    fn a_secret_that_stays_keeps_its_pods_at_home() {
        for (secrets, path) in [
            (Secrets::Deny(["tls".to_owned()].into()), Some("spec")),
            (Secrets::Allow(["other".to_owned()].into()), Some("spec")),
            (Secrets::Allow(["tls".to_owned()].into()), None),
        ] {
            let how = OptIn { secrets, ..OptIn::default() };
            assert_eq!(refused_at(&pod("Running", false), how).as_deref(), path);
        }
    }
}
