//! What an owner does with pods: created, updated, deleted, created again under the same
//! name; and what the provider's own people do to guests.

use mercato_cluster_model::sides::admit;
use mercato_cluster_model::{ApiError, Cluster, Key};
use mercato_offload::forge::labels;
use mercato_offload::placement::export::Scope;
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::crowds::{self, Crowd};
use super::objects::{heavy, pod, pod_key, settings, settings_key, staying, virtual_node};
use super::services::{open, service, service_key};
use super::stored::{discard, store, stored_key};
use crate::engine::rng::Rng;
use crate::verify::Pods;

/// One thing to do. Pods go by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Waits until there is a lease.
    Move,
    /// Makes a pod, or a job that ends, once there is none of that name.
    Create(u64, bool),
    /// Gives a pod another image.
    Edit(u64),
    /// Changes the config map, or makes it.
    Configure,
    /// Removes the config map from its namespace.
    Unconfigure,
    /// Changes the Service, or makes it.
    Serve,
    /// Removes the Service from its namespace.
    Unserve,
    /// The other namespace opens one of its Services to guests of this one, or none.
    Open(bool),
    /// Deletes a pod with that grace in seconds.
    Delete(u64, u64),
    /// Removes a pod without waiting for its guest.
    Force(u64),
    /// Makes a pod with a claim, and the claim where there is none of that name.
    Store(u64),
    /// Deletes that pod with that grace in seconds; its claim stays.
    Stop(u64, u64),
    /// Deletes the claim, and its pod.
    Discard(u64),
    /// Binds pods to the virtual node that may not leave, or find no room.
    Misplace,
    /// The provider's people delete a guest.
    Evict,
    /// Lets capacity be bought by itself for the pods of all crowds.
    Invite,
    /// There are to be so many pods of a crowd.
    Scale(Crowd, u64),
    /// Does nothing until the next one.
    Wait,
}

/// Actions in order, each with a pause after it in ms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    actions: Vec<(Action, u64)>,
    told: usize,
    /// Leases are bought for so short a time that they end meanwhile.
    buys_short: bool,
}

impl Script {
    pub(super) fn of(actions: Vec<(Action, u64)>) -> Self {
        Self { actions, ..Self::default() }
    }

    /// Every turn that a pod's life can take, once, at a steady pace.
    pub(crate) fn whole(sells: bool) -> Self {
        use Action::*;
        let actions = match sells {
            true => Vec::new(),
            false => vec![
                (Move, 0),
                (Configure, 0),
                (Serve, 0),
                (Open(true), 0),
                (Misplace, 0),
                (Create(0, false), 3_000),
                (Edit(0), 2_000),
                (Open(false), 0),
                (Configure, 2_000),
                (Unserve, 2_000),
                (Serve, 0),
                (Create(1, true), 7_000),
                (Delete(0, 5), 0),
                (Create(0, false), 3_000),
                (Force(0), 0),
                (Create(0, false), 3_000),
                (Delete(1, 1), 2_000),
                (Store(0), 3_000),
                (Discard(0), 2_000),
            ],
        };
        Self { actions, ..Self::default() }
    }

    /// A buyer's actions by chance.
    pub(crate) fn of_buyer(rng: &mut Rng) -> Self {
        let mut actions = vec![(Action::Move, 0), (Action::Configure, 0), (Action::Misplace, 0)];
        actions.push((Action::Serve, 0));
        for _ in 0..rng.within(5..=25) {
            let name = rng.within(0..=2);
            let action = match rng.within(0..=13) {
                0..=4 => Action::Create(name, rng.chance(250)),
                5 => Action::Edit(name),
                6 => Action::Configure,
                7 => Action::Unconfigure,
                8..=9 => Action::Delete(name, rng.within(1..=20)),
                10 => Action::Force(name),
                11 => Action::Serve,
                12 => Action::Unserve,
                _ => Action::Wait,
            };
            actions.push((action, rng.within(0..=8_000)));
        }
        Self { actions, ..Self::default() }
    }

    /// The same with pods that store, by chance between the other actions.
    pub(crate) fn storing(mut self, rng: &mut Rng) -> Self {
        // After the first ones, which wait for a lease and prepare for it.
        let first = 4.min(self.actions.len());
        for _ in 0..rng.within(3..=12) {
            let name = rng.within(0..=2);
            let action = match rng.within(0..=9) {
                0..=5 => Action::Store(name),
                6..=7 => Action::Stop(name, rng.within(1..=20)),
                _ => Action::Discard(name),
            };
            let place = rng.within(first as u64..=self.actions.len() as u64) as usize;
            self.actions.insert(place, (action, rng.within(0..=6_000)));
        }
        self
    }

    /// The same with a namespace that opens a Service and takes that back, and opens it once more in every other
    /// script.
    pub(crate) fn opening(mut self) -> Self {
        let (first, all) = (4.min(self.actions.len()), self.actions.len());
        if all.is_multiple_of(2) {
            self.actions.push((Action::Open(true), 0));
        }
        self.actions.insert(first + (all - first) / 2, (Action::Open(false), 0));
        self.actions.insert(first, (Action::Open(true), 0));
        self
    }

    /// The script of a seller, by chance.
    pub(crate) fn of_seller(rng: &mut Rng) -> Self {
        let evictions = if rng.chance(300) { rng.within(1..=3) } else { 0 };
        let pauses = (0..evictions).map(|_| rng.within(20_000..=90_000));
        let actions = pauses.flat_map(|ms| [(Action::Wait, ms), (Action::Evict, 0)]).collect();
        Self { actions, ..Self::default() }
    }

    /// The same with short leases, which are extended once they end soon, or end.
    pub(crate) fn buying_short(self, buys_short: bool) -> Self {
        Self { buys_short, ..self }
    }

    /// Whether its leases are short.
    pub(crate) fn buys_short(&self) -> bool {
        self.buys_short
    }

    pub(crate) fn next(&self) -> Option<Action> {
        self.actions.get(self.told).map(|(action, _)| *action)
    }

    /// Goes on; after how many ms the next action is due.
    pub(crate) fn advance(&mut self) -> u64 {
        let pause_ms = self.actions.get(self.told).map_or(0, |(_, pause_ms)| *pause_ms);
        self.told += 1;
        pause_ms
    }

    pub(crate) fn is_over(&self) -> bool {
        self.told >= self.actions.len()
    }
}

impl Action {
    /// Does it in the owner's cluster, at that place. None: there is nothing to do it to.
    pub(crate) fn perform(
        self,
        kube: &mut Cluster,
        now: Now,
        at: usize,
        judge: &mut Pods,
    ) -> Option<Result<(), ApiError>> {
        // What there is not cannot be changed; the owner shrugs.
        Some(match self {
            Self::Move | Self::Wait => Ok(()),
            Self::Create(name, ends) => {
                let pod = admit(kube, Scope::Labelled, pod(name, ends));
                kube.create(now, pod).map(drop)
            }
            Self::Misplace => {
                let pods = virtual_node(kube).into_iter().flat_map(|node| staying(&node));
                let pods: Vec<_> = pods.collect();
                let all = pods.into_iter().try_for_each(|pod| kube.create(now, pod).map(drop));
                all.and(kube.apply(now, heavy()).map(drop))
            }
            Self::Edit(name) => match kube.get(&pod_key(name)).cloned() {
                Some(mut pod) => {
                    pod["spec"]["containers"][0]["image"] = json!(format!("web:{}", now.mono_ms));
                    kube.apply(now, pod).map(drop)
                }
                None => Ok(()),
            },
            Self::Configure => kube.apply(now, settings(now.mono_ms)).map(drop),
            Self::Unconfigure => kube.delete(now, &settings_key(), None, Some(0)),
            Self::Serve => kube.apply(now, service(now.mono_ms)).map(drop),
            Self::Open(opens) => open(kube, now, opens),
            Self::Unserve => kube.delete(now, &service_key(), None, Some(0)),
            Self::Delete(name, grace_s) => kube.delete(now, &pod_key(name), None, Some(grace_s)),
            Self::Force(name) => {
                if let Some(pod) = kube.get(&pod_key(name)) {
                    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                    judge.force(&uid);
                }
                kube.delete(now, &pod_key(name), None, Some(0))
            }
            Self::Invite => crowds::invite(kube, now),
            Self::Scale(crowd, count) => crowds::scale(kube, now, crowd, count),
            Self::Store(name) => store(kube, now, name),
            Self::Stop(name, grace_s) => kube.delete(now, &stored_key(name), None, Some(grace_s)),
            Self::Discard(name) => discard(kube, now, name),
            Self::Evict => {
                let (_, pods) = kube.list("Pod");
                let guest =
                    pods.iter().find(|pod| !pod["metadata"]["labels"][labels::HOME_UID].is_null());
                let guest = guest?;
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let metadata = &guest["metadata"];
                let key = Key::new("Pod", &text(&metadata["namespace"]), &text(&metadata["name"]));
                let uid = text(&metadata["uid"]);
                judge.evict(at, &uid);
                kube.delete(now, &key, Some(&uid), Some(5))
            }
        })
    }
}
