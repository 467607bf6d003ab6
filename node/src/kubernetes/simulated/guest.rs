//! A lease at the provider, in the model: guest namespaces and what is in them.

use mercato_agent::{GuestWork, LeaseNews, Phase, Work};
use mercato_cluster_model::sides::GuestSide;

use super::model::Simulated;
use crate::kubernetes::LeaseTask;

struct Guest {
    cluster: Simulated,
    task: LeaseTask,
    side: GuestSide,
    ended: bool,
}

pub(super) async fn follow(cluster: Simulated, task: LeaseTask) {
    let mut changes = cluster.changes();
    let side = GuestSide::new(&task.desire.borrow().contract);
    let mut guest = Guest { cluster, task, side, ended: false };
    loop {
        guest.adapt().await;
        guest.look().await;
        tokio::select! {
            changed = guest.task.desire.changed() => if changed.is_err() { return },
            Some(work) = guest.task.work.recv() => {
                // What it depends on may not have been looked at yet.
                guest.adapt().await;
                // A lease has one side in a cluster.
                if let Work::Guest(work) = work {
                    guest.work(work).await;
                }
            }
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

impl Guest {
    /// Makes the lease's part here as it is wanted.
    async fn adapt(&mut self) {
        let desire = self.task.desire.borrow_and_update().clone();
        let side = &mut self.side;
        side.set_ranges(desire.ranges.clone());
        let gone = self.cluster.request(&self.task.bodies, |client| match desire.phase {
            Phase::Open | Phase::Suspended => {
                side.open(client, &desire.contract, &desire.namespaces).map(|()| false)
            }
            Phase::Draining => Ok(false),
            Phase::Ended => side.close(client),
        });
        // What fails is tried again when something changes.
        if gone.unwrap_or(false) && !self.ended {
            self.ended = true;
            self.task.news(LeaseNews::Removed).await;
        }
    }

    /// Tells the session what has changed.
    async fn look(&mut self) {
        let side = &mut self.side;
        for input in self.cluster.request(&self.task.bodies, |client| side.news(client)) {
            self.task.guest(input).await;
        }
    }

    async fn work(&mut self, work: GuestWork) {
        let side = &mut self.side;
        let input = self.cluster.request(&self.task.bodies, |client| match work {
            GuestWork::Apply(item, content) => side.apply(client, item, &content),
            GuestWork::Make(pod, content) => side.make(client, pod, &content),
            GuestWork::Update(pod, content) => side.update(client, pod, &content),
            GuestWork::Delete(item, grace_s) => side.delete(client, item, grace_s),
            GuestWork::Release(pod) => side.release(client, pod),
            GuestWork::Confirm(item, uid) => side.confirm(client, &item, uid),
        });
        self.task.guest(input).await;
    }
}
