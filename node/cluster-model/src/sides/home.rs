//! Home's side of one lease: its virtual node, the pods that are bound to it, the objects that they
//! need, and the statuses written back.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use mercato_offload::address::MappedRange;
use mercato_offload::body::{Found, Way};
use mercato_offload::forge::labels::CONTRACT;
use mercato_offload::forge::{self, ServiceEnv, StatusContext};
use mercato_offload::home::{Granted, HomePod, Input, Write};
use mercato_offload::key::{Item, ObjectKey, PodId};
use mercato_offload::placement::export::{
    BoundNode, Departure, LeaseNode, Leave, OptIn, Scope, refusal_text, refused_status,
    stand_in_status, staying,
};
use mercato_offload::placement::spec::{
    Leaving, NodeSpec, Transitions, node_name, second_node_name,
};
use mercato_offload::time;
use mercato_protocol::contract::Contract;
use mercato_protocol::id::{ClusterId, ContractId, Digest};
use serde_json::Value;

use super::claims::{Claims, Of};
use super::namespaces::Namespaces;
use super::open::Open;
use super::reflected::Reflected;
use super::watch::{News, Watch};
use super::{Bodies, Client, Lie, Outcome, found, place};
use crate::{ApiError, Cluster, Key};

/// How the virtual node of a lease is to be.
#[derive(Clone, Debug)]
pub struct NodeState<'a> {
    /// The contract that is in force.
    pub contract: &'a Contract,
    /// The name that the provider gives itself.
    pub peer_name: Option<&'a str>,
    /// When the lease ends, by its term or taken back before, wall clock, milliseconds.
    pub ends_ms: u64,
    /// Its end is so near that home prepares for it: no new pods.
    pub leaving: Option<Leaving>,
    /// It is suspended: no new pods.
    pub suspended: bool,
    /// It was bought by itself: room at home is taken first.
    pub bought: bool,
    /// The link to the provider is up.
    pub reachable: bool,
}

/// What the watches of one virtual node have told, and what was written of it.
#[derive(Debug)]
pub struct HomeSide {
    contract: ContractId,
    provider: ClusterId,
    scope: Scope,
    /// The virtual node's name, once it is there.
    node: Option<String>,
    /// As it was written last, in that version of the object.
    written: Option<(NodeSpec, Value)>,
    transitions: Transitions,
    namespaces: Namespaces,
    pods: Watch<HomePod>,
    objects: BTreeMap<ObjectKey, Watched>,
    services: Reflected,
    open: Open,
    claims: Claims,
    /// The decisions are made from this false fact.
    pub lie: Option<Lie>,
}

/// An object that pods need.
#[derive(Debug, Default)]
struct Watched {
    /// In which version it was looked at last, if it was; none: it was not there.
    version: Option<Option<Value>>,
    /// What was told last, if anything was.
    told: Option<Option<Digest>>,
}

impl HomeSide {
    /// Of a lease under this contract, where pods of the namespaces of `scope` may leave.
    pub fn new(contract: &Contract, scope: Scope) -> Self {
        Self {
            contract: contract.id,
            provider: contract.provider.cluster,
            scope,
            node: None,
            written: None,
            transitions: Transitions::default(),
            namespaces: Namespaces::default(),
            pods: Watch::new(&["Pod"]),
            objects: BTreeMap::new(),
            services: Reflected::default(),
            open: Open::default(),
            claims: Claims::default(),
            lie: None,
        }
    }

    /// By which ranges guests know pods from now on: home's, and each other.
    pub fn set_ranges(&mut self, ranges: Vec<MappedRange>) {
        self.services.set_ranges(ranges);
    }

    /// What the virtual node is called, once it is there.
    pub fn node(&self) -> Option<&str> {
        self.node.as_deref()
    }

    /// Makes the virtual node, or makes it right again.
    ///
    /// # Errors
    /// Those of [`Cluster::apply`].
    pub fn keep_node(
        &mut self,
        client: &mut Client<'_>,
        state: NodeState<'_>,
    ) -> Result<(), ApiError> {
        let NodeState { contract, peer_name, ends_ms, leaving, suspended, bought, reachable } =
            state;
        let is_open = reachable && !suspended && leaving.is_none();
        self.claims.set_storage(contract.terms.quantity.storage_bytes, is_open);
        let Client { cluster, now, .. } = client;
        let name = self.own_node(cluster).unwrap_or_else(|| {
            let stem = node_name(peer_name, &self.provider);
            let is_taken = cluster.get(&node_key(&stem)).is_some();
            if is_taken { second_node_name(&stem, &self.contract) } else { stem }
        });
        self.node = Some(name.clone());
        let spec = NodeSpec::of(contract, name, Ipv4Addr::UNSPECIFIED.into(), VERSION.to_owned());
        let spec =
            NodeSpec { reachable, not_after_ms: ends_ms, leaving, suspended, bought, ..spec };
        let key = node_key(&spec.name);
        let present = cluster.get(&key);
        let is_at = |at: &Value| present.is_some_and(|it| it["metadata"]["resourceVersion"] == *at);
        if self.written.as_ref().is_some_and(|(was, at)| *was == spec && is_at(at)) {
            return Ok(());
        }
        let mut node = match present {
            Some(present) => present.clone(),
            None => cluster.create(*now, spec.created())?,
        };
        let mut applied = spec.applied();
        for part in ["labels", "annotations"] {
            let marks = applied["metadata"][part].as_object_mut();
            for (mark, value) in marks.into_iter().flatten() {
                node["metadata"][part][mark] = value.take();
            }
        }
        node["spec"]["providerID"] = applied["spec"]["providerID"].take();
        if let Some(taints) = spec.taints(&node["spec"]["taints"]) {
            node["spec"]["taints"] = taints.into();
        }
        cluster.apply(*now, node)?;
        let mut status = spec.status(&mut self.transitions, &time::rfc3339(now.wall_ms));
        let written = cluster.write_status(*now, &key, None, status["status"].take())?;
        self.written = Some((spec, written["metadata"]["resourceVersion"].clone()));
        Ok(())
    }

    /// Lets no new pods come, asks those that are there to end, and then removes the virtual node;
    /// whether it is gone.
    ///
    /// # Errors
    /// Those of [`Cluster::apply`] and [`Cluster::delete`].
    pub fn drain(
        &mut self,
        client: &mut Client<'_>,
        state: NodeState<'_>,
    ) -> Result<bool, ApiError> {
        let Some(name) = self.own_node(client.cluster) else { return Ok(true) };
        let bytes = state.contract.terms.quantity.storage_bytes;
        self.keep_node(client, state)?;
        self.claims.set_storage(bytes, false);
        let Client { cluster, now, .. } = client;
        let bound = cluster.objects("Pod").filter(|(_, pod)| pod["spec"]["nodeName"] == *name);
        let bound: Vec<Value> = bound.map(|(_, pod)| pod.clone()).collect();
        for pod in bound.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
            let (key, uid) = found(pod);
            cluster.delete(*now, &key, Some(&uid), None)?;
        }
        if !bound.is_empty() {
            return Ok(false);
        }
        let key = node_key(&name);
        self.claims.remove_all(client, &self.contract)?;
        let Client { cluster, now, .. } = client;
        cluster.delete(*now, &key, None, Some(0))?;
        Ok(cluster.get(&key).is_none())
    }

    fn own_node(&self, cluster: &Cluster) -> Option<String> {
        let contract = self.contract.to_string();
        let mut nodes = cluster.objects("Node");
        let own = nodes.find(|(_, node)| node["metadata"]["labels"][CONTRACT] == *contract);
        own.map(|(key, _)| key.name.clone())
    }

    /// From now on [`HomeSide::news`] tells of this object.
    pub fn watch(&mut self, key: ObjectKey) {
        self.objects.insert(key, Watched::default());
    }

    /// It does not any more.
    pub fn unwatch(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    /// The watch breaks: the next word is a whole list.
    pub fn relist(&mut self) {
        self.pods.relist();
        self.services.relist();
        self.claims.relist();
    }

    /// This came of what home wishes for a claim.
    pub fn granted(&mut self, client: &mut Client<'_>, key: &ObjectKey, granted: Granted) {
        let Self { node, contract, namespaces, claims, .. } = self;
        let Some(node) = node else { return };
        let of = Of { contract, node, namespaces: &namespaces.by_name };
        claims.on_granted(client, of, key, granted);
    }

    /// The provider refuses this claim.
    pub fn claim_refused(&mut self, key: ObjectKey) {
        self.claims.on_refused(key);
    }

    /// What the watches have to tell.
    pub fn news(&mut self, client: &mut Client<'_>) -> Vec<Input> {
        let mut pods = std::mem::replace(&mut self.pods, Watch::new(&["Pod"]));
        if self.namespaces.look(client.cluster, self.scope) {
            pods.look_again();
        }
        let mounts = self.claims.mounts();
        let Self { node, contract, namespaces, claims, .. } = self;
        let of_claims = node.as_deref().map(|node| {
            let of = Of { contract, node, namespaces: &namespaces.by_name };
            claims.look(client, of)
        });
        if self.claims.mounts() != mounts {
            pods.look_again();
        }
        let Client { cluster, bodies, now, .. } = client;
        let mut ended = Vec::new();
        let see = |pod: &Value| {
            let (told, ends) = self.home_pod(pod, *bodies)?;
            if ends {
                ended.push(found(pod));
            }
            told
        };
        let told = pods.look(cluster, see, |a, b| a.pod.uid == b.pod.uid);
        self.pods = pods;
        for (key, uid) in ended {
            // One that has gone meanwhile is what was wanted.
            let _ = cluster.delete(*now, &key, Some(&uid), None);
        }
        let mut news = match told {
            News::All(pods) => vec![Input::Synced(pods)],
            News::Some { gone, changed } => {
                let gone = gone.into_iter().map(|pod| Input::PodGone(pod.pod.uid));
                gone.chain(changed.into_iter().map(Input::Pod)).collect()
            }
        };
        for (key, watched) in &mut self.objects {
            let object = place(key).and_then(|place| cluster.get(&place));
            let version = object.map(|object| object["metadata"]["resourceVersion"].clone());
            if watched.version.as_ref() == Some(&version) {
                continue;
            }
            watched.version = Some(version);
            let digest = object.and_then(|object| {
                let sent = forge::export_object(object);
                bodies.keep(Way::ToGuest, &Item::Object(key.clone()), &sent).ok()
            });
            if watched.told != Some(digest) {
                watched.told = Some(digest);
                news.push(Input::Object { key: key.clone(), digest });
            }
        }
        let leaving: Vec<_> = self.pods.told().filter(|pod| pod.refusal.is_none()).collect();
        let by_name = &self.namespaces.by_name;
        let name = self.node.as_deref().unwrap_or_default();
        let node = LeaseNode { name, contract: &self.contract, provider: &self.provider };
        let crossings = self.open.crossings(by_name, &leaving, node, self.lie);
        // Before the first pod of a namespace comes, and before its last one goes.
        let services = self.services.news(cluster, *bodies, crossings);
        let first = self.open.news(by_name).into_iter().chain(services);
        news.splice(0..0, first.chain(of_claims.into_iter().flatten()));
        news
    }

    /// Asks for a pod by name.
    pub fn confirm(&self, client: &mut Client<'_>, pod: &PodId) -> Input {
        let found = present(client.cluster, pod);
        let told =
            found.and_then(|found| self.home_pod(found, client.bodies)).and_then(|(told, _)| told);
        told.map_or(Input::PodMissing(pod.uid.clone()), Input::Pod)
    }

    /// A pod of the node as its session sees it, and whether it has to end; none, of another node.
    fn home_pod(&self, pod: &Value, bodies: &mut dyn Bodies) -> Option<(Option<HomePod>, bool)> {
        let name = self.node().filter(|name| pod["spec"]["nodeName"] == **name)?;
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let leave = match self.namespaces.by_name.get(namespace) {
            Some(how) => Leave::Now(how.clone()),
            None if self.lie == Some(Lie::AllLeaves) => Leave::Now(OptIn::default()),
            None => self.scope.unknown(namespace),
        };
        let node = BoundNode {
            name,
            contract: &self.contract,
            provider: &self.provider,
            host_ip: None,
            audiences: &BTreeSet::new(),
            domain: None,
            api: None,
        };
        Some(match Departure::of(pod, leave, node) {
            Departure::Undecided => (None, false),
            Departure::Stays { refusal, ends } => (staying(pod, refusal), ends),
            Departure::Leaves(permit) => {
                let id = forge::pod_id(pod)?;
                let is_deleting = !pod["metadata"]["deletionTimestamp"].is_null();
                let called = match self.claims.mounts().of(pod) {
                    Some(Ok(called)) => called,
                    Some(Err(refusal)) if !is_deleting => {
                        return Some((staying(pod, refusal), false));
                    }
                    // The end of a pod needs nothing to be known.
                    Some(Err(_)) | None if is_deleting => BTreeMap::new(),
                    Some(Err(_)) | None => return Some((None, false)),
                };
                let keep = |body: Value| bodies.keep(Way::ToGuest, &Item::Pod(id), &body);
                (permit.home_pod(pod, &ServiceEnv::default(), called, keep), false)
            }
        })
    }

    /// Writes to a home pod, as its session wants.
    pub fn write(client: &mut Client<'_>, pod: &PodId, write: &Write) -> Input {
        let uid = pod.uid.clone();
        let Client { cluster, bodies, now, outcome } = client;
        if *outcome == Outcome::Fails {
            return Input::NotWritten { uid, missing: false };
        }
        let Some(home) = present(cluster, pod) else { return Input::PodMissing(uid) };
        let key = Key::new("Pod", &pod.namespace, &pod.name);
        let wanted = Some(uid.0.as_str());
        let status = match write {
            Write::Status { status, outcome, reach, resize } => {
                let guest = match status.map(|digest| bodies.get(&digest)) {
                    None => Value::Null,
                    Some(Found::Here(guest)) => guest,
                    Some(Found::Missing) => return Input::NotWritten { uid, missing: true },
                    // The pod stays as it is until another status comes.
                    Some(Found::Refused(_)) => return Input::Written(uid),
                };
                let (resize, now) = (resize.clone(), time::rfc3339(now.wall_ms));
                let context = StatusContext { host_ip: None, reach: *reach, resize, now };
                Some(forge::home_status(&guest, home, outcome.as_ref(), &context))
            }
            Write::Refusal(refusal) => match refused_status(home, &refusal_text(refusal)) {
                Some(status) => Some(status),
                None => return Input::Written(uid),
            },
            Write::StandIn(refusal) => {
                let now = time::rfc3339(now.wall_ms);
                Some(stand_in_status(home, None, &refusal_text(refusal), &now))
            }
            Write::FinishDeletion => None,
        };
        let done = match status {
            Some(status) => cluster.write_status(*now, &key, wanted, status).map(drop),
            None => cluster.delete(*now, &key, wanted, Some(0)),
        };
        match done {
            Ok(()) if *outcome == Outcome::Answered => Input::Written(uid),
            Err(ApiError { code: 404, .. }) => Input::PodMissing(uid),
            Ok(()) | Err(_) => Input::NotWritten { uid, missing: false },
        }
    }
}

fn node_key(name: &str) -> Key {
    Key::new("Node", "", name)
}

fn present<'a>(cluster: &'a Cluster, pod: &PodId) -> Option<&'a Value> {
    let found = cluster.get(&Key::new("Pod", &pod.namespace, &pod.name));
    found.filter(|found| found["metadata"]["uid"] == pod.uid.0.as_str())
}

/// What the model's API server calls its version.
const VERSION: &str = "v1.35.0-simulated";
