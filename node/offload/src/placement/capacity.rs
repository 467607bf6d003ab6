//! What the guests of one lease take of what was bought, all its namespaces together: a quota
//! counts one namespace, and knows nothing of what fills etcd, which is summed over all leases
//! ([`StoredObjects`]).
//!
//! While a change is under way the larger of what is there and what is wanted counts, since the API
//! server may refuse it; then what is there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::requests::{Amounts, amounts, claimed, requests};
use super::stored::StoredObjects;
use super::terms::UNSOLD;
use super::write::Write;
use crate::forge::resize::{RESOURCES, out_of_room};
use crate::forge::{GuestContext, Refusal};
use crate::guest::Failure;
use crate::key::Item;
use crate::message::Outcome;

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
    /// A write was admitted, and what it came to is not known.
    writing: bool,
}

impl Capacity {
    /// Takes what `forged`, the guest object of `item`, calls for out of `context.allocatable`, and out of
    /// `stored`: of a change the larger of that and what it has. [`Capacity::settle`] or
    /// [`Capacity::release`] says what the write came to.
    ///
    /// # Errors
    /// Nothing has been taken then.
    /// - those of [`StoredObjects::claim`];
    /// - [`Failure::Refused`]: there is no room for what a running pod asks more;
    /// - [`Failure::Full`]: there is no room for a new pod now;
    /// - [`Failure::OutOf`]: there is never room for so much.
    pub fn claim(
        &mut self,
        item: &Item,
        forged: &Value,
        write: Write<'_>,
        context: &GuestContext,
        stored: &mut StoredObjects,
    ) -> Result<(), Failure> {
        let claimed = self.take(item, forged, context, stored);
        match write {
            Write::Create => claimed,
            Write::Change(_) => claimed.map_err(|failure| keeps_running(RESOURCES, failure)),
        }
    }

    fn take(
        &mut self,
        item: &Item,
        forged: &Value,
        context: &GuestContext,
        stored: &mut StoredObjects,
    ) -> Result<(), Failure> {
        let wanted = Share::of(item, forged);
        let own = self.shares.get(item).cloned().unwrap_or_default();
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
        stored.claim(&context.contract, wanted.bytes.saturating_sub(own.bytes))?;
        self.set(item, Some(Share { writing: true, ..wanted.larger(own) }));
        Ok(())
    }

    /// How many bytes all its objects take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A write was answered, and `present` is there now: it takes what it takes.
    pub fn settle(&mut self, item: &Item, present: &Value) {
        if let Some(share) = self.shares.get_mut(item) {
            share.writing = false;
        }
        self.note(item, present);
    }

    /// An object is there: it takes what it takes, and nothing once its pod is over.
    pub fn note(&mut self, item: &Item, present: &Value) {
        let known = self.shares.get(item);
        // How long it is does not matter so much that each look at it is worth the count.
        let bytes = known.map_or_else(|| present.to_string().len(), |share| share.bytes);
        let found = Share { requests: Share::requests(item, present), bytes, writing: false };
        let share = match known {
            Some(known) if known == &found => return,
            Some(known) if known.writing && !found.requests.is_empty() => {
                Share { writing: true, ..found.larger(known.clone()) }
            }
            Some(_) | None => found,
        };
        self.set(item, Some(share));
    }

    /// An object is not there: it takes nothing.
    pub fn release(&mut self, item: &Item) {
        self.set(item, None);
    }

    fn set(&mut self, item: &Item, share: Option<Share>) {
        if let Some(Share { requests, bytes, .. }) = self.shares.remove(item) {
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
    /// Of an object that is wanted.
    fn of(item: &Item, object: &Value) -> Self {
        let bytes = object.to_string().len();
        Self { requests: Self::requests(item, object), bytes, writing: false }
    }

    /// Of a pod that is not over: one pod, and what it asks for.
    fn requests(item: &Item, object: &Value) -> Amounts {
        let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let Item::Pod(_) = item else { return claimed(object) };
        if over {
            return Amounts::new();
        }
        let mut all = requests(&object["spec"]);
        all.insert("pods".to_owned(), 1);
        if is_resizing(object) {
            raise(&mut all, requests(&as_it_runs(object)));
        }
        all
    }

    /// The larger of both, of each resource.
    fn larger(mut self, other: Self) -> Self {
        raise(&mut self.requests, other.requests);
        self.bytes = self.bytes.max(other.bytes);
        self
    }
}

fn raise(requests: &mut Amounts, other: Amounts) {
    for (resource, amount) in other {
        let own = requests.entry(resource).or_default();
        *own = (*own).max(amount);
    }
}

/// Whether its containers may have other sizes than its spec says.
fn is_resizing(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .filter_map(|condition| condition["type"].as_str())
        .any(|kind| kind == "PodResizePending" || kind == "PodResizeInProgress")
}

/// The spec with the sizes that its containers have.
fn as_it_runs(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    let lists = [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")];
    for (list, statuses) in lists {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            let statuses = pod["status"][statuses].as_array().into_iter().flatten();
            let mut of_it = statuses.filter(|status| status["name"] == container["name"]);
            let resources = of_it.next().map(|status| &status["resources"]);
            if let Some(resources) = resources.filter(|resources| resources.is_object()) {
                container["resources"] = resources.clone();
            }
        }
    }
    spec
}

/// A change for which there is no room leaves what is there as it is: it is refused at `path`, the
/// field that asks for more, and for a resize it is said whether that may pass.
pub fn keeps_running(path: &str, failure: Failure) -> Failure {
    let may_pass = matches!(failure, Failure::Full(_));
    match failure {
        Failure::OutOf(Outcome::Failed { message, .. })
        | Failure::Full(Outcome::Failed { message, .. })
            if path == RESOURCES =>
        {
            Failure::Refused(out_of_room(&message, may_pass))
        }
        Failure::OutOf(Outcome::Failed { message, .. })
        | Failure::Full(Outcome::Failed { message, .. }) => {
            Failure::Refused(Refusal { path: path.to_owned(), reason: message })
        }
        other @ (Failure::OutOf(Outcome::Succeeded)
        | Failure::Full(Outcome::Succeeded)
        | Failure::Transient
        | Failure::Unanswered
        | Failure::Unrecorded
        | Failure::Absent
        | Failure::MissingBody
        | Failure::Refused(_)) => other,
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ClusterId;
    use mercato_protocol::resources::Resources;

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

    /// Of a cluster with this lease alone, which bought half of what is shared.
    fn stored() -> StoredObjects {
        let amount = |cpu_millis| Resources { cpu_millis, ..Resources::default() };
        let mut stored = StoredObjects::default();
        stored.set_bounds(Some(64 << 20), Some(amount(2_000)));
        stored.begin(sold("1", "1").contract, ClusterId([1; 32]), &amount(1_000));
        stored
    }

    impl Capacity {
        /// With etcd enough.
        fn create(
            &mut self,
            item: &Item,
            forged: &Value,
            context: &GuestContext,
        ) -> Result<(), Failure> {
            self.claim(item, forged, Write::Create, context, &mut stored())
        }
    }

    #[test]
    fn all_namespaces_together_take_no_more_than_was_bought() {
        let (mut room, context) = (Capacity::default(), sold("2", "3"));
        let mut claim = |(item, pod): &(Item, Value)| room.create(item, pod, &context);
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
        assert_eq!(room.create(&item, &pod, &context), Ok(()));
    }

    #[test]
    fn a_pod_that_is_over_takes_nothing_and_one_that_is_found_does() {
        let (mut room, context) = (Capacity::default(), sold("1", "9"));
        let (found, mut there) = pod("shop", "a", "1");
        room.note(&found, &there);
        let (next, wanted) = pod("shop", "b", "1");
        assert!(room.create(&next, &wanted, &context).is_err());
        there["status"]["phase"] = json!("Succeeded");
        room.note(&found, &there);
        assert_eq!(room.create(&next, &wanted, &context), Ok(()));
    }

    #[test]
    fn a_change_frees_nothing_before_it_is_there() {
        let (mut room, context) = (Capacity::default(), sold("2", "9"));
        let (item, large) = pod("shop", "a", "2");
        let (_, small) = pod("shop", "a", "1");
        let (next, wanted) = pod("shop", "b", "1");
        room.create(&item, &large, &context).unwrap();
        room.settle(&item, &large);
        room.create(&item, &small, &context).unwrap();
        assert!(room.create(&next, &wanted, &context).is_err(), "it may be refused");
        room.note(&item, &small);
        assert!(room.create(&next, &wanted, &context).is_err(), "that may have been before");
        room.settle(&item, &large);
        assert!(room.create(&next, &wanted, &context).is_err(), "it was refused");
        room.create(&item, &small, &context).unwrap();
        room.settle(&item, &small);
        assert_eq!(room.create(&next, &wanted, &context), Ok(()));
        // What the provider's cluster adds counts as well.
        room.release(&next);
        let mut grown = small;
        grown["spec"]["overhead"] = json!({ "cpu": "1m" });
        room.note(&item, &grown);
        assert!(room.create(&next, &wanted, &context).is_err());
    }

    #[test]
    fn a_pod_that_shrinks_takes_what_it_has_until_it_is_small() {
        let (mut room, context) = (Capacity::default(), sold("2", "9"));
        let (item, mut shrinking) = pod("shop", "a", "1");
        let has = json!([{ "name": "app", "resources": { "requests": { "cpu": "2" } } }]);
        let resizing = json!([{ "type": "PodResizeInProgress", "status": "True" }]);
        shrinking["status"] = json!({ "containerStatuses": has, "conditions": resizing });
        room.note(&item, &shrinking);
        let (next, wanted) = pod("shop", "b", "1");
        assert!(room.create(&next, &wanted, &context).is_err());
        shrinking["status"]["conditions"] = json!([]);
        room.note(&item, &shrinking);
        assert_eq!(room.create(&next, &wanted, &context), Ok(()));
    }

    #[test]
    fn what_fills_etcd_is_bounded() {
        let (mut room, context, mut stored) = (Capacity::default(), sold("1", "9"), stored());
        let full = json!({ "data": { "a": "x".repeat(1 << 20) } });
        let map = |n: usize| Item::Object(key(ObjectKind::ConfigMap, "shop", &format!("m{n}")));
        let mut claim =
            |n, object: &Value| room.claim(&map(n), object, Write::Create, &context, &mut stored);
        let fits = (0..).take_while(|n| claim(*n, &full).is_ok()).count();
        assert_eq!(fits, 31);
        assert!(matches!(claim(fits, &full), Err(Failure::Refused(_))));
        assert_eq!(claim(0, &full), Ok(()), "again the same");
        assert_eq!(room.bytes() as u64, stored.stored().all.used);
        room.release(&map(0));
        stored.note(&context.contract, room.bytes());
        assert_eq!(room.claim(&map(fits), &full, Write::Create, &context, &mut stored), Ok(()));
    }

    #[test]
    fn the_sum_is_that_of_the_shares() {
        let (mut room, context) = (Capacity::default(), sold("4", "9"));
        let (a, b) = (pod("shop", "a", "1"), pod("shop", "b", "2"));
        for (item, pod) in [&a, &b, &a] {
            room.create(item, pod, &context).unwrap();
        }
        let (huge, present) = pod("shop", "huge", "1000000");
        room.note(&huge, &present);
        assert!(room.create(&b.0, &b.1, &context).is_err(), "what was found leaves no room");
        room.release(&huge);
        assert_eq!(room.requests["cpu"], 3_000);
        room.release(&a.0);
        room.release(&b.0);
        room.release(&b.0);
        assert!(room.requests.is_empty() && room.bytes == 0);
    }
}
