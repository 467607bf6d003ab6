//! NamespaceOffload: what `mercato offload` does, kept so for as long as the object is
//! there.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::Unknown;
use mercato_kubelet::crd::{
    ApiAccess, Condition, EventType, NamespaceOffload, NamespaceOffloadStatus, Objects, Strategy,
    is_deleted,
};
use mercato_kubelet::{RepeatedEach, warn_once};
use mercato_protocol::id::ClusterId;

use super::ruling::Lacking;
use super::service::{Serve, Service, news, say};
use crate::admin::{Offload, OwnGateway, Problem, Request};

pub(super) struct Offloads {
    pub(super) service: Service,
    pub(super) failing: RepeatedEach,
}

impl Serve for Offloads {
    type Kind = NamespaceOffload;

    fn serve<'a>(&'a mut self, objects: &'a mut Objects<NamespaceOffload>) -> BoxFuture<'a, ()> {
        async move {
            self.failing.begin();
            let all = objects.all().unwrap_or_default();
            self.service.ruling.send_if_modified(|ruling| ruling.take_offloads(&all));
            for object in all {
                if let Err(why) = self.one(objects, &object).await {
                    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
                    let repeated = self.failing.of(namespace);
                    warn_once!(repeated, why; namespace, "a NamespaceOffload does not hold yet");
                }
            }
        }
        .boxed()
    }
}

impl Offloads {
    /// What it lacks is told elsewhere as well, by `status` and `doctor`: that it is not ready, or a slip.
    fn lacks(&self, namespace: &str, is_ready: bool, has_slip: bool, message: &str) {
        let lacking =
            (!is_ready || has_slip).then(|| Lacking { is_ready, message: message.to_owned() });
        self.service.ruling.send_if_modified(|ruling| ruling.lacks(namespace, lacking));
    }

    async fn one(
        &self,
        objects: &mut Objects<NamespaceOffload>,
        object: &NamespaceOffload,
    ) -> Result<(), Problem> {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        if is_deleted(object) {
            return self.comes_home(objects, object, namespace).await;
        }
        objects.hold(object, true).await?;
        let spec = &object.spec;
        let place = match spec.strategy {
            Strategy::Local => "at home",
            Strategy::Remote => "elsewhere",
            Strategy::Both => "at home or elsewhere",
        };
        let how = spec.opt_in();
        let called = how.name.place(&namespace).ok().flatten();
        let there = called.map(|name| format!(", there in namespace {name}"));
        let offload = Offload { namespace: namespace.clone(), how: how.clone(), further: false };
        let mut done = self.service.api.offload(offload).await;
        let before = object.status.clone().unwrap_or_default();
        let generation = object.metadata.generation.unwrap_or_default();
        if let Ok(leaving) = &mut done
            && was_known(generation, &before.conditions)
        {
            leaving.unknown.clear();
        }
        let names = done.as_ref().ok().filter(|_| !spec.to.is_empty());
        let names = names.map(|leaving| slips(&leaving.unknown));
        let (ready, reason, message) = match done {
            Ok(leaving) => {
                let runs = format!("new pods run {place}{}", there.unwrap_or_default());
                leads_to(spec.strategy, leaving.lacks(&how), runs)
            }
            Err(problem) => (false, "NotReady", problem.in_a_line()),
        };
        let slip = names.iter().flatten().map(|names| format!("; {names}"));
        let message = slip.fold(message, |message, slip| message + &slip);
        self.lacks(&namespace, ready, names.iter().flatten().next().is_some(), &message);
        let kind = if ready { EventType::Normal } else { EventType::Warning };
        let mut conditions =
            Condition::ready(ready, (reason, message), generation, &before.conditions);
        let news = news(kind, &before.conditions, &conditions);
        conditions.extend(names.as_ref().map(|slips| {
            let (reason, said) = (slips.as_ref().map_or(KNOWN, |_| UNKNOWN), &before.conditions);
            let message = slips.clone().unwrap_or_default();
            Condition::of(NAMES, slips.is_none(), reason, message, generation, said)
        }));
        let reach = self.reach_of_api(object).await?;
        conditions.extend(reach.as_ref().map(|reach| {
            let Reach { holds, reason, message } = reach;
            let (kind, before) = (API_ACCESS, &before.conditions);
            Condition::of(kind, *holds, reason, message.clone(), generation, before)
        }));
        let status = NamespaceOffloadStatus { to: to_line(&spec.to), conditions };
        if !say(objects, object, status, news).await? {
            return Ok(());
        }
        let said = |kind| before.conditions.iter().find(|known| known.kind == kind);
        if let Some(message) = names.flatten()
            && said(NAMES).is_none_or(|said| said.message != message)
        {
            objects.event(object, EventType::Warning, UNKNOWN, &message).await?;
        }
        if let Some(Reach { holds, reason, message }) = reach
            && said(API_ACCESS).is_none_or(|said| said.reason != reason)
        {
            let kind = if holds { EventType::Normal } else { EventType::Warning };
            objects.event(object, kind, reason, &message).await?;
        }
        Ok(())
    }

    /// Brings the pods of a namespace home whose object is deleted, and lets that go.
    async fn comes_home(
        &self,
        objects: &mut Objects<NamespaceOffload>,
        object: &NamespaceOffload,
        namespace: String,
    ) -> Result<(), Problem> {
        let request = match self.service.offloads_all {
            true => Request::Offload(Offload { namespace, ..Offload::default() }),
            false => Request::Unoffload(namespace),
        };
        // Of pods that stay behind their events tell.
        self.service.api.ask(request).await?;
        Ok(objects.hold(object, false).await?)
    }

    /// Whether pods elsewhere reach this cluster's API server, where they may; none: they may not.
    async fn reach_of_api(&self, object: &NamespaceOffload) -> Result<Option<Reach>, Problem> {
        if object.spec.api_access != ApiAccess::Home {
            return Ok(None);
        }
        let status = self.service.api.status().await?;
        Ok(Some(Reach::of(&status.gateway)))
    }
}

/// Whether new pods go where the strategy says, why, and what they do; `lacks` says that there is no
/// virtual node for them.
fn leads_to(
    strategy: Strategy,
    lacks: Option<String>,
    runs: String,
) -> (bool, &'static str, String) {
    match (strategy, lacks) {
        (_, None) => (true, OFFLOADED, runs),
        (Strategy::Remote, Some(lacks)) => (false, "NoNode", lacks),
        (Strategy::Local | Strategy::Both, Some(lacks)) => (true, OFFLOADED, lacks),
    }
}

/// Whether all names in it have been known since it was written so: whose offer is gone was no slip.
fn was_known(generation: i64, before: &[Condition]) -> bool {
    let known = before.iter().find(|known| known.kind == NAMES);
    known.is_some_and(|known| known.reason == KNOWN && known.observed_generation == generation)
}

/// That names match nothing known; none: they do.
fn slips(unknown: &[Unknown]) -> Option<String> {
    let names: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    (!names.is_empty()).then(|| format!("spec.to: {}", names.join("; ")))
}

/// Whether pods elsewhere reach this cluster's API server, and why, or why not.
#[derive(Debug, PartialEq, Eq)]
struct Reach {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Reach {
    /// With what is known of this cluster's end of all tunnels.
    fn of(gateway: &OwnGateway) -> Self {
        let why = gateway.reason.as_deref().unwrap_or(NO_GATEWAY);
        let not = |reason, why: &str| {
            let message = format!("pods elsewhere do not reach this cluster's API server: {why}");
            Self { holds: false, reason, message }
        };
        match (gateway.enabled, &gateway.api.reason) {
            (false, _) => not("NoGateway", why),
            (true, Some(why)) => not("NotReachable", why),
            (true, None) if gateway.pool.is_some_and(|pool| pool.addr().is_ipv6()) => {
                not("NoIpv4", "gateway.pool is of IPv6; set one of IPv4, with poolV6 beside it")
            }
            (true, None) => Self {
                holds: true,
                reason: "Reachable",
                message: "pods elsewhere reach this cluster's API server as kubernetes.default.svc"
                    .to_owned(),
            },
        }
    }
}

/// Why it is Ready: new pods go where they may.
const OFFLOADED: &str = "Offloaded";
/// What says whether all names in `to` are known.
const NAMES: &str = "NamesKnown";
const KNOWN: &str = "Known";
const UNKNOWN: &str = "UnknownNames";
/// What says whether pods elsewhere reach this cluster's API server.
const API_ACCESS: &str = "ApiReachable";
/// What its owner has to set.
const NO_GATEWAY: &str =
    "there is no gateway, by whose tunnels they would: set gateway.enabled: on";

/// For a table: as short as ids are typed.
fn to_line(to: &[String]) -> String {
    let short = |one: &String| one.parse().map_or(one.clone(), |id: ClusterId| id.short());
    let all: Vec<String> = to.iter().map(short).collect();
    if all.is_empty() { "all".to_owned() } else { all.join(",") }
}

#[cfg(test)]
mod tests {
    use mercato_broker::Noun;

    use crate::admin::OwnApiServer;

    use super::*;

    #[test]
    fn without_a_node_new_pods_wait_or_run_at_home() {
        let is = |strategy, lacks: Option<&str>| {
            leads_to(strategy, lacks.map(str::to_owned), "new pods run elsewhere".to_owned())
        };
        let (ready, reason, said) = is(Strategy::Remote, Some("no virtual node is there"));
        assert_eq!((ready, reason, &*said), (false, "NoNode", "no virtual node is there"));
        let (ready, reason, said) = is(Strategy::Both, Some("new pods run at home until"));
        assert_eq!((ready, reason, &*said), (true, "Offloaded", "new pods run at home until"));
        let (ready, reason, said) = is(Strategy::Remote, None);
        assert_eq!((ready, reason, &*said), (true, "Offloaded", "new pods run elsewhere"));
    }

    #[test]
    fn a_name_that_was_known_once_is_no_slip() {
        let names = |generation, slips: Option<String>| {
            let reason = slips.as_ref().map_or(KNOWN, |_| UNKNOWN);
            let message = slips.clone().unwrap_or_default();
            vec![Condition::of(NAMES, slips.is_none(), reason, message, generation, &[])]
        };
        let known = names(2, None);
        assert!(was_known(2, &known) && !was_known(3, &known));
        let unknown = Unknown { kind: Noun::Node, name: "mercato-truin".into(), nearest: None };
        let said = slips(&[unknown]);
        assert!(said.as_ref().is_some_and(|said| said.starts_with("spec.to: mercato-truin is no")));
        assert!(!was_known(2, &names(2, said)) && !was_known(2, &[]));
        assert_eq!(slips(&[]), None);
    }

    #[test]
    fn why_nobody_reaches_the_api_server_is_said_with_what_to_do() {
        let on = OwnGateway {
            enabled: true,
            pool: "10.200.0.0/13".parse().ok(),
            ..OwnGateway::default()
        };
        assert_eq!((Reach::of(&on).holds, Reach::of(&on).reason), (true, "Reachable"));
        let why = |gateway: &OwnGateway| {
            let reach = Reach::of(gateway);
            assert!(!reach.holds, "{reach:?}");
            (reach.reason, reach.message)
        };
        let (reason, said) = why(&OwnGateway::default());
        assert!(reason == "NoGateway" && said.contains("gateway.enabled: on"), "{said}");
        let broken = OwnGateway { reason: Some("no /dev/net/tun".into()), ..OwnGateway::default() };
        assert!(why(&broken).1.ends_with("no /dev/net/tun"));
        let api = OwnApiServer { reason: Some("port 443 is taken".into()), ..on.api.clone() };
        assert_eq!(why(&OwnGateway { api, ..on.clone() }).0, "NotReachable");
        let six = OwnGateway { pool: "fd00::/48".parse().ok(), ..on };
        assert_eq!(why(&six).0, "NoIpv4");
    }
}
