//! What a write of a guest object comes to, from what stands in its place.

use serde_json::Value;

use super::Ownership;
use crate::forge::{GuestContext, KnownGuests, Refusal};
use crate::guest::Failure;
use crate::key::Item;

/// What becomes of a guest object that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfAbsent {
    /// It is created; a pod only if our finalizer keeps it.
    Create,
    /// It is created, whether anything keeps it or not: it is on record.
    Make,
    /// It stays away: a pod's uid must never run twice.
    Leave,
}

/// What is to be done for a guest object that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<'a> {
    /// Nothing stands there: it is created.
    Create,
    /// This one is brought to what is wanted.
    Change(&'a Value),
}

/// Decides on a write of `item` of the lease, where `present` stands in its place.
///
/// # Errors
/// - [`Failure::Absent`]: nothing is there, and nothing is to be created;
/// - [`Failure::Transient`]: an earlier pod of that name has still to go;
/// - [`Failure::Refused`]: the name is somebody else's object's.
pub fn decide<'a>(
    ctx: &GuestContext,
    known: &KnownGuests,
    item: &Item,
    present: Option<&'a Value>,
    if_absent: IfAbsent,
) -> Result<Write<'a>, Failure> {
    let Some(present) = present else {
        return match if_absent {
            IfAbsent::Create | IfAbsent::Make => Ok(Write::Create),
            IfAbsent::Leave => Err(Failure::Absent),
        };
    };
    match Ownership::of(ctx, known, item, present) {
        Ownership::Ours => Ok(Write::Change(present)),
        Ownership::Earlier => Err(Failure::Transient),
        Ownership::Foreign => {
            let reason = "there is another object of this name over there".to_owned();
            Err(Failure::Refused(Refusal { path: "metadata.name".to_owned(), reason }))
        }
    }
}

/// What may be deleted or released: `present`, if it is the guest object of `item`.
pub fn owned<'a>(
    ctx: &GuestContext,
    known: &KnownGuests,
    item: &Item,
    present: Option<&'a Value>,
) -> Option<&'a Value> {
    present.filter(|present| Ownership::of(ctx, known, item, present) == Ownership::Ours)
}

/// The seconds that a guest has for its end: those that are asked for, within bounds; none: its own.
/// A pod that was made under another contract's terms, or by somebody else, may have more than the
/// longest by its own word.
pub fn deletion_grace_s(asked_s: Option<u32>, own_s: Option<u64>, longest_s: u64) -> Option<u64> {
    let over = own_s.filter(|own| *own > longest_s);
    asked_s.map(u64::from).or(over).map(|grace| grace.min(longest_s))
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::{ClusterId, ContractId, Digest};
    use serde_json::json;

    use super::super::terms::tests::context;
    use super::*;
    use crate::forge;
    use crate::forge::Content;
    use crate::forge::labels::{CONTRACT, HOME_UID};
    use crate::key::{ObjectKind, PodId, Uid, key};
    use crate::message::Route;

    const OTHER: ContractId = ContractId([6; 16]);

    fn pod(uid: &str) -> Item {
        Item::Pod(PodId { uid: Uid(uid.into()), namespace: "shop".into(), name: "web".into() })
    }

    /// The guest object of `item`, as the API server has it.
    fn guest(item: &Item) -> Value {
        let home = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": item.key().name, "namespace": "shop" },
            "spec": { "containers": [{ "name": "app", "image": "a" }] } });
        let origin = ClusterId([1; 32]);
        let route = Route { origin, path: vec![origin], hops: 0 };
        let content = Content { digest: Digest::of(b""), route, called: None };
        let mut guest = forge::forge(item, &home, &content, &context()).unwrap();
        guest["metadata"]["uid"] = json!("g1");
        guest
    }

    fn of_another(mut guest: Value) -> Value {
        guest["metadata"]["labels"][CONTRACT] = json!(OTHER.to_string());
        guest
    }

    fn nobody() -> KnownGuests {
        KnownGuests::default()
    }

    #[test]
    fn only_what_is_absent_is_created_and_only_what_is_ours_is_changed() {
        let (ours, earlier) = (guest(&pod("u1")), guest(&pod("u0")));
        let (others, person) =
            (of_another(ours.clone()), json!({ "metadata": { "name": "web", "uid": "p" } }));
        let (ctx, pod) = (context(), pod("u1"));
        let on_pod = |present, if_absent| decide(&ctx, &nobody(), &pod, present, if_absent);
        assert_eq!(on_pod(None, IfAbsent::Create), Ok(Write::Create));
        assert_eq!(on_pod(None, IfAbsent::Leave), Err(Failure::Absent));
        for if_absent in [IfAbsent::Create, IfAbsent::Leave] {
            assert_eq!(on_pod(Some(&ours), if_absent), Ok(Write::Change(&ours)));
            assert_eq!(on_pod(Some(&earlier), if_absent), Err(Failure::Transient));
            for foreign in [&others, &person] {
                assert!(matches!(on_pod(Some(foreign), if_absent), Err(Failure::Refused(_))));
            }
        }
    }

    #[test]
    fn the_guest_that_is_known_is_changed_though_its_marks_are_off_and_no_other_is() {
        let (ctx, item) = (context(), pod("u1"));
        let Item::Pod(id) = &item else { panic!() };
        let mut known = KnownGuests::default();
        known.note_uid(id, "g1".parse().unwrap());
        let mut robbed = guest(&item);
        robbed["metadata"]["labels"] = Value::Null;
        let on = |known: &KnownGuests, present: &Value| {
            decide(&ctx, known, &item, Some(present), IfAbsent::Leave).map(drop)
        };
        assert_eq!(on(&known, &robbed), Ok(()));
        assert!(matches!(on(&nobody(), &robbed), Err(Failure::Refused(_))));
        let mut in_its_place = guest(&item);
        in_its_place["metadata"]["uid"] = json!("g2");
        assert!(matches!(on(&known, &in_its_place), Err(Failure::Refused(_))));
        assert_eq!(owned(&ctx, &known, &item, Some(&in_its_place)), None, "it is not deleted");
    }

    #[test]
    fn nobody_has_longer_for_its_end_than_was_agreed() {
        assert_eq!(deletion_grace_s(Some(5), Some(30), 60), Some(5));
        assert_eq!(deletion_grace_s(Some(90), Some(30), 60), Some(60));
        assert_eq!(deletion_grace_s(None, Some(30), 60), None);
        assert_eq!(deletion_grace_s(None, Some(90), 60), Some(60));
        assert_eq!(deletion_grace_s(None, None, 60), None);
    }

    #[test]
    fn only_what_is_ours_is_deleted() {
        let map = Item::Object(key(ObjectKind::ConfigMap, "shop", "settings"));
        let mut settings = guest(&pod("u1"));
        let marks = [("home-kind", "ConfigMap"), ("home-name", "settings")];
        for (mark, value) in marks {
            settings["metadata"]["annotations"][format!("mercato.dev/{mark}")] = json!(value);
        }
        settings["metadata"]["name"] = json!("settings");
        settings["metadata"]["labels"].as_object_mut().unwrap().remove(HOME_UID);
        for (item, present, is_owned) in [
            (pod("u1"), guest(&pod("u1")), true),
            (pod("u1"), guest(&pod("u0")), false),
            (pod("u1"), of_another(guest(&pod("u1"))), false),
            (map.clone(), settings.clone(), true),
            (map, of_another(settings), false),
        ] {
            let owned = |present| owned(&context(), &nobody(), &item, present).is_some();
            assert_eq!(owned(Some(&present)), is_owned, "{present}");
            assert!(!owned(None));
        }
    }
}
