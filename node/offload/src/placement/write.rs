//! What a write of a guest object comes to, from what stands in its place.

use mercato_protocol::id::ContractId;
use serde_json::Value;

use super::Ownership;
use crate::forge::Refusal;
use crate::guest::Failure;
use crate::key::Item;

/// What becomes of a guest object that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfAbsent {
    /// It is created.
    Create,
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

/// Decides on a write of `item` of the lease under `contract`, where `present` stands in its place.
///
/// # Errors
/// - [`Failure::Absent`]: nothing is there, and nothing is to be created;
/// - [`Failure::Transient`]: an earlier pod of that name has still to go;
/// - [`Failure::Refused`]: the name is somebody else's object's.
pub(super) fn decide<'a>(
    contract: ContractId,
    item: &Item,
    present: Option<&'a Value>,
    if_absent: IfAbsent,
) -> Result<Write<'a>, Failure> {
    let Some(present) = present else {
        return match if_absent {
            IfAbsent::Create => Ok(Write::Create),
            IfAbsent::Leave => Err(Failure::Absent),
        };
    };
    match Ownership::of(contract, item, present) {
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
    contract: ContractId,
    item: &Item,
    present: Option<&'a Value>,
) -> Option<&'a Value> {
    present.filter(|present| Ownership::of(contract, item, present) == Ownership::Ours)
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
    use mercato_protocol::id::ContractId;
    use serde_json::json;

    use super::*;
    use crate::forge::labels::{CONTRACT, HOME_UID};
    use crate::key::{ObjectKind, PodId, Uid, key};

    const LEASE: ContractId = ContractId([5; 16]);
    const OTHER: ContractId = ContractId([6; 16]);

    fn pod() -> Item {
        Item::Pod(PodId { uid: Uid("u1".into()), namespace: "shop".into(), name: "web".into() })
    }

    fn labelled(contract: ContractId, uid: &str) -> Value {
        json!({ "metadata": { "labels": { CONTRACT: contract.to_string(), HOME_UID: uid } } })
    }

    #[test]
    fn only_what_is_absent_is_created_and_only_what_is_ours_is_changed() {
        let (ours, earlier) = (labelled(LEASE, "u1"), labelled(LEASE, "u0"));
        let (others, person) = (labelled(OTHER, "u1"), json!({ "metadata": { "name": "web" } }));
        let pod = pod();
        let on_pod = |present, if_absent| decide(LEASE, &pod, present, if_absent);
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
        for (item, present, is_owned) in [
            (pod(), labelled(LEASE, "u1"), true),
            (pod(), labelled(LEASE, "u0"), false),
            (pod(), labelled(OTHER, "u1"), false),
            (map.clone(), labelled(LEASE, ""), true),
            (map, labelled(OTHER, ""), false),
        ] {
            assert_eq!(owned(LEASE, &item, Some(&present)).is_some(), is_owned, "{present}");
            assert_eq!(owned(LEASE, &item, None), None);
        }
    }
}
