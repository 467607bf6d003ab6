//! A lease at home, in a real cluster: the virtual node, its kubelet API, its pods and
//! what they need.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions};
use kube::core::{ApiResource, GroupVersionKind};
use mercato_agent::{HomeWork, LeaseDesire, LeaseNews, Phase};
use mercato_kubelet::node::{self, NodeSpec, NodeState, Taint};
use mercato_kubelet::{HomeLease, HomeLeaseConfig};
use mercato_offload::home::Input;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::Shared;
use crate::kubernetes::streams::Streams;
use crate::kubernetes::{LeaseTask, Order, node_name, room};
use crate::limits;

pub(super) async fn follow(shared: Arc<Shared>, mut task: LeaseTask) {
    let (name, mut lease, mut inputs) = loop {
        match start(&shared, &task).await {
            Ok(started) => break started,
            Err(error) => {
                tracing::warn!(%error, contract = %task.contract().short(), "no virtual node yet");
                sleep(limits::CLUSTER_RETRY).await;
            }
        }
    };
    let mut state = lease.node.state();
    let mut ready = false;
    let mut drain = ticks();
    loop {
        tokio::select! {
            order = task.orders.recv() => match order {
                Some(Order::Be(desire)) => {
                    task.desire = *desire;
                    lease.node.update(|spec| adapt(spec, &task.desire));
                }
                Some(Order::Home(work)) => perform(&mut lease, work),
                // A lease has one side in a cluster.
                Some(Order::Guest(_) | Order::CameBy(..)) => {}
                None => return,
            },
            Some(input) = inputs.recv() => task.home(input).await,
            changed = state.changed(), if !ready => {
                ready = changed.is_ok() && *state.borrow() == NodeState::Kept;
                if ready {
                    task.news(LeaseNews::Ready).await;
                }
            }
            _ = drain.tick(), if task.desire.phase >= Phase::Draining => {
                match evict(&shared, &name).await {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%error, node = name, "not drained yet"),
                }
            }
        }
    }
    end(&shared, &name, lease, &task).await;
}

async fn start(
    shared: &Arc<Shared>,
    task: &LeaseTask,
) -> anyhow::Result<(String, HomeLease, mpsc::Receiver<Input>)> {
    let contract = &task.desire.contract;
    let existing = node::existing(&shared.cluster).await?;
    let id = contract.id.to_string();
    let name = existing.get(&id).cloned().unwrap_or_else(|| {
        let name = node_name(&task.desire);
        let taken = existing.values().any(|other| *other == name);
        if taken { format!("{name}-{}", contract.id.short()) } else { name }
    });
    let mut spec = NodeSpec {
        name: name.clone(),
        contract: contract.id,
        provider: contract.provider.cluster,
        platform: contract.terms.platform.clone(),
        region: None,
        zone: None,
        labels: BTreeMap::new(),
        capacity: room(&contract.terms.quantity),
        address: shared.address,
        port: 0,
        version: shared.version.clone(),
        taint: Taint::Tainted,
        unschedulable: false,
        reachable: true,
    };
    adapt(&mut spec, &task.desire);
    let listen = SocketAddr::new(shared.address, 0);
    let config = HomeLeaseConfig { node: spec, listen, approve_serving: false };
    let (lease, inputs) = HomeLease::start(
        shared.cluster.clone(),
        shared.account.clone(),
        config,
        task.bodies.clone(),
        shared.opt_ins.known(),
        Arc::new(Streams(task.driver.clone())),
    )
    .await?;
    Ok((name, lease, inputs))
}

fn adapt(spec: &mut NodeSpec, desire: &LeaseDesire) {
    spec.reachable = desire.reachable;
    spec.unschedulable = !matches!(desire.phase, Phase::Open { .. });
}

fn perform(lease: &mut HomeLease, work: HomeWork) {
    match work {
        HomeWork::Watch(key) => lease.side.watch(key),
        HomeWork::Unwatch(key) => lease.side.unwatch(&key),
        HomeWork::Confirm(pod) => lease.side.confirm(pod),
        HomeWork::Write(pod, write) => lease.side.write(pod, write),
        HomeWork::ObjectRefused(key, refusal) => lease.side.object_refused(key, refusal),
    }
}

fn ticks() -> Interval {
    let mut ticks = interval(limits::DRAIN_LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Tells the pods of the node to go, each with its own grace. How many are left.
async fn evict(shared: &Shared, node: &str) -> Result<usize, kube::Error> {
    let pods = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
    let bound = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let all: Api<DynamicObject> = Api::all_with(shared.cluster.client(), &pods);
    let found = all.list(&bound).await?.items;
    for pod in found.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let (Some(namespace), Some(name)) = (&pod.metadata.namespace, &pod.metadata.name) else {
            continue;
        };
        let own: Api<DynamicObject> =
            Api::namespaced_with(shared.cluster.client(), namespace, &pods);
        let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let how = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match own.delete(name, &how).await {
            // One that has gone is what was wanted.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(found.len())
}

async fn end(shared: &Shared, name: &str, lease: HomeLease, task: &LeaseTask) {
    let mut ended = lease.end().await;
    while let Err(failure) = ended {
        tracing::warn!(%failure, node = name, "the virtual node is not removed yet");
        sleep(limits::CLUSTER_RETRY).await;
        ended = node::remove(&shared.cluster, name, &task.contract().to_string()).await;
    }
    task.news(LeaseNews::Removed).await;
}
