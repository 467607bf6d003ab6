//! A lease at home, in the model: the virtual node, its pods and what they need.

use mercato_agent::{HomeWork, LeaseNews, Phase, Work};
use mercato_cluster_model::sides::{HomeSide, NodeState};
use mercato_config::Show as _;
use mercato_offload::key::ObjectKind;
use mercato_offload::placement::export::Scope;

use super::model::Simulated;
use crate::kubernetes::LeaseTask;

struct Home {
    cluster: Simulated,
    task: LeaseTask,
    side: HomeSide,
    /// What the agent was told of the lease last.
    told: Option<LeaseNews>,
    /// The virtual node cannot be made, or removed.
    failing: bool,
}

pub(super) async fn follow(cluster: Simulated, task: LeaseTask) {
    let mut changes = cluster.changes();
    let side = HomeSide::new(&task.desire.borrow().contract, Scope::Labelled);
    let mut home = Home { cluster, task, side, told: None, failing: false };
    loop {
        home.adapt().await;
        home.look().await;
        tokio::select! {
            changed = home.task.desire.changed() => if changed.is_err() { return },
            Some(Work::Home(work)) = home.task.work.recv() => home.work(work).await,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

impl Home {
    /// Makes the virtual node as it is wanted, or lets it go.
    async fn adapt(&mut self) {
        let desire = self.task.desire.borrow_and_update().clone();
        let side = &mut self.side;
        side.set_ranges([&desire.ranges[..], &desire.own].concat());
        let done = self.cluster.request(&self.task.bodies, |client| {
            let node = NodeState {
                contract: &desire.contract,
                peer_name: desire.peer_name.as_deref(),
                ends_ms: desire.ends.at_ms,
                leaving: desire.leaving(client.now.wall_ms),
                suspended: desire.phase == Phase::Suspended,
                bought: desire.is_burst,
                reachable: desire.reachable,
            };
            if desire.phase >= Phase::Draining {
                return side.drain(client, node).map(|gone| gone.then_some(LeaseNews::Removed));
            }
            side.keep_node(client, node).map(|()| Some(LeaseNews::Ready))
        });
        match done {
            Ok(Some(news)) if self.told.as_ref() != Some(&news) => {
                if let Some(node) = self.side.node() {
                    let _ = self.task.node.set(node.to_owned());
                    let room = desire.contract.terms.quantity.show();
                    tracing::debug!(node, room, ?news, "a virtual node");
                }
                self.told = Some(news.clone());
                self.task.news(news).await;
            }
            Ok(_) => self.failing = false,
            Err(error) if !self.failing => {
                self.failing = true;
                // Once, until it succeeds.
                tracing::warn!(%error, node = self.side.node(), "a virtual node is not as wanted");
            }
            Err(_) => {}
        }
    }

    /// Tells the session what has changed.
    async fn look(&mut self) {
        let side = &mut self.side;
        for input in self.cluster.request(&self.task.bodies, |client| side.news(client)) {
            self.task.home(input).await;
        }
    }

    async fn work(&mut self, work: HomeWork) {
        let (side, bodies) = (&mut self.side, &self.task.bodies);
        let input = match work {
            HomeWork::Watch(key) => return side.watch(key),
            HomeWork::Unwatch(key) => return side.unwatch(&key),
            HomeWork::Confirm(pod) => {
                self.cluster.request(bodies, |client| side.confirm(client, &pod))
            }
            HomeWork::Write(pod, write) => {
                self.cluster.request(bodies, |client| HomeSide::write(client, &pod, &write))
            }
            HomeWork::ObjectRefused(key, refusal) => {
                // Once for each refusal.
                tracing::warn!(%key, reason = refusal.reason, "refused by the provider");
                if key.kind == ObjectKind::Claim {
                    side.claim_refused(key);
                }
                return;
            }
            HomeWork::Claim(key, granted) => {
                return self.cluster.request(bodies, |client| side.granted(client, &key, granted));
            }
            HomeWork::Event(pod, event) => {
                tracing::debug!(pod = %pod.key(), reason = event.reason, "an event");
                return;
            }
        };
        self.task.home(input).await;
    }
}
