//! A lease at the provider, in a real cluster: guest namespaces and what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_agent::{GuestWork, LeaseNews, Phase};
use mercato_kubelet::guest::GuestSide;
use mercato_kubelet::guest_namespace::{self, GuestNamespace};
use mercato_kubelet::{Class, Failure};
use mercato_offload::forge::GuestContext;
use tokio::time::sleep;

use super::Shared;
use crate::kubernetes::{LeaseTask, Order, room};
use crate::limits;

struct Guest {
    shared: Arc<Shared>,
    task: LeaseTask,
    priority_class: Option<String>,
    /// Guest namespaces that were made.
    made: BTreeSet<String>,
}

pub(super) async fn follow(shared: Arc<Shared>, task: LeaseTask) {
    let mut guest = Guest { shared, task, priority_class: None, made: BTreeSet::new() };
    if !guest.prepare().await {
        // The agent has been told why; what it wants next is an end.
        return guest.wait_for_end().await;
    }
    let (side, mut inputs) =
        GuestSide::start(guest.shared.cluster.clone(), guest.context(), guest.task.bodies.clone());
    while guest.task.desire.phase != Phase::Ended {
        tokio::select! {
            order = guest.task.orders.recv() => match order {
                Some(Order::Be(desire)) => {
                    guest.task.desire = *desire;
                    if guest.make_namespaces().await {
                        side.set_context(guest.context());
                    }
                }
                Some(Order::Guest(work)) => perform(&side, work),
                Some(Order::CameBy(item, route)) => side.came_by(item, route),
                // A lease has one side in a cluster.
                Some(Order::Home(_)) => {}
                None => return,
            },
            Some(input) = inputs.recv() => guest.task.guest(input).await,
        }
    }
    drop(side);
    guest.end().await;
}

fn perform(side: &GuestSide, work: GuestWork) {
    match work {
        GuestWork::Apply(item, digest) => side.apply(item, digest),
        GuestWork::Update(pod, digest) => side.update(pod, digest),
        GuestWork::Delete(item, grace_s) => side.delete(item, grace_s),
        GuestWork::Release(pod) => side.release(pod),
        GuestWork::Confirm(item) => side.confirm(item),
    }
}

impl Guest {
    /// The priority class and the namespaces that there are; false if there is no way.
    async fn prepare(&mut self) -> bool {
        let class = self.task.desire.contract.terms.class;
        loop {
            match guest_namespace::ensure_priority(&self.shared.cluster, class).await {
                Ok(name) => {
                    self.priority_class = name;
                    return self.make_namespaces().await;
                }
                Err(failure) => {
                    if !self.pauses(&failure).await {
                        return false;
                    }
                }
            }
        }
    }

    /// Makes the namespaces that are missing, before any work in them. False if there is
    /// no way.
    async fn make_namespaces(&mut self) -> bool {
        if self.task.desire.phase > Phase::Suspended {
            return true;
        }
        for (home, name) in self.task.desire.namespaces.clone() {
            while !self.made.contains(&name) {
                let wanted = self.namespace(&home, &name);
                let (cluster, account) = (&self.shared.cluster, &self.shared.account);
                match guest_namespace::ensure(cluster, account, wanted).await {
                    Ok(()) => drop(self.made.insert(name.clone())),
                    Err(failure) => {
                        if !self.pauses(&failure).await {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }

    /// Waits for a failure to pass; one that does not pass is told.
    async fn pauses(&self, failure: &Failure) -> bool {
        tracing::warn!(%failure, contract = %self.task.contract().short(), "not set up yet");
        if failure.class == Class::Transient {
            sleep(limits::CLUSTER_RETRY).await;
            return true;
        }
        self.task.news(LeaseNews::Failed(failure.to_string())).await;
        false
    }

    async fn wait_for_end(&mut self) {
        while let Some(order) = self.task.orders.recv().await {
            if let Order::Be(desire) = order {
                self.task.desire = *desire;
                if self.task.desire.phase == Phase::Ended {
                    return self.end().await;
                }
            }
        }
    }

    /// Removes all namespaces of the contract, also those of an earlier start.
    async fn end(&self) {
        let (cluster, contract) = (&self.shared.cluster, self.task.contract());
        loop {
            let left = match guest_namespace::existing(cluster).await {
                Ok(all) => {
                    let ours = all.into_iter().filter(|(_, of)| *of == contract.to_string());
                    ours.map(|(name, _)| name).collect::<Vec<_>>()
                }
                Err(failure) => {
                    tracing::warn!(%failure, "guest namespaces are not known");
                    sleep(limits::CLUSTER_RETRY).await;
                    continue;
                }
            };
            if left.is_empty() {
                return self.task.news(LeaseNews::Removed).await;
            }
            for name in left {
                if let Err(failure) = guest_namespace::remove(cluster, &name, &contract).await {
                    tracing::warn!(%failure, name, "a guest namespace is not removed yet");
                }
            }
            sleep(limits::DRAIN_LOOK).await;
        }
    }

    fn namespace(&self, home: &str, name: &str) -> GuestNamespace {
        let terms = &self.task.desire.contract.terms;
        GuestNamespace {
            name: name.to_owned(),
            home: home.to_owned(),
            contract: self.task.contract(),
            quantity: terms.quantity.clone(),
            extended: BTreeMap::new(),
            pod_security: terms.pod_security,
            default_requests: default_requests(),
            default_limits: BTreeMap::new(),
        }
    }

    fn context(&self) -> GuestContext {
        GuestContext {
            contract: self.task.contract(),
            namespaces: self.task.desire.namespaces.clone(),
            priority_class: self.priority_class.clone(),
            runtime_class: None,
            node_selector: BTreeMap::new(),
            dns_policy: "Default".to_owned(),
            dns_config: None,
            user_namespaces: false,
            default_requests: default_requests(),
            default_limits: BTreeMap::new(),
            allocatable: room(&self.task.desire.contract.terms.quantity),
        }
    }
}

/// Of a container that names none: a guess, small enough to fit anywhere.
fn default_requests() -> BTreeMap<String, String> {
    [("cpu", "100m"), ("memory", "64Mi")].map(|(name, n)| (name.to_owned(), n.to_owned())).into()
}
