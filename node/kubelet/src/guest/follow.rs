//! Guest objects of one lease, followed in each guest namespace and nowhere else: whatever stands
//! elsewhere is nobody's guest. All pods there are looked at, whatever their labels say, since a watch
//! by labels tells of a pod that has lost one as of a pod that is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, SelectAll};
use futures::{FutureExt, StreamExt};
use mercato_offload::forge::{GuestContext, home_address};
use mercato_offload::guest::{Input, Observed};
use mercato_offload::key::{Item, ObjectKind, PodId};
use mercato_protocol::egress::EgressKind;
use mercato_protocol::names::LeaseNames;
use mercato_protocol::node::ServiceAddress;
use serde_json::Value;
use tokio::sync::mpsc;

use super::edits::is_followed;
use super::names::pace::Pace;
use super::names::{Asks, Named, names};
use super::shared::{Asked, Shared};
use super::write::confirm;
use crate::apiserver::kind::{CLAIM, CONFIG_MAP, ENDPOINT_SLICE, Kind, POD, SECRET, SERVICE};
use crate::apiserver::life::Life;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::names::CONTRACT;

pub(super) fn follow(
    shared: Arc<Shared>,
    mut asked: mpsc::Receiver<Asked>,
) -> BoxFuture<'static, ()> {
    async move {
        let stop = shared.stop.clone();
        let following = async {
            let (mut living, mut context) = (shared.living.clone(), shared.context.clone());
            let mut seen = Seen::default();
            let mut streams = SelectAll::new();
            let mut confirms = FuturesUnordered::new();
            let mut is_first = true;
            loop {
                let lives = living.borrow_and_update().clone();
                // Where there is no guest namespace there is no guest, and nothing to be listed.
                let is_whole = std::mem::take(&mut is_first) && lives.is_empty();
                let whole = seen.keep(&lives).or_else(|| is_whole.then(|| seen.whole()).flatten());
                if let Some(whole) = whole {
                    shared.tell(whole).await;
                }
                for life in &lives {
                    let claims = shared.context().has_storage().then_some(CLAIM);
                    for kind in KINDS.into_iter().chain(claims) {
                        seen.add(&shared, &mut streams, kind, life);
                    }
                }
                seen.say_addresses(&shared);
                seen.pace.changed();
                loop {
                    tokio::select! {
                        () = seen.pace.is_due() => seen.say_names(&shared),
                        Some((source, change)) = streams.next() => {
                            if let Some(lost) = pass_on(&shared, &mut seen, source, change).await {
                                confirms.push(confirm(shared.clone(), lost, None));
                            }
                        }
                        Some(()) = confirms.next() => {}
                        Ok(()) = context.changed() => {
                            let now = context.borrow_and_update().clone();
                            for input in seen.left_out(&now) {
                                shared.tell(input).await;
                            }
                        }
                        Some(found) = asked.recv() => {
                            match seen.answer(found, |object| shared.observe(object)) {
                                Answered::Tells(input) => shared.tell(*input).await,
                                Answered::Again(item) => {
                                    let since = Some(seen.deletions);
                                    confirms.push(confirm(shared.clone(), item, since));
                                }
                                Answered::Nothing => {}
                            }
                        }
                        changed = living.changed() => {
                            if changed.is_err() {
                                return;
                            }
                            break;
                        }
                    }
                }
            }
        };
        tokio::select! { () = stop.cancelled() => {} () = following => {} }
    }
    .boxed()
}

/// Tells what a watch has told; of a pod that is gone first how it was last, since nothing may have kept
/// it until that was said. Gives back a pod that is gone and was not being deleted: it may have lost
/// what it is followed by, and is to be asked for by its name.
async fn pass_on(
    shared: &Shared,
    seen: &mut Seen,
    source: Source,
    change: Change<Option<Read>>,
) -> Option<Item> {
    let is_service = source.0 == SERVICE;
    let mut last = None;
    if let Change::Deleted(Some(gone)) = &change {
        shared.edits.on_deleted(&gone.observed.item, &gone.made);
        last = gone.observed.pod.is_some().then(|| gone.observed.clone());
    }
    let robbed = seen.robbed(&source, &change).cloned();
    let input = seen.take(source, change);
    if let Some(pod) = robbed {
        shared.tell_of_marks(&pod).await;
    }
    if is_service {
        seen.say_addresses(shared);
    }
    let is_sure = last.as_ref().and_then(|last| last.pod.as_ref()).is_none_or(|pod| pod.deleting);
    if let Some(last) = last {
        shared.tell(Input::Observed(last)).await;
    }
    let input = input?;
    if let (Input::Gone(item), false) = (&input, is_sure) {
        return Some(item.clone());
    }
    shared.tell(input).await;
    None
}

/// What is followed in each guest namespace; and claims, where the contract has storage.
const KINDS: [Kind; 5] = [POD, CONFIG_MAP, SECRET, SERVICE, ENDPOINT_SLICE];

/// One watch: a kind, and the guest namespace.
type Source = (Kind, String);
/// A guest object; none if it lacks our marks.
type Told = (Source, Change<Option<Read>>);

/// A guest object, as far as it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    /// As the session sees it.
    observed: Observed,
    /// A Service's own, as long as it is there.
    addresses: BTreeSet<ServiceAddress>,
    /// What it says of names.
    named: Option<Named>,
    /// The node that a pod is on; empty: none.
    node: Box<str>,
    /// When its API server has made it; of kinds that are put back.
    made: Box<str>,
}

/// What each watch has told.
#[derive(Default)]
struct Seen {
    all: BTreeMap<Source, Known>,
    /// When names are said that have changed.
    pace: Pace,
    /// How many deletions they have told of, and lists, from which something may be missing.
    deletions: u64,
}

/// What the answer to a question for one object comes to.
#[derive(Debug, PartialEq)]
enum Answered {
    Tells(Box<Input>),
    /// It is to be asked for once more.
    Again(Item),
    Nothing,
}

/// What a watch has told.
struct Known {
    /// Of the namespace, with which it ends.
    life: Life,
    /// None before its first list.
    all: Option<BTreeMap<Item, Read>>,
}

impl Seen {
    fn add(
        &mut self,
        shared: &Arc<Shared>,
        streams: &mut SelectAll<BoxStream<'static, Told>>,
        kind: Kind,
        life: &Life,
    ) {
        let source = (kind, life.namespace().to_owned());
        if self.all.contains_key(&source) {
            return;
        }
        self.all.insert(source.clone(), Known { life: life.clone(), all: None });
        let mut which = Selection::within(life);
        if kind != POD {
            which = which.labels(format!("{CONTRACT}={}", shared.context().contract));
        }
        let reader = shared.clone();
        let read = move |object: Value| Read::of(reader.observe(&object)?, &object).into();
        let changes = changes(&shared.cluster, kind, which, read);
        streams.push(changes.map(move |change| (source.clone(), change)).boxed());
    }

    /// What an answer comes to. It may be older than what its watch has told: how an object is, that
    /// tells; and what stands there as it has told is not gone. One that is there, and of which the watch
    /// has not told, has lost its marks, or was deleted since: it is asked for once more, and is there if
    /// nothing was deleted meanwhile.
    fn answer(&self, found: Asked, observe: impl FnOnce(&Value) -> Option<Observed>) -> Answered {
        let watch = self.all.get(&(found.kind, found.guest));
        let told = watch.and_then(|watch| watch.all.as_ref());
        let stands = told.is_some_and(|told| told.contains_key(&found.item));
        match found.object {
            Some(_) if stands => Answered::Nothing,
            Some(_) if told.is_some() && found.since != Some(self.deletions) => {
                Answered::Again(found.item)
            }
            Some(object) => observe(&object)
                .map_or(Answered::Nothing, |it| Answered::Tells(Box::new(Input::Observed(it)))),
            None if stands => Answered::Nothing,
            None => Answered::Tells(Box::new(Input::Gone(found.item))),
        }
    }

    /// The pod whose marks somebody has changed, if that is what is told.
    fn robbed<'a>(&self, source: &Source, change: &'a Change<Option<Read>>) -> Option<&'a PodId> {
        let Change::Changed(Some(now)) = change else { return None };
        let (Item::Pod(id), Some(pod)) = (&now.observed.item, &now.observed.pod) else {
            return None;
        };
        let before = self.all.get(source)?.all.as_ref()?.get(&now.observed.item)?;
        let was_marked = before.observed.pod.as_ref().is_some_and(|pod| pod.marked);
        (was_marked && !pod.marked).then_some(id)
    }

    /// The guests whose nodes are left out, who were on others before: what is to be told of each.
    fn left_out(&mut self, context: &GuestContext) -> Vec<Input> {
        let pods = self.all.iter_mut().filter(|((kind, _), _)| *kind == POD);
        let pods = pods.filter_map(|(_, known)| known.all.as_mut()).flat_map(BTreeMap::values_mut);
        let now = pods.filter_map(|one| {
            let pod = one.observed.pod.as_mut().filter(|pod| !pod.left_out)?;
            pod.left_out = context.leaves_out(&one.node);
            pod.left_out.then(|| Input::Observed(one.observed.clone()))
        });
        now.collect()
    }

    /// Whatever is told of one object is passed on; a list only as part of the
    /// whole, once every watch has had its first.
    fn take(&mut self, source: Source, change: Change<Option<Read>>) -> Option<Input> {
        let known = &mut self.all.get_mut(&source)?.all;
        let mut is_named = true;
        let input = match change {
            Change::Synced(all) => {
                self.deletions += 1;
                let all = all.into_iter().flatten();
                *known = Some(all.map(|one| (one.observed.item.clone(), one)).collect());
                self.whole()
            }
            Change::Changed(one) => {
                let one = one?;
                let item = one.observed.item.clone();
                let named = one.named.clone();
                let before = known.get_or_insert_default().insert(item, one.clone());
                is_named = before.and_then(|before| before.named) != named;
                Some(Input::Observed(one.observed))
            }
            Change::Deleted(one) => {
                self.deletions += 1;
                let item = one?.observed.item;
                let before = known.get_or_insert_default().remove(&item);
                is_named = before.is_some_and(|before| before.named.is_some());
                Some(Input::Gone(item))
            }
        };
        if is_named {
            self.pace.changed();
        }
        input
    }

    /// Forgets the namespaces that are gone. Where one of them was all that the others waited for, they
    /// are the whole now.
    fn keep(&mut self, lives: &[Life]) -> Option<Input> {
        let before = self.all.len();
        self.all.retain(|_, known| lives.contains(&known.life));
        (self.all.len() < before).then(|| self.whole()).flatten()
    }

    /// None before every watch has had its first list.
    fn whole(&self) -> Option<Input> {
        let whole: Option<Vec<_>> = self.all.values().map(|known| known.all.as_ref()).collect();
        let whole = whole?.into_iter().flat_map(BTreeMap::values);
        Some(Input::Synced(whole.map(|one| one.observed.clone()).collect()))
    }

    /// What is missing from a part is not gone. A namespace that cannot be listed, since it is about to
    /// go or has no rights yet, holds up the names of no other.
    fn say_names(&mut self, shared: &Shared) {
        let now = self.names(&shared.context());
        let is_new = now.is_some_and(|now| {
            shared.names.send_if_modified(|before| {
                let is_new = before.as_deref() != Some(&now);
                *before = Some(Arc::new(now));
                is_new
            })
        });
        self.pace.is_done(is_new);
    }

    /// None before all pods are listed.
    fn names(&self, context: &GuestContext) -> Option<LeaseNames> {
        let mut pods = self.all.iter().filter(|((kind, _), _)| *kind == POD);
        if !pods.all(|(_, known)| known.is_listed()) {
            return None;
        }
        let known = |guest: &String| {
            let of = |kind| self.all.get(&(kind, guest.clone()));
            [SERVICE, ENDPOINT_SLICE].into_iter().all(|kind| of(kind).is_some_and(Known::is_listed))
        };
        let homes: Vec<_> =
            context.namespaces.iter().map(|(home, guest)| (home, known(guest))).collect();
        let unknown: BTreeSet<_> =
            homes.iter().filter(|(_, is_known)| !is_known).map(|(home, _)| home.as_str()).collect();
        let items = self.all.values().filter_map(|known| known.all.as_ref()).flatten();
        let named = items.filter_map(|(item, one)| {
            let home = match item {
                Item::Pod(pod) => &pod.namespace,
                Item::Object(key) if unknown.contains(key.namespace.as_str()) => return None,
                Item::Object(key) => &key.namespace,
            };
            Some((home.as_str(), one.named.as_ref()?))
        });
        let is_closed = context.gate.is_some();
        let forwards = !is_closed || context.egress == EgressKind::Internet;
        let asks = Asks { is_closed, forwards };
        Some(names(context.contract, asks, &context.ranges, homes.iter().copied(), named))
    }

    /// Before the session hears of it: an address that is given up may be another's soon.
    fn say_addresses(&self, shared: &Shared) {
        let now = self.addresses();
        shared.addresses.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
    }

    fn addresses(&self) -> BTreeSet<ServiceAddress> {
        let all = self.all.values().filter_map(|known| known.all.as_ref());
        all.flat_map(BTreeMap::values).flat_map(|one| &one.addresses).copied().collect()
    }
}

impl Known {
    fn is_listed(&self) -> bool {
        self.all.is_some()
    }
}

impl Read {
    /// The API server writes "None" where a Service has no address, and gives up those of one that
    /// is being deleted. Whoever is in a tunnel has an address of IPv4 for certain.
    fn of(observed: Observed, object: &Value) -> Self {
        let (spec, mut addresses) = (&object["spec"], BTreeSet::new());
        let named = Named::read(&observed.item, object);
        let made = object["metadata"]["creationTimestamp"].as_str();
        let made = made.filter(|_| is_followed(&observed.item)).unwrap_or_default().into();
        let node = spec["nodeName"].as_str().unwrap_or_default().into();
        let Item::Object(key) = &observed.item else {
            return Self { observed, addresses, named, made, node };
        };
        if key.kind == ObjectKind::Service && object["metadata"]["deletionTimestamp"].is_null() {
            let all = spec["clusterIPs"].as_array().into_iter().flatten();
            let parsed = all.filter_map(|address| address.as_str()?.parse().ok());
            let home = home_address(object);
            let of_four = parsed.filter(IpAddr::is_ipv4);
            addresses.extend(of_four.map(|here| ServiceAddress { here, home }));
        }
        Self { observed, addresses, named, made, node }
    }
}

#[cfg(test)]
mod tests;
