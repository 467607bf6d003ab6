//! What is kept, and what falls out.

use mercato_offload::key::{ObjectKind, key};
use mercato_protocol::limits::OBJECT_BYTES;
use serde_json::json;

use super::*;

fn item(name: &str) -> Item {
    Item::Object(key(ObjectKind::ConfigMap, "shop", name))
}

fn named(digest: Digest, name: &str) -> BTreeMap<Digest, Vec<Item>> {
    BTreeMap::from([(digest, vec![item(name)])])
}

fn receive(bodies: &Bodies, text: &[u8], named: &BTreeMap<Digest, Vec<Item>>) -> usize {
    bodies.receive(Way::ToGuest, [text].into_iter(), named)
}

#[test]
fn what_is_kept_is_found_and_what_nobody_named_is_not_taken() {
    let bodies = Bodies::default();
    let object = json!({ "b": 1, "a": [true] });
    let digest = bodies.keep(Way::ToGuest, &item("a"), &object).unwrap();
    assert_eq!(bodies.object(&digest), Found::Here(object.clone()));
    let (other, named) = (Bodies::default(), named(digest, "a"));
    assert_eq!(receive(&other, b"{\"a\":[true],\"b\":2}", &named), 0);
    assert!(other.lock().bodies.is_empty(), "nobody named it");
    // Another program may have its keys in another order.
    assert_eq!(receive(&other, b"{\"b\":1,\"a\":[true]}", &named), 0);
    assert_eq!(other.object(&digest), Found::Here(object));
}

#[test]
fn what_is_too_much_is_refused_where_it_comes_from_and_where_it_comes_to() {
    let bodies = Bodies::default();
    let list = |values: usize| Value::from(vec![0_u8; values - 1]);
    let most = Limits::of(Way::ToGuest).values;
    let keep = |values| bodies.keep(Way::ToGuest, &item("a"), &list(values));
    let (largest, refused) = (keep(most).unwrap(), keep(most + 1).unwrap_err());
    assert_eq!(refused.path, "data");
    assert!(!bodies.is_small(&largest));
    let other = Bodies::default();
    let (text, named_so) = (list(most).to_string(), named(largest, "a"));
    assert_eq!(receive(&other, text.as_bytes(), &named_so), 0);
    assert_eq!(other.object(&largest), Found::Here(list(most)));
    let (text, digest) = (list(most + 1).to_string(), forge::digest(&list(most + 1)));
    assert_eq!(receive(&other, text.as_bytes(), &named(digest, "b")), 0);
    assert_eq!(other.object(&digest), Found::Refused(refused));
    assert_eq!(other.to_send(Way::ToGuest, &digest, &item("b")), Found::Missing);
}

#[test]
fn a_peer_that_would_end_the_stream_is_not_sent_what_it_does_not_take() {
    let bodies = Bodies::default();
    let keep = |values: usize| {
        bodies.keep(Way::ToGuest, &item("a"), &Value::from(vec![0_u8; values - 1])).unwrap()
    };
    let (small, large) = (keep(64 << 10), keep((64 << 10) + 1));
    let send = |way, digest| bodies.to_send(way, &digest, &item("a"));
    assert!(matches!(send(Way::ToGuest, small), Found::Here(_)));
    let Found::Refused(refusal) = send(Way::ToGuest, large) else { panic!("it is sent") };
    assert_eq!(refusal.path, "data");
    bodies.set_peer_refuses(true);
    assert!(matches!(send(Way::ToGuest, large), Found::Here(_)));
}

#[test]
fn of_what_is_no_json_those_are_refused_that_did_not_come_otherwise() {
    let bodies = Bodies::default();
    let object = json!({ "a": 1 });
    let (good, bad) = (forge::digest(&object), forge::digest(&json!(2)));
    let named = [(good, vec![item("good")]), (bad, vec![item("bad")])].into();
    let text = object.to_string();
    let sent = [b"{".as_slice(), text.as_bytes()];
    assert_eq!(bodies.receive(Way::ToGuest, sent.into_iter(), &named), 1);
    assert_eq!(bodies.object(&good), Found::Here(object));
    assert!(matches!(bodies.object(&bad), Found::Refused(_)));
    assert_eq!(bodies.object(&forge::digest(&json!(3))), Found::Missing);
}

const LARGEST: usize = OBJECT_BYTES + limits::BODY;

fn content(text: Vec<u8>) -> Content {
    let weight = Weight::of(b"");
    Content::Bytes(text.into(), weight)
}

/// One body of the greatest size, of these objects.
fn insert(inner: &mut Inner, items: &[Item], n: usize) -> Digest {
    let digest = Digest::of(&n.to_be_bytes());
    let text = vec![0; OBJECT_BYTES];
    inner.insert(Direction::Out, items, digest, content(text));
    assert!(inner.size <= limits::BODIES && inner.spare <= limits::SPARE_BODIES);
    assert_eq!(inner.order.len(), inner.bodies.len());
    digest
}

#[test]
fn the_oldest_falls_out() {
    let (mut inner, room) = (Inner::default(), limits::BODIES / LARGEST);
    let all: Vec<_> = (0..room).map(|n| insert(&mut inner, &[item(&n.to_string())], n)).collect();
    assert!(inner.get(&all[0]).is_some(), "used again, so not the oldest any more");
    insert(&mut inner, &[item("one more")], room);
    assert!(inner.get(&all[0]).is_some() && inner.get(&all[1]).is_none());
}

#[test]
fn what_an_object_was_before_is_kept_for_a_while() {
    let (mut inner, room) = (Inner::default(), limits::SPARE_BODIES / LARGEST);
    let shared = insert(&mut inner, &[item("a"), item("b")], 0);
    let all: Vec<_> = (1..=room + 2).map(|n| insert(&mut inner, &[item("a")], n)).collect();
    assert!(inner.get(&all[0]).is_none(), "{room} of those before it are enough");
    assert!(inner.get(&all[1]).is_some() && inner.get(&shared).is_some(), "b is still that");
    inner.forget(&item("b"));
    assert!(inner.spare > 0 && inner.last.len() == 1);
    inner.forget(&item("a"));
    assert!(inner.last.is_empty() && inner.spare == inner.size);
}

#[test]
fn a_peer_that_names_ever_more_objects_gains_nothing() {
    let mut inner = Inner::default();
    for n in 0..=limits::BODY_OBJECTS {
        let digest = Digest::of(&n.to_be_bytes());
        inner.insert(Direction::In, &[item(&n.to_string())], digest, content(b"{}".to_vec()));
    }
    assert_eq!(inner.last.len(), limits::BODY_OBJECTS);
    assert_eq!(inner.spare, 2 + limits::BODY, "the last one is nobody's");
}

#[test]
fn ever_more_small_bodies_gain_nothing() {
    let (mut inner, room) = (Inner::default(), limits::SPARE_BODIES / limits::BODY);
    for n in 0..2 * room {
        let digest = Digest::of(&n.to_be_bytes());
        inner.insert(Direction::In, &[], digest, content(b"{}".to_vec()));
    }
    assert!(inner.bodies.len() < room && inner.spare <= limits::SPARE_BODIES);
}

/// Keeps a body of a MiB.
fn keep(bodies: &Bodies, name: &str) -> Digest {
    let item = Item::Object(key(ObjectKind::ConfigMap, "shop", name));
    let body = json!({ "data": { "of": name, "a": "x".repeat(1 << 20) } });
    bodies.keep(Way::ToGuest, &item, &body).unwrap()
}

#[test]
fn one_buyer_with_many_leases_takes_nobody_elses_memory() {
    // Less than a daemon may keep, which would take 16 s to bring.
    let most = 16 << 20;
    let all = AllBodies { most, ..AllBodies::default() };
    let (small, many) =
        (all.lease(ClusterId([1; 32])), [0; 6].map(|_| all.lease(ClusterId([2; 32]))));
    let digest = keep(&small, "small");
    for n in 0..6 {
        for bodies in &many {
            keep(bodies, &n.to_string());
        }
        assert!(all.bytes() <= most);
    }
    assert!(all.bytes() > most - (2 << 20), "36 MiB were brought");
    assert!(matches!(small.object(&digest), Found::Here(_)));
    drop(many);
    keep(&small, "more");
    assert!(all.bytes() < 3 << 20);
}
