//! What holds for pods in all clusters: a uid never runs twice, a terminal phase never
//! reverts, a guest goes only for a reason, a home pod only after its guest, and what is
//! not ours is never touched.

use std::collections::{BTreeMap, BTreeSet};

use mercato_cluster_model::{Cluster, Event, Key};
use mercato_offload::forge::labels;
use mercato_offload::placement;
use mercato_protocol::id::ClusterId;
use mercato_protocol::resources::Resources;
use serde_json::Value;

use super::bound::Bound;
use super::reach::Reach;
use super::{Violation, ensure};
use crate::engine::site::NODE;
use crate::workload::STAYS;

/// A pod, by its cluster's place in the topology and its uid.
type Place = (usize, String);

/// The version of a cluster in which nothing has happened yet.
const FIRST_VERSION: u64 = 1;

/// What was seen of all pods so far.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    /// Up to which version each cluster's events were looked at.
    seen: BTreeMap<usize, u64>,
    /// Home uid to the one guest that ran it.
    ran: BTreeMap<String, Place>,
    /// Guests that are there, by home uid, and whether they have ended.
    guests: BTreeMap<String, bool>,
    ended: BTreeMap<Place, String>,
    deleting: BTreeSet<Place>,
    /// Home pods whose owners do not wait for the guest.
    forced: BTreeSet<String>,
    /// Guests that the provider's own people take away.
    evicted: BTreeSet<Place>,
    bound: Bound,
    /// By which addresses they are known.
    pub(crate) reach: Reach,
}

/// The clusters, as far as this needs them.
pub(crate) trait Clusters {
    fn cluster(&self, at: usize) -> &Cluster;
    fn place_of(&self, cluster: ClusterId) -> Option<usize>;
    /// What the provider at `at` has sold under the contract.
    fn bought(&self, at: usize, contract: &str) -> Option<Resources>;
    /// Whether the provider at `at` is free of the contract, or on its way there.
    fn is_over(&self, at: usize, contract: &str) -> bool;
    /// Whether the lease of this virtual node has a tunnel, or may come to have one.
    fn expects_tunnel(&self, at: usize, node: &str) -> bool;
}

impl Pods {
    /// The owner removes a pod without waiting.
    pub(crate) fn force(&mut self, uid: &str) {
        self.forced.insert(uid.to_owned());
    }

    /// The provider's people delete a guest.
    pub(crate) fn evict(&mut self, at: usize, uid: &str) {
        self.evicted.insert((at, uid.to_owned()));
    }

    /// Looks at what happened in one cluster since the last time.
    pub(crate) fn look(&mut self, world: &impl Clusters, at: usize) -> Result<(), Violation> {
        let cluster = world.cluster(at);
        let since = self.seen.get(&at).copied().unwrap_or(FIRST_VERSION);
        let events = cluster.events_since("Pod", since);
        let events = events.map_err(|_| Violation("events were lost unseen".to_owned()))?;
        self.seen.insert(at, cluster.version());
        for (_, event) in events {
            match event {
                Event::Applied(pod) => self.on_applied(world, at, &pod)?,
                Event::Deleted(pod) => self.on_deleted(at, &pod)?,
            }
        }
        Ok(())
    }

    fn on_applied(
        &mut self,
        world: &impl Clusters,
        at: usize,
        pod: &Value,
    ) -> Result<(), Violation> {
        let uid = text(&pod["metadata"]["uid"]);
        let phase = text(&pod["status"]["phase"]);
        let place = (at, uid.clone());
        let before = self.ended.get(&place);
        ensure(before.is_none_or(|before| *before == phase), || {
            format!("{} was {before:?} and is {phase} again", name(pod))
        })?;
        let ended = phase == "Succeeded" || phase == "Failed";
        if ended {
            self.ended.insert(place.clone(), phase);
        }
        if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| *node != NODE) {
            self.reach.on_shown(pod, world.expects_tunnel(at, node))?;
            self.bound.on_shown(at, world.cluster(at), pod, node)?;
        }
        match home_uid(pod) {
            Some(home) => self.on_guest(world, &place, &home, pod),
            None => {
                let runs = self.guests.get(&uid) == Some(&false);
                let forced = self.forced.contains(&uid);
                ensure(!ended || !runs || forced, || {
                    format!("{} has ended at home while its guest runs", name(pod))
                })
            }
        }
    }

    fn on_guest(
        &mut self,
        world: &impl Clusters,
        place: &Place,
        home: &str,
        pod: &Value,
    ) -> Result<(), Violation> {
        if !self.ran.contains_key(home) {
            may_be_there(world, place.0, pod)?;
        }
        let ran = self.ran.entry(home.to_owned()).or_insert_with(|| place.clone());
        ensure(ran == place, || format!("{} runs a second time as {}", home, name(pod)))?;
        self.guests.insert(home.to_owned(), self.ended.contains_key(place));
        let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
        if deleting && self.deleting.insert(place.clone()) {
            let contract = text(&pod["metadata"]["labels"][labels::CONTRACT]);
            let reason = self.is_unwanted(world, home, pod)
                || self.evicted.contains(place)
                || world.is_over(place.0, &contract);
            ensure(reason, || format!("{} is deleted though home wants it", name(pod)))?;
        }
        let path = text(&pod["metadata"]["annotations"][labels::PATH]);
        let path: Vec<ClusterId> = path.split(',').filter_map(|id| id.parse().ok()).collect();
        let mut clusters: BTreeSet<_> = path.iter().filter_map(|id| world.place_of(*id)).collect();
        ensure(clusters.insert(place.0) && clusters.len() == path.len() + 1, || {
            format!("{} has come in a circle", name(pod))
        })
    }

    fn is_unwanted(&self, world: &impl Clusters, home: &str, guest: &Value) -> bool {
        let Some(at) = origin(world, guest) else { return false };
        let mut pods = world.cluster(at).objects("Pod");
        let found = pods.find(|(_, pod)| pod["metadata"]["uid"] == home);
        found.is_none_or(|(_, pod)| {
            let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
            deleting || self.ended.contains_key(&(at, home.to_owned()))
        })
    }

    fn on_deleted(&mut self, at: usize, pod: &Value) -> Result<(), Violation> {
        let uid = text(&pod["metadata"]["uid"]);
        if let Some(home) = home_uid(pod) {
            self.guests.remove(&home);
            return Ok(());
        }
        self.bound.on_gone(at, &uid);
        let runs = self.guests.get(&uid) == Some(&false) && !self.forced.contains(&uid);
        ensure(!runs, || format!("{} is gone from home (cluster {at}) while it runs", name(pod)))
    }
}

/// A new guest is of a namespace that was opted in, none that its owner keeps at home, and there
/// is room for it in what was bought.
fn may_be_there(world: &impl Clusters, at: usize, guest: &Value) -> Result<(), Violation> {
    let contract = text(&guest["metadata"]["labels"][labels::CONTRACT]);
    if let Some(bought) = world.bought(at, &contract) {
        let live = world.cluster(at).objects("Pod").map(|(_, pod)| pod).filter(|pod| {
            let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            !ended && pod["metadata"]["labels"][labels::CONTRACT] == *contract
        });
        let cpu_millis = |pod: &Value| placement::requests(&pod["spec"]).get("cpu").copied();
        let used: u64 = live.filter_map(cpu_millis).sum();
        ensure(used <= bought.cpu_millis, || {
            format!("guests of {contract:.8} take {used}m of {}m", bought.cpu_millis)
        })?;
    }
    let annotations = &guest["metadata"]["annotations"];
    let namespace = text(&annotations[labels::HOME_NAMESPACE]);
    let home = origin(world, guest).map(|origin| world.cluster(origin));
    let place = Key::new("Namespace", "", &namespace);
    let found = home.and_then(|home| home.get(&place));
    ensure(
        found.is_none_or(|found| !found["metadata"]["labels"][labels::OFFLOAD].is_null()),
        || format!("{} is of namespace {namespace}, which did not opt in", name(guest)),
    )?;
    let kept = text(&annotations[labels::HOME_NAME]).starts_with(STAYS);
    ensure(!kept, || format!("{} has to stay at home", name(guest)))
}

/// Where a guest was made.
fn origin(world: &impl Clusters, guest: &Value) -> Option<usize> {
    let origin = text(&guest["metadata"]["annotations"][labels::ORIGIN]);
    origin.parse().ok().and_then(|id| world.place_of(id))
}

fn home_uid(pod: &Value) -> Option<String> {
    pod["metadata"]["labels"][labels::HOME_UID].as_str().map(str::to_owned)
}

fn name(pod: &Value) -> String {
    let metadata = &pod["metadata"];
    format!(
        "pod {}/{} ({})",
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        text(&metadata["uid"])
    )
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
