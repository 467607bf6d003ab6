//! What watches tell of the guest objects of a lease, one by one and as a whole.

use mercato_offload::forge::{self, Gate, KnownGuests};
use mercato_offload::key::key;
use mercato_protocol::id::Digest;
use serde_json::json;

use super::*;

fn observed(name: &str) -> Observed {
    let item = Item::Object(key(ObjectKind::ConfigMap, "shop", name));
    Observed { item, digest: Digest::of(b""), pod: None }
}

fn read(name: &str) -> Read {
    Read::of(observed(name), &Value::Null)
}

fn service(name: &str, addresses: &[&str], deleted: bool) -> Option<Read> {
    let item = Item::Object(key(ObjectKind::Service, "shop", name));
    let deletion = deleted.then_some("2026-01-01T00:00:00Z");
    let object = json!({ "metadata": { "deletionTimestamp": deletion },
        "spec": { "clusterIP": addresses.first(), "clusterIPs": addresses } });
    Some(Read::of(Observed { item, digest: Digest::of(b""), pod: None }, &object))
}

fn life() -> Life {
    Life::lasting("shop-rome")
}

fn seen_of(all: BTreeMap<Source, Known>) -> Seen {
    Seen { all, pace: Pace::default(), deletions: 0 }
}

#[test]
fn services_have_addresses_as_long_as_they_are_there() {
    let source = (SERVICE, "shop-rome".to_owned());
    let mut seen = seen_of([(source.clone(), Known { life: life(), all: None })].into());
    let mut after = |change| {
        seen.take(source.clone(), change);
        seen.addresses().into_iter().map(|it| it.here.to_string()).collect::<Vec<_>>()
    };
    let [web, api] = ["10.96.0.7", "10.96.0.8"];
    let both = [web, "fd00:10:96::7"];
    let all = vec![
        service("web", &both, false),
        service("members", &["None"], false),
        service("late", &[], false),
    ];
    assert_eq!(after(Change::Synced(all)), [web]);
    assert_eq!(after(Change::Changed(service("api", &[api], false))), [web, api]);
    assert_eq!(after(Change::Changed(service("web", &both, true))), [api]);
    assert_eq!(after(Change::Deleted(service("api", &[api], false))), [""; 0]);
    assert_eq!(after(Change::Changed(service("web", &[web], false))), [web]);
    assert_eq!(after(Change::Synced(vec![None])), [""; 0]);
    let mut map = observed("web");
    let says = json!({ "spec": { "clusterIPs": [web] } });
    assert!(Read::of(map.clone(), &says).addresses.is_empty(), "it is no Service");
    map.item = service("web", &[], false).unwrap().observed.item;
    assert_eq!(Read::of(map, &says).addresses.len(), 1);
}

/// Of a contract that requires isolation, and of no other; each is told once.
#[test]
fn guests_on_a_node_that_is_left_out_are_told_of_again() {
    let pods = (POD, "shop-rome".to_owned());
    let mut seen = seen_of([(pods.clone(), Known { life: life(), all: None })].into());
    let (mut context, known) = (crate::guest::tests::context(), KnownGuests::default());
    let pod = |uid: &str, node: &str| {
        let mut guest = crate::guest::tests::guest(&context.contract.to_string(), uid);
        guest["spec"]["nodeName"] = node.into();
        let observed = forge::observe(&context, &known, &guest)?;
        Some(Read::of(observed, &guest))
    };
    let all = vec![pod("u1", "n1"), pod("u2", "n2"), pod("u3", "")];
    assert!(all.iter().all(Option::is_some));
    seen.take(pods, Change::Synced(all));
    context.left_out = ["n2".to_owned(), "n9".to_owned()].into();
    assert_eq!(seen.left_out(&context), [], "it asks for no isolation");
    context.gate = Some(Gate::default());
    let told = seen.left_out(&context);
    let [Input::Observed(Observed { item: Item::Pod(id), pod: Some(pod), .. })] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((id.uid.0.as_str(), pod.left_out), ("u2", true));
    assert_eq!(seen.left_out(&context), []);
}

#[test]
fn a_namespace_that_is_not_listed_holds_up_no_other() {
    let listed = |one: Option<Read>| {
        let all = one.map(|one| (one.observed.item.clone(), one)).into_iter().collect();
        Known { life: life(), all: Some(all) }
    };
    let of = |kind, guest: &str| (kind, guest.to_owned());
    let all = [
        (of(POD, "shop-rome"), listed(None)),
        (of(SERVICE, "shop-rome"), listed(service("web", &["10.96.0.7"], false))),
        (of(ENDPOINT_SLICE, "shop-rome"), listed(None)),
        (of(SERVICE, "bank-rome"), listed(None)),
        (of(ENDPOINT_SLICE, "bank-rome"), Known { life: life(), all: None }),
    ];
    let mut seen = seen_of(all.into());
    let mut context = crate::guest::tests::context();
    context.namespaces =
        ["bank", "new", "shop"].map(|home| (home.into(), format!("{home}-rome"))).into();
    let said = seen.names(&context).unwrap();
    let told: Vec<_> = said
        .namespaces
        .iter()
        .map(|it| (it.home.as_str(), it.services.len(), it.is_part))
        .collect();
    assert_eq!(told, [("bank", 0, true), ("new", 0, true), ("shop", 1, false)]);
    seen.all.insert((POD, "bank-rome".to_owned()), Known { life: life(), all: None });
    assert_eq!(seen.names(&context), None, "home's domain is not known yet");
}

#[test]
fn a_part_of_the_list_is_not_the_list() {
    let (pods, maps) = ((POD, "shop-rome".to_owned()), (CONFIG_MAP, "shop-rome".to_owned()));
    let shop = Life::lasting("shop-rome");
    let unlisted = || Known { life: shop.clone(), all: None };
    let of = [(pods.clone(), unlisted()), (maps.clone(), unlisted())];
    let mut seen = seen_of(of.into());
    assert_eq!(seen.take(pods.clone(), Change::Synced(vec![])), None);
    let whole = seen.take(maps.clone(), Change::Synced(vec![Some(read("a")), None]));
    assert_eq!(whole, Some(Input::Synced(vec![observed("a")])));
    let gone = seen.take(maps.clone(), Change::Deleted(Some(read("a"))));
    assert_eq!(gone, Some(Input::Gone(observed("a").item)));
    assert_eq!(seen.take(pods, Change::Synced(vec![])), Some(Input::Synced(vec![])));
    // A further namespace: nothing is the whole again until it is listed.
    seen.all.insert((SECRET, "other".into()), unlisted());
    assert_eq!(seen.take(maps, Change::Synced(vec![])), None);
    // It goes before it could be listed: the others are the whole without it.
    let doomed = Life::lasting("doomed");
    seen.all.insert((SERVICE, "doomed".into()), Known { life: doomed, all: None });
    seen.all.remove(&(SECRET, "other".into()));
    assert_eq!(seen.take((CONFIG_MAP, "shop-rome".into()), Change::Synced(vec![])), None);
    assert_eq!(seen.keep(std::slice::from_ref(&shop)), Some(Input::Synced(vec![])));
    assert_eq!(seen.keep(&[shop]), None, "it was said");
    // One that is left: nothing of it is the lease's any more.
    let left = (CONFIG_MAP, "left".into());
    assert_eq!(seen.take(left, Change::Changed(Some(read("b")))), None);
}

#[test]
fn an_answer_counts_as_long_as_no_watch_tells_of_it() {
    let item = |name| observed(name).item;
    let asked = |kind, object| {
        let guest = "shop-rome".to_owned();
        Asked { item: item("a"), kind, guest, object, since: None }
    };
    let there = |kind| asked(kind, Some(Value::Null));
    let answer = |seen: &Seen, asked| seen.answer(asked, |_| Some(observed("a")));
    let (secrets, maps) = ((SECRET, "shop-rome".to_owned()), (CONFIG_MAP, "shop-rome".to_owned()));
    let unlisted = || Known { life: life(), all: None };
    let mut seen = seen_of([(secrets, unlisted()), (maps.clone(), unlisted())].into());
    let told = Answered::Tells(Input::Observed(observed("a")).into());
    assert_eq!(answer(&seen, there(CONFIG_MAP)), told, "it has not been listed yet");
    seen.take(maps.clone(), Change::Synced(vec![]));
    let later = "it may be older than what its watch has told";
    assert_eq!(answer(&seen, there(CONFIG_MAP)), Answered::Again(item("a")), "{later}");
    let again = |seen: &Seen, since| answer(seen, Asked { since, ..there(CONFIG_MAP) });
    let since = Some(seen.deletions);
    assert_eq!(again(&seen, since), told, "the list does not know it by its marks");
    seen.take(maps.clone(), Change::Deleted(Some(read("b"))));
    assert_eq!(again(&seen, since), Answered::Again(item("a")), "it may have been this one");
    assert_eq!(answer(&seen, there(SECRET)), told);
    assert_eq!(answer(&seen, there(SERVICE)), told, "nobody follows them");
    let gone = Answered::Tells(Input::Gone(item("a")).into());
    assert_eq!(answer(&seen, asked(SECRET, None)), gone);
    assert_eq!(answer(&seen, asked(CONFIG_MAP, None)), gone, "it is not in the list either");
    seen.take(maps.clone(), Change::Changed(Some(read("a"))));
    let stands = answer(&seen, asked(CONFIG_MAP, None));
    assert_eq!(stands, Answered::Nothing, "it was made since: {later}");
    seen.take(maps, Change::Deleted(Some(read("a"))));
    assert_eq!(answer(&seen, asked(CONFIG_MAP, None)), gone);
}
