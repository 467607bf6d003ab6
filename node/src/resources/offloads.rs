//! NamespaceOffload: what `mercato offload` does, kept so for as long as the object is
//! there.

mod bursts;
mod open;
mod reach;
mod told;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::Unknown;
use mercato_kubelet::crd::{
    ApiAccess, Condition, EventType, NamespaceOffload, NamespaceOffloadStatus, Objects, READY,
    Strategy, is_deleted,
};
use mercato_kubelet::offload_namespace::{LeftBehind, left_behind};
use mercato_kubelet::{RepeatedEach, warn_once};
use mercato_protocol::id::ClusterId;

use super::ruling::Lacking;
use super::service::{Serve, Service, news, say};
use crate::admin::{Offload, OwnGateway, Problem, Request};
use bursts::BURSTS;
use open::OPEN;
use reach::API_ACCESS;
use told::Told;

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
        let begins = begins(spec.strategy, done.is_ok(), generation, &before.conditions);
        let names = done.as_ref().ok().filter(|_| !spec.to.is_empty());
        let names = names.map(|leaving| slips(&leaving.unknown));
        let (ready, reason, message) = match done {
            Ok(leaving) => {
                let runs = format!("new pods run {place}{}", there.unwrap_or_default());
                leads_to(spec.strategy, leaving.lacks(&how), runs)
            }
            Err(problem) => (false, NOT_READY, problem.in_a_line()),
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
        let left = match begins {
            true => stay(left_behind(&self.service.cluster, &namespace).await?),
            false => None,
        };
        let Beside { reach, bursts, open } = self.beside(object, &namespace).await?;
        let kinds = [(API_ACCESS, &reach), (BURSTS, &bursts), (OPEN, &open)];
        let beside = kinds.into_iter().filter_map(|(kind, told)| Some((kind, told.as_ref()?)));
        conditions.extend(beside.map(|(kind, Told { holds, reason, message })| {
            Condition::of(kind, *holds, reason, message.clone(), generation, &before.conditions)
        }));
        let status = NamespaceOffloadStatus { to: to_line(&spec.to), conditions };
        if !say(objects, object, status, news).await? {
            return Ok(());
        }
        let left = left.map(|message| (EventType::Warning, LEFT_BEHIND.to_owned(), message));
        let further = further(&before.conditions, names.flatten(), reach);
        for (kind, reason, message) in left.into_iter().chain(further) {
            objects.event(object, kind, &reason, &message).await?;
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

    /// What else holds of it, by how the daemon is.
    async fn beside(&self, object: &NamespaceOffload, namespace: &str) -> Result<Beside, Problem> {
        let (calls, bursts) = (object.spec.api_access == ApiAccess::Home, object.spec.burst);
        let (strategy, opens) = (object.spec.strategy, !object.spec.services.is_empty());
        if !calls && !bursts && !opens {
            let open = open::of(strategy, false, namespace, &OwnGateway::default());
            return Ok(Beside { reach: None, bursts: None, open });
        }
        let status = self.service.api.status().await?;
        let all = status.bursts.as_ref();
        Ok(Beside {
            reach: calls.then(|| reach::of(&status.gateway)),
            bursts: bursts.then(|| bursts::of(strategy, namespace, all)),
            open: open::of(strategy, opens, namespace, &status.gateway),
        })
    }
}

/// What holds of an object beside that it is ready; none: it is not asked for.
struct Beside {
    /// Whether pods elsewhere reach this cluster's API server.
    reach: Option<Told>,
    /// Whether capacity is bought for its pods without room.
    bursts: Option<Told>,
    /// Whether guests of other namespaces may call Services of it.
    open: Option<Told>,
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

/// What else is new since these conditions were written: names that match nothing known, and whether the API
/// server is reached.
fn further(
    before: &[Condition],
    names: Option<String>,
    reach: Option<Told>,
) -> impl Iterator<Item = (EventType, String, String)> {
    let said = |kind| before.iter().find(|known| known.kind == kind);
    let is_new = |names: &String| said(NAMES).is_none_or(|said| said.message != *names);
    let names = names.filter(is_new).map(|names| (EventType::Warning, UNKNOWN.to_owned(), names));
    let is_new = |reach: &Told| said(API_ACCESS).is_none_or(|said| said.reason != reach.reason);
    let reach = reach.filter(is_new).map(|Told { holds, reason, message }| {
        (if holds { EventType::Normal } else { EventType::Warning }, reason, message)
    });
    names.into_iter().chain(reach)
}

/// Whether all new pods go elsewhere from now on, by what was written last: those that are there already
/// are looked at then.
fn begins(strategy: Strategy, marked: bool, generation: i64, before: &[Condition]) -> bool {
    let ready = before.iter().find(|known| known.kind == READY);
    let is_known =
        |ready: &Condition| ready.observed_generation == generation && ready.reason != NOT_READY;
    strategy == Strategy::Remote && marked && !ready.is_some_and(is_known)
}

/// That pods were made too early to leave, and what to do; none: none were.
fn stay(left: LeftBehind) -> Option<String> {
    let LeftBehind { pods, more, first } = left;
    let first = first?;
    let which = match (pods, more) {
        (1, false) => format!("the pod {first} was made before its namespace was ready, and stays"),
        (all, false) => {
            format!(
                "{all} pods, {first} the first, were made before their namespace was ready, and stay"
            )
        }
        (some, true) => format!(
            "{some} pods or more, {first} the first, were made before their namespace was ready, and stay"
        ),
    };
    Some(format!(
        "{which} at home: delete them, or roll out again, and they are made elsewhere; none is where the \
         Namespace has the label mercato.dev/offload: remote from its beginning"
    ))
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

/// Why it is not: its namespace is not marked yet.
const NOT_READY: &str = "NotReady";
/// What is said of pods that were made before.
const LEFT_BEHIND: &str = "LeftBehind";
/// Why it is Ready: new pods go where they may.
const OFFLOADED: &str = "Offloaded";
/// What says whether all names in `to` are known.
const NAMES: &str = "NamesKnown";
const KNOWN: &str = "Known";
const UNKNOWN: &str = "UnknownNames";

/// For a table: as short as ids are typed.
fn to_line(to: &[String]) -> String {
    let short = |one: &String| one.parse().map_or(one.clone(), |id: ClusterId| id.short());
    let all: Vec<String> = to.iter().map(short).collect();
    if all.is_empty() { "all".to_owned() } else { all.join(",") }
}

#[cfg(test)]
mod tests {
    use mercato_broker::Noun;

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
    fn of_pods_that_were_made_too_early_it_is_said_once() {
        let said = |reason, generation| {
            Condition::ready(reason == OFFLOADED, (reason, String::new()), generation, &[])
        };
        let begins = |before: &[Condition]| begins(Strategy::Remote, true, 2, before);
        assert!(begins(&[]) && begins(&said(NOT_READY, 2)) && begins(&said(OFFLOADED, 1)));
        assert!(!begins(&said(OFFLOADED, 2)) && !begins(&said("NoNode", 2)));
        assert!(!super::begins(Strategy::Remote, false, 2, &[]), "they may leave later");
        for strategy in [Strategy::Both, Strategy::Local] {
            assert!(!super::begins(strategy, true, 2, &[]), "home takes them");
        }
        assert_eq!(stay(LeftBehind::default()), None);
        let left = |pods, more| stay(LeftBehind { pods, more, first: Some("web-0".into()) });
        let (one, two) = (left(1, false).unwrap(), left(2, false).unwrap());
        assert!(one.starts_with(
            "the pod web-0 was made before its namespace was ready, and stays at home"
        ));
        assert!(two.starts_with("2 pods, web-0 the first, were made"), "{two}");
        assert!(two.ends_with("the label mercato.dev/offload: remote from its beginning"), "{two}");
        assert!(left(500, true).unwrap().starts_with("500 pods or more, web-0 the first"));
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
}
