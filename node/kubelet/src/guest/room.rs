//! What the guests of one lease take of what was bought, all its namespaces together: a
//! quota counts one namespace, and knows nothing of what fills etcd.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mercato_offload::forge::{GuestContext, Refusal};
use mercato_offload::guest::Failure;
use mercato_offload::key::Item;
use mercato_offload::message::Outcome;
use serde_json::{Value, json};

use crate::inventory::{self, Amounts};
use crate::limits;

/// Nobody sells it, and every pod may use it.
const UNSOLD: &str = "ephemeral-storage";

/// Who takes what.
#[derive(Default)]
pub(super) struct Room(Mutex<BTreeMap<Item, Share>>);

/// What one guest object takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Share {
    /// Of a pod that is not over.
    requests: Amounts,
    bytes: usize,
}

impl Room {
    /// Takes what an object calls for in place of what it has. An error changes nothing.
    pub(super) fn claim(
        &self,
        item: &Item,
        forged: &Value,
        context: &GuestContext,
    ) -> Result<(), Failure> {
        let wanted = Share::of(item, forged);
        let mut all = self.lock();
        let others = || all.iter().filter(|(other, _)| *other != item).map(|(_, share)| share);
        let bytes = others().map(|share| share.bytes).sum::<usize>() + wanted.bytes;
        if bytes > limits::GUEST_BYTES {
            let reason =
                format!("the lease's objects would take over {} bytes", limits::GUEST_BYTES);
            return Err(Failure::Refused(Refusal { path: String::new(), reason }));
        }
        let sold = inventory::amounts(&json!(context.allocatable));
        for (resource, asked) in wanted.requests.iter().filter(|(name, _)| *name != UNSOLD) {
            let sold = sold.get(resource).copied().unwrap_or(0);
            let used = others().filter_map(|share| share.requests.get(resource));
            let used = used.fold(0, |sum: u64, more| sum.saturating_add(*more));
            if *asked > 0 && used.saturating_add(*asked) > sold {
                // Processors are counted in thousandths.
                let unit = if resource == "cpu" { "m" } else { "" };
                let message = format!(
                    "the lease has {sold}{unit} of {resource}, {used}{unit} is in use, \
                     {asked}{unit} is asked for"
                );
                let reason = format!("OutOf{resource}");
                return Err(Failure::OutOf(Outcome::Failed { reason, message }));
            }
        }
        all.insert(item.clone(), wanted);
        Ok(())
    }

    /// An object is there: it takes what it takes.
    pub(super) fn note(&self, item: &Item, present: &Value) {
        let mut all = self.lock();
        let over = matches!(present["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if let Some(share) = all.get_mut(item) {
            if over {
                share.requests.clear();
            }
            return;
        }
        let mut share = Share::of(item, present);
        if over {
            share.requests.clear();
        }
        all.insert(item.clone(), share);
    }

    /// It is not there.
    pub(super) fn release(&self, item: &Item) {
        self.lock().remove(item);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Item, Share>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    fn of(item: &Item, object: &Value) -> Self {
        let bytes = object.to_string().len();
        let Item::Pod(_) = item else { return Self { requests: Amounts::new(), bytes } };
        let mut requests = inventory::requests(&object["spec"]);
        requests.insert("pods".to_owned(), 1);
        Self { requests, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mercato_offload::key::{ObjectKind, PodId, Uid, key};

    fn pod(namespace: &str, name: &str, cpu: &str) -> (Item, Value) {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let item = Item::Pod(PodId { uid: Uid(name.clone()), namespace, name });
        let app = json!({ "name": "app", "resources": { "requests": { "cpu": cpu } } });
        (item, json!({ "spec": { "containers": [app] } }))
    }

    fn sold(cpu: &str, pods: &str) -> GuestContext {
        let mut context = crate::guest::tests::context();
        let amounts = [("cpu", cpu), ("pods", pods)];
        context.allocatable = amounts.map(|(name, n)| (name.to_owned(), n.to_owned())).into();
        context
    }

    #[test]
    fn all_namespaces_together_take_no_more_than_was_bought() {
        let (room, context) = (Room::default(), sold("2", "3"));
        let claim = |(item, pod): &(Item, Value)| room.claim(item, pod, &context);
        let (first, second) = (pod("shop", "a", "1500m"), pod("bank", "b", "501m"));
        assert_eq!(claim(&first), Ok(()));
        let Err(Failure::OutOf(Outcome::Failed { reason, message })) = claim(&second) else {
            panic!("more than there is")
        };
        assert_eq!((reason.as_str(), message.contains("1500")), ("OutOfcpu", true));
        assert_eq!(claim(&first), Ok(()), "in place of what it has");
        assert_eq!(claim(&pod("bank", "b", "500m")), Ok(()));
        let (item, mut gpu) = pod("bank", "g", "0");
        gpu["spec"]["containers"][0]["resources"]["limits"] = json!({ "nvidia.com/gpu": "1" });
        assert!(matches!(claim(&(item, gpu)), Err(Failure::OutOf(_))), "none was bought");
        assert_eq!(claim(&pod("bank", "c", "0")), Ok(()));
        assert!(matches!(claim(&pod("bank", "d", "0")), Err(Failure::OutOf(_))), "a fourth pod");
        room.release(&first.0);
        assert_eq!(claim(&pod("bank", "d", "1")), Ok(()));
    }

    #[test]
    fn a_pod_that_is_over_takes_nothing_and_one_that_is_found_does() {
        let (room, context) = (Room::default(), sold("1", "9"));
        let (found, mut there) = pod("shop", "a", "1");
        room.note(&found, &there);
        let (next, wanted) = pod("shop", "b", "1");
        assert!(room.claim(&next, &wanted, &context).is_err());
        there["status"]["phase"] = json!("Succeeded");
        room.note(&found, &there);
        assert_eq!(room.claim(&next, &wanted, &context), Ok(()));
    }

    #[test]
    fn what_fills_etcd_is_bounded() {
        let (room, context) = (Room::default(), sold("1", "9"));
        let full = json!({ "data": { "a": "x".repeat(1 << 20) } });
        let map = |n: usize| Item::Object(key(ObjectKind::ConfigMap, "shop", &format!("m{n}")));
        let fits = (0..).take_while(|n| room.claim(&map(*n), &full, &context).is_ok()).count();
        assert_eq!(fits, (limits::GUEST_BYTES >> 20) - 1);
        let refused = room.claim(&map(fits), &full, &context);
        assert!(matches!(refused, Err(Failure::Refused(_))));
        assert_eq!(room.claim(&map(0), &full, &context), Ok(()), "again the same");
    }
}
