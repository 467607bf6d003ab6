//! Whose an object is, by its marks, its place and its uid.

use super::*;
use mercato_protocol::id::Digest;

use crate::forge::labels::*;
use crate::forge::{KnownGuests, Marks};

/// A guest pod as the API server has it.
fn guest() -> Value {
    let (domain, api) = (Some("rome.example".to_owned()), "10.207.255.252".parse().ok());
    let home = HomeContext { domain, api, ..HomeContext::default() };
    let mut pod = home_pod();
    pod["metadata"]["generation"] = json!(3);
    let ctx = GuestContext { name_server: "10.207.255.254".parse().ok(), ..guest_context() };
    let sent = export_pod(&pod, &home);
    let digest = digest(&sent);
    let mut guest =
        forge(&Item::Pod(id()), &sent, &Content { digest, ..content(&sent) }, &ctx).unwrap();
    guest["metadata"]["uid"] = json!("g1");
    guest
}

fn with(field: &str, value: &str) -> Value {
    let mut guest = guest();
    guest["metadata"][field] = json!(value);
    guest
}

#[test]
fn marks_count_at_the_place_that_they_name_and_nowhere_else() {
    let ctx = guest_context();
    let of = |object: &Value| Marks::of(&ctx, &KnownGuests::default(), object);
    let marks = of(&guest()).unwrap();
    assert_eq!((marks.item, marks.whole), (Item::Pod(id()), true));
    for copy in [
        with("namespace", "shop"),
        with("namespace", "default"),
        with("name", "web-1"),
        with("uid", ""),
    ] {
        assert_eq!(of(&copy), None, "{}", copy["metadata"]);
    }
    let mut moved = guest();
    moved["metadata"]["annotations"][HOME_NAMESPACE] = json!("bank");
    assert_eq!(of(&moved), None, "its home has no guest namespace");
}

#[test]
fn who_is_known_by_its_uid_stays_who_it_is_whatever_mark_is_taken_off() {
    let (ctx, mut known) = (guest_context(), KnownGuests::default());
    known.note(&Item::Pod(id()), &guest());
    let mut count = 0;
    for map in ["labels", "annotations"] {
        let marks = guest()["metadata"][map].as_object().unwrap().clone();
        for mark in marks.keys().filter(|mark| mark.starts_with(GROUP)) {
            let mut robbed = guest();
            robbed["metadata"][map].as_object_mut().unwrap().remove(mark);
            let found = Marks::of(&ctx, &known, &robbed).expect(mark);
            assert_eq!(found.item, Item::Pod(id()), "{mark}");
            let is_whole = found.whole && found.digest != Digest::of(b"");
            assert_eq!(is_whole, *mark == HOME_API, "{mark}");
            count += 1;
        }
    }
    assert_eq!(count, 12, "each mark of a pod was taken off once");
    let mut other = guest();
    other["metadata"]["labels"][HOME_UID] = json!("u-2");
    let found = Marks::of(&ctx, &known, &other).unwrap();
    assert_eq!((found.item, found.whole), (Item::Pod(id()), false));
}

#[test]
fn no_other_uid_is_a_pod_that_is_known() {
    let (ctx, mut known) = (guest_context(), KnownGuests::default());
    known.note_uid(&id(), "g0".parse().unwrap());
    assert_eq!(Marks::of(&ctx, &known, &guest()), None, "it was made in its place");
    known.forget(&id());
    assert!(Marks::of(&ctx, &known, &guest()).is_some());
    assert_eq!(known.pod(&"g0".parse().unwrap()), None);
}

#[test]
fn a_guest_is_recognised_by_its_marks() {
    let sent = export_pod(&home_pod(), &HomeContext::default());
    let mut guest = forged(&sent).unwrap();
    let ctx = guest_context();
    let seen = look(&ctx, &guest).unwrap();
    assert_eq!((seen.item, seen.digest), (Item::Pod(id()), digest(&sent)));
    let other = GuestContext { contract: ContractId([8; 16]), ..guest_context() };
    assert_eq!(look(&other, &guest), None);
    guest["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    guest["status"] = json!({ "phase": "Failed", "reason": "Evicted" });
    let pod = look(&ctx, &guest).unwrap().pod.unwrap();
    assert!(pod.ended && pod.deleting);
    let message = String::new();
    assert_eq!(pod.terminal, Some(Outcome::Failed { reason: "Evicted".into(), message }));
    guest["metadata"]["finalizers"] = json!(["another.example/keeps"]);
    let pod = look(&ctx, &guest).unwrap().pod.unwrap();
    assert!(!pod.ended && pod.deleting, "our finalizer is off: it is not ours to release");
}
