//! What the guests of one lease take of what was bought, all its namespaces together: a quota
//! counts one namespace, and knows nothing of what fills etcd.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::requests::{Amounts, amounts, requests};
use super::write::{IfAbsent, Write, decide};
use crate::forge::{GuestContext, Refusal};
use crate::guest::Failure;
use crate::key::Item;
use crate::limits;
use crate::message::Outcome;

/// Nobody sells it, and every pod may use it.
const UNSOLD: &str = "ephemeral-storage";

/// The guest objects of one lease, with what each takes, and their sum: thousands of pods may
/// come at once.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    shares: BTreeMap<Item, Share>,
    /// Wide, since nobody has checked the amounts of what was found there.
    requests: BTreeMap<String, u128>,
    bytes: usize,
}

/// What one guest object takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Share {
    /// Of a pod that is not over.
    requests: Amounts,
    bytes: usize,
}

impl Capacity {
    /// Decides on the write of `forged`, the guest object of `item`, where `present` stands in its
    /// place, and takes what it calls for out of `context.allocatable`, in place of what it has.
    ///
    /// # Errors
    /// Nothing has been taken then.
    /// - [`Failure::Absent`]: nothing is there, and nothing is to be created;
    /// - [`Failure::Transient`]: an earlier pod of that name has still to go;
    /// - [`Failure::Refused`]: the name is somebody else's object's; the lease's objects would fill
    ///   more than [`limits::GUEST_BYTES`]; or there is no room for what a running pod asks more;
    /// - [`Failure::Full`]: there is no room for a new pod now;
    /// - [`Failure::OutOf`]: there is never room for so much.
    pub fn admit<'a>(
        &mut self,
        item: &Item,
        forged: &Value,
        present: Option<&'a Value>,
        if_absent: IfAbsent,
        context: &GuestContext,
    ) -> Result<Write<'a>, Failure> {
        let write = decide(context.contract, item, present, if_absent)?;
        let claimed = self.claim(item, forged, context);
        match write {
            Write::Create => claimed?,
            Write::Change(_) => claimed.map_err(|failure| keeps_running(RESOURCES, failure))?,
        }
        Ok(write)
    }

    fn claim(
        &mut self,
        item: &Item,
        forged: &Value,
        context: &GuestContext,
    ) -> Result<(), Failure> {
        let wanted = Share::of(item, forged);
        let own = self.shares.get(item).cloned().unwrap_or_default();
        if self.bytes - own.bytes + wanted.bytes > limits::GUEST_BYTES {
            let reason =
                format!("the lease's objects would take over {} bytes", limits::GUEST_BYTES);
            return Err(Failure::Refused(Refusal { path: String::new(), reason }));
        }
        let sold = amounts(&json!(context.allocatable));
        for (resource, asked) in wanted.requests.iter().filter(|(name, _)| *name != UNSOLD) {
            let sold = sold.get(resource).copied().unwrap_or(0);
            let used = self.requests.get(resource).copied().unwrap_or(0);
            let used = used - u128::from(own.requests.get(resource).copied().unwrap_or(0));
            if *asked > 0 && used + u128::from(*asked) > u128::from(sold) {
                // Processors are counted in thousandths.
                let unit = if resource == "cpu" { "m" } else { "" };
                let message = format!(
                    "the lease has {sold}{unit} of {resource}, {used}{unit} is in use, \
                     {asked}{unit} is asked for"
                );
                let reason = format!("OutOf{resource}");
                let outcome = Outcome::Failed { reason, message };
                let ever = u128::from(*asked) <= u128::from(sold);
                return Err(if ever { Failure::Full(outcome) } else { Failure::OutOf(outcome) });
            }
        }
        self.set(item, Some(wanted));
        Ok(())
    }

    /// An object is there: it takes what it takes, and nothing once its pod is over.
    pub fn note(&mut self, item: &Item, present: &Value) {
        let over = matches!(present["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let known = self.shares.get(item);
        if known.is_some_and(|share| !over || share.requests.is_empty()) {
            return;
        }
        let mut share = known.cloned().unwrap_or_else(|| Share::of(item, present));
        if over {
            share.requests.clear();
        }
        self.set(item, Some(share));
    }

    /// An object is not there: it takes nothing.
    pub fn release(&mut self, item: &Item) {
        self.set(item, None);
    }

    fn set(&mut self, item: &Item, share: Option<Share>) {
        if let Some(Share { requests, bytes }) = self.shares.remove(item) {
            self.bytes -= bytes;
            for (resource, amount) in requests {
                let sum = self.requests.remove(&resource).unwrap_or_default();
                let rest = sum.saturating_sub(u128::from(amount));
                if rest > 0 {
                    self.requests.insert(resource, rest);
                }
            }
        }
        let Some(share) = share else { return };
        self.bytes += share.bytes;
        for (resource, amount) in &share.requests {
            *self.requests.entry(resource.clone()).or_default() += u128::from(*amount);
        }
        self.shares.insert(item.clone(), share);
    }
}

impl Share {
    fn of(item: &Item, object: &Value) -> Self {
        let bytes = object.to_string().len();
        let Item::Pod(_) = item else { return Self { requests: Amounts::new(), bytes } };
        let mut requests = requests(&object["spec"]);
        requests.insert("pods".to_owned(), 1);
        Self { requests, bytes }
    }
}

/// What of a running pod may call for more.
const RESOURCES: &str = "spec.containers.resources";

/// A change for which there is no room leaves what is there as it is: it is refused at `path`, the
/// field that asks for more.
pub fn keeps_running(path: &str, failure: Failure) -> Failure {
    match failure {
        Failure::OutOf(Outcome::Failed { message, .. })
        | Failure::Full(Outcome::Failed { message, .. }) => {
            Failure::Refused(Refusal { path: path.to_owned(), reason: message })
        }
        other @ (Failure::OutOf(Outcome::Succeeded)
        | Failure::Full(Outcome::Succeeded)
        | Failure::Transient
        | Failure::Absent
        | Failure::MissingBody
        | Failure::Refused(_)) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{ObjectKind, PodId, Uid, key};

    fn pod(namespace: &str, name: &str, cpu: &str) -> (Item, Value) {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let item = Item::Pod(PodId { uid: Uid(name.clone()), namespace, name });
        let app = json!({ "name": "app", "resources": { "requests": { "cpu": cpu } } });
        (item, json!({ "spec": { "containers": [app] } }))
    }

    fn sold(cpu: &str, pods: &str) -> GuestContext {
        let mut context = super::super::terms::tests::context();
        let amounts = [("cpu", cpu), ("pods", pods)];
        context.allocatable = amounts.map(|(name, n)| (name.to_owned(), n.to_owned())).into();
        context
    }

    #[test]
    fn all_namespaces_together_take_no_more_than_was_bought() {
        let (mut room, context) = (Capacity::default(), sold("2", "3"));
        let mut claim = |(item, pod): &(Item, Value)| room.claim(item, pod, &context);
        let (first, second) = (pod("shop", "a", "1500m"), pod("bank", "b", "501m"));
        assert_eq!(claim(&first), Ok(()));
        let Err(Failure::Full(Outcome::Failed { reason, message })) = claim(&second) else {
            panic!("more than there is")
        };
        assert_eq!((reason.as_str(), message.contains("1500")), ("OutOfcpu", true));
        assert_eq!(claim(&first), Ok(()), "in place of what it has");
        assert_eq!(claim(&pod("bank", "b", "500m")), Ok(()));
        let (item, mut gpu) = pod("bank", "g", "0");
        gpu["spec"]["containers"][0]["resources"]["limits"] = json!({ "nvidia.com/gpu": "1" });
        assert!(matches!(claim(&(item, gpu)), Err(Failure::OutOf(_))), "none was bought");
        assert_eq!(claim(&pod("bank", "c", "0")), Ok(()));
        assert!(matches!(claim(&pod("bank", "d", "0")), Err(Failure::Full(_))), "a fourth pod");
        room.release(&first.0);
        let (item, pod) = pod("bank", "d", "1");
        assert_eq!(room.claim(&item, &pod, &context), Ok(()));
    }

    #[test]
    fn a_pod_that_is_over_takes_nothing_and_one_that_is_found_does() {
        let (mut room, context) = (Capacity::default(), sold("1", "9"));
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
        let (mut room, context) = (Capacity::default(), sold("1", "9"));
        let full = json!({ "data": { "a": "x".repeat(1 << 20) } });
        let map = |n: usize| Item::Object(key(ObjectKind::ConfigMap, "shop", &format!("m{n}")));
        let fits = (0..).take_while(|n| room.claim(&map(*n), &full, &context).is_ok()).count();
        assert_eq!(fits, (limits::GUEST_BYTES >> 20) - 1);
        let refused = room.claim(&map(fits), &full, &context);
        assert!(matches!(refused, Err(Failure::Refused(_))));
        assert_eq!(room.claim(&map(0), &full, &context), Ok(()), "again the same");
    }

    #[test]
    fn the_sum_is_that_of_the_shares() {
        let (mut room, context) = (Capacity::default(), sold("4", "9"));
        let (a, b) = (pod("shop", "a", "1"), pod("shop", "b", "2"));
        for (item, pod) in [&a, &b, &a] {
            room.claim(item, pod, &context).unwrap();
        }
        let (huge, present) = pod("shop", "huge", "1000000");
        for item in [&huge, &a.0] {
            room.note(item, &present);
        }
        assert!(room.claim(&b.0, &b.1, &context).is_err(), "what was found leaves no room");
        room.release(&huge);
        assert_eq!(room.requests["cpu"], 3_000);
        room.release(&a.0);
        room.release(&b.0);
        room.release(&b.0);
        assert!(room.requests.is_empty() && room.bytes == 0);
    }
}
