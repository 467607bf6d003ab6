//! Services of a namespace: when the provider is told of them, and when they are to go.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_offload::address::Tunnel;
use mercato_offload::home;
use mercato_offload::key::{Item, ObjectKey, ObjectKind, Uid, key};
use mercato_offload::limits;
use mercato_offload::message::{Outcome, Report, Stage, ToGuest, ToHome};
use mercato_protocol::id::Digest;

use super::told::{Lied, at_home, pod, refusal};

fn web() -> ObjectKey {
    key(ObjectKind::Service, "shop", "web")
}

fn slice() -> ObjectKey {
    key(ObjectKind::EndpointSlice, "shop", "web-x7")
}

fn services(namespace: &str, objects: &[(ObjectKey, &[u8])]) -> home::Input {
    let objects = objects.iter().map(|(key, body)| (key.clone(), Digest::of(body)));
    home::Input::Services { namespace: namespace.to_owned(), objects: objects.collect() }
}

fn agreed() -> home::Input {
    home::Input::Tunnel(Tunnel::Agreed(IpNet::from(IpAddr::from([10, 200, 0, 1]))))
}

/// What was said of Services since, in this order: kept with this content, or dropped.
fn said(lied: &mut Lied) -> Vec<(ObjectKey, Option<Digest>)> {
    let mut said = Vec::new();
    for statement in std::mem::take(&mut lied.told) {
        if let ToGuest::Put { item: Item::Object(key), digest, .. } = statement {
            said.push((key, Some(digest)));
        } else if let ToGuest::Drop(key) = statement {
            said.push((key, None));
        }
    }
    said.retain(|(key, _)| key.is_of_namespace());
    said
}

/// A pod is gone at home, and over at the provider.
fn ends(lied: &mut Lied, uid: &str) {
    lied.takes(home::Input::PodGone(Uid(uid.to_owned())));
    let report = Report { status: None, stage: Stage::Gone(Outcome::Succeeded) };
    lied.says(vec![ToHome::Status { pod: pod(uid, "web"), report }]);
}

/// Home with a pod that has left, and its Service, of which the provider knows.
fn with_services() -> Lied {
    let mut lied = Lied::to();
    lied.says(vec![ToHome::HaveEnd]);
    lied.takes(services("shop", &[(web(), b"one"), (slice(), b"where")]));
    assert_eq!(said(&mut lied), [], "the provider may not know the word yet");
    lied.takes(agreed());
    let all = [(web(), Some(Digest::of(b"one"))), (slice(), Some(Digest::of(b"where")))];
    assert_eq!(said(&mut lied), all, "a Service comes before its endpoints");
    lied
}

/// As once home was away while a Service went, and was back before its link.
#[test]
fn what_the_provider_has_beyond_a_list_that_came_before_is_dropped() {
    let old = Some(Digest::of(b"old"));
    let have = |key| ToHome::Have { item: Item::Object(key), digest: old, report: None };
    let mut lied = Lied::to();
    lied.takes(agreed());
    lied.takes(services("shop", &[(web(), b"one")]));
    lied.says(vec![have(slice()), have(web()), ToHome::HaveEnd]);
    assert_eq!(said(&mut lied), [(web(), Some(Digest::of(b"one"))), (slice(), None)]);
    // Of what is not listed yet nothing is known.
    let mut lied = Lied::to();
    lied.takes(agreed());
    lied.says(vec![have(slice()), ToHome::HaveEnd]);
    assert_eq!(said(&mut lied), []);
    lied.takes(services("shop", &[]));
    assert_eq!(said(&mut lied), [(slice(), None)]);
}

#[test]
fn services_that_come_and_go_take_no_room_of_others() {
    let mut lied = with_services();
    for n in 0..limits::OBJECTS {
        let key = key(ObjectKind::Service, "shop", &format!("web-{n}"));
        let change = |digest| home::Input::Object { key: key.clone(), digest };
        lied.takes(change(Some(Digest::of(b"one"))));
        lied.takes(change(None));
    }
    said(&mut lied);
    let last = key(ObjectKind::Service, "shop", "last");
    let digest = Digest::of(b"one");
    lied.takes(home::Input::Object { key: last.clone(), digest: Some(digest) });
    assert_eq!(said(&mut lied), [(last, Some(digest))]);
}

#[test]
fn services_are_told_as_they_are_and_as_they_change() {
    let mut lied = with_services();
    let change = |digest| home::Input::Object { key: slice(), digest };
    lied.takes(change(Some(Digest::of(b"elsewhere"))));
    assert_eq!(said(&mut lied), [(slice(), Some(Digest::of(b"elsewhere")))]);
    lied.takes(change(None));
    assert_eq!(said(&mut lied), [(slice(), None)]);
    // A list that is taken anew has one more, and one less.
    let late = key(ObjectKind::Service, "shop", "late");
    lied.takes(services("shop", &[(late.clone(), b"late")]));
    assert_eq!(said(&mut lied), [(late, Some(Digest::of(b"late"))), (web(), None)]);
    // Of other namespaces nothing is told, whoever says so.
    lied.takes(services("bank", &[(key(ObjectKind::Service, "bank", "safe"), b"safe")]));
    lied.takes(services("shop", &[(key(ObjectKind::Secret, "shop", "keys"), b"keys")]));
    assert!(said(&mut lied).iter().all(|(key, digest)| key.name == "late" && digest.is_none()));
}

#[test]
fn services_that_are_known_before_the_first_pod_are_told_with_it() {
    let mut lied = Lied::to();
    lied.says(vec![ToHome::HaveEnd]);
    lied.takes(agreed());
    ends(&mut lied, "u1");
    lied.takes(services("shop", &[(web(), b"one")]));
    assert_eq!(said(&mut lied), []);
    lied.takes(home::Input::Pod(home::HomePod { pod: pod("u2", "web"), ..at_home() }));
    assert_eq!(said(&mut lied), [(web(), Some(Digest::of(b"one")))]);
}

#[test]
fn services_go_with_the_last_pod_that_leaves() {
    for last in [
        None,
        Some(home::HomePod { terminal: true, ..at_home() }),
        Some(home::HomePod { refusal: Some(refusal()), ..at_home() }),
    ] {
        let mut lied = with_services();
        match last.clone() {
            Some(pod) => lied.takes(home::Input::Pod(pod)),
            None => {
                lied.takes(home::Input::PodGone(Uid("u1".to_owned())));
                assert_eq!(said(&mut lied), [], "it may still run");
                ends(&mut lied, "u1");
            }
        }
        assert_eq!(said(&mut lied), [(web(), None), (slice(), None)], "{last:?}");
        // They come again with the next one, though nothing has changed at home.
        lied.takes(home::Input::Pod(home::HomePod { pod: pod("u2", "web"), ..at_home() }));
        assert_eq!(said(&mut lied).len(), 2);
        // Home follows them no more.
        ends(&mut lied, "u2");
        lied.takes(home::Input::Services { namespace: "shop".into(), objects: BTreeMap::new() });
        said(&mut lied);
        lied.takes(home::Input::Pod(home::HomePod { pod: pod("u3", "web"), ..at_home() }));
        assert_eq!(said(&mut lied), []);
    }
}

fn db() -> ObjectKey {
    key(ObjectKind::Service, "data", "db")
}

fn open(namespaces: &[&str]) -> home::Input {
    home::Input::Open(namespaces.iter().map(|name| ((*name).to_owned(), None)).collect())
}

#[test]
fn services_of_an_open_namespace_are_there_while_any_pod_leaves_and_it_is_open() {
    let one = Some(Digest::of(b"one"));
    let with_db = || {
        let mut lied = with_services();
        lied.takes(services("data", &[(db(), b"one")]));
        assert_eq!(said(&mut lied), [], "nobody opens it");
        lied.takes(open(&["data"]));
        assert_eq!(said(&mut lied), [(db(), one)]);
        lied
    };
    let mut lied = with_db();
    lied.takes(open(&["logs"]));
    assert_eq!(said(&mut lied), [(db(), None)], "its owner takes it back");
    let mut lied = with_db();
    ends_gone(&mut lied);
    assert!(said(&mut lied).contains(&(db(), None)), "the last guest has gone");
    lied.takes(home::Input::Pod(home::HomePod { pod: pod("u2", "web"), ..at_home() }));
    assert!(said(&mut lied).contains(&(db(), one)), "another one comes");
    // Without a single guest nothing is open, whatever is said.
    let mut lied = Lied::to();
    lied.says(vec![ToHome::HaveEnd]);
    lied.takes(agreed());
    ends_gone(&mut lied);
    lied.takes(open(&["data"]));
    lied.takes(services("data", &[(db(), b"one")]));
    assert_eq!(said(&mut lied), []);
}

fn ends_gone(lied: &mut Lied) {
    lied.takes(home::Input::PodGone(Uid("u1".to_owned())));
    ends(lied, "u1");
}

/// A Service that is dropped and made again has another address there.
#[test]
fn a_home_that_starts_anew_drops_no_service_that_is_still_open() {
    let one = Some(Digest::of(b"one"));
    let have = |key| ToHome::Have { item: Item::Object(key), digest: one, report: None };
    let mut lied = Lied::to();
    lied.takes(open(&["data"]));
    lied.says(vec![have(db()), ToHome::HaveEnd]);
    lied.takes(agreed());
    assert_eq!(said(&mut lied), []);
    lied.takes(services("data", &[(db(), b"one")]));
    assert_eq!(said(&mut lied), []);
    lied.takes(services("data", &[]));
    assert_eq!(said(&mut lied), [(db(), None)]);
}

#[test]
fn an_open_namespace_is_called_as_its_owner_says_and_no_more_are_open_than_a_lease_takes() {
    let mut lied = with_services();
    lied.takes(home::Input::Open([("data".to_owned(), Some("data-eu".to_owned()))].into()));
    lied.takes(services("data", &[(db(), b"one")]));
    let places: Vec<_> = std::mem::take(&mut lied.told)
        .into_iter()
        .filter_map(|told| if let ToGuest::Put { place, .. } = told { Some(place) } else { None })
        .collect();
    assert_eq!(places, [Some("data-eu".to_owned())]);
    let many: Vec<String> = (0..=limits::OPEN_NAMESPACES).map(|n| format!("n-{n:02}")).collect();
    lied.takes(open(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    said(&mut lied);
    for (n, namespace) in many.iter().enumerate() {
        let service = key(ObjectKind::Service, namespace, "db");
        lied.takes(services(namespace, &[(service.clone(), b"one")]));
        let is_there = n < limits::OPEN_NAMESPACES;
        assert_eq!(
            said(&mut lied),
            is_there.then_some((service, one_digest())).into_iter().collect::<Vec<_>>()
        );
    }
}

fn one_digest() -> Option<Digest> {
    Some(Digest::of(b"one"))
}

/// Over there a Service that is made anew has another address, which nobody knows.
#[test]
fn services_stay_while_there_is_no_tunnel_and_over_a_new_link() {
    let mut lied = with_services();
    for news in [Tunnel::Awaited, Tunnel::Off] {
        lied.takes(home::Input::Tunnel(news));
        assert_eq!(said(&mut lied), []);
    }
    lied.takes(home::Input::Object { key: slice(), digest: None });
    assert_eq!(said(&mut lied), [(slice(), None)], "what is gone goes");
    lied.takes(agreed());
    assert_eq!(said(&mut lied), []);
    // A home that starts anew hears what is there before it knows what it has itself.
    let mut lied = Lied::to();
    let have = |key: ObjectKey, body: &[u8]| {
        let (item, digest) = (Item::Object(key), Some(Digest::of(body)));
        ToHome::Have { item, digest, report: None }
    };
    lied.says(vec![have(web(), b"one"), have(slice(), b"old"), ToHome::HaveEnd]);
    lied.takes(agreed());
    assert_eq!(said(&mut lied), []);
    lied.takes(services("shop", &[(web(), b"one")]));
    assert_eq!(said(&mut lied), [(slice(), None)]);
}

/// The first by name, as after a start of either side; one that goes makes room for the next.
#[test]
fn of_too_many_services_the_first_by_name_are_there() {
    let room = usize::try_from(limits::GUEST_NAMESPACE_SERVICES).unwrap();
    let named = |n: usize| key(ObjectKind::Service, "shop", &format!("s-{n:03}"));
    let all = |without: Option<usize>| -> home::Input {
        let some = (0..900).filter(|n| Some(*n) != without).map(|n| (named(n), &b"one"[..]));
        services("shop", &some.collect::<Vec<_>>())
    };
    let mut lied = with_services();
    said(&mut lied);
    lied.effects.clear();
    lied.takes(all(None));
    let held: Vec<_> = said(&mut lied).into_iter().filter(|(_, digest)| digest.is_some()).collect();
    let first = |count: usize| (0..count).map(named).collect::<Vec<_>>();
    assert_eq!(held.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), first(room));
    let told = |lied: &mut Lied| -> Vec<String> {
        let refused = |effect: &home::Effect| {
            let home::Effect::ObjectRefused(key, refusal) = effect else { return None };
            Some((key.kind, refusal.reason.clone()))
        };
        let told = lied.effects.drain(..).filter_map(|effect| refused(&effect));
        told.map(|(kind, why)| format!("{kind:?}: {why}")).collect()
    };
    let said_once = told(&mut lied);
    assert_eq!(said_once.len(), 1, "{said_once:?}");
    assert!(said_once[0].starts_with("Namespace: a provider takes 512"), "{said_once:?}");
    assert!(said_once[0].contains("those from s-512 on"), "{said_once:?}");
    lied.takes(all(Some(7)));
    let now = said(&mut lied);
    assert!(now.contains(&(named(7), None)), "{now:?}");
    assert_eq!(now.iter().filter(|(_, digest)| digest.is_some()).count(), 1, "{now:?}");
    assert!(now.iter().any(|(key, digest)| *key == named(room) && digest.is_some()), "{now:?}");
    assert_eq!(told(&mut lied), Vec::<String>::new(), "once");
    let left_out = |lied: &Lied| lied.home.left_out().get("shop").map(ToString::to_string);
    let now = left_out(&lied);
    assert!(now.as_ref().is_some_and(|now| now.contains("387, from s-513 on")), "{now:?}");
    lied.takes(services("shop", &[(named(0), b"one")]));
    assert_eq!(left_out(&lied), None);
}
