//! An agent that gives way to one of the records: when they cannot be written, can be again, or
//! when something is asked for that cannot be kept.

use mercato_agent::{Ahead, Answer, FederationRefusal, LeasesAhead, TooLarge};
use mercato_broker::Refusal;
use mercato_gossip::Interner;
use mercato_kubelet::warn_once;

use super::{Driver, restore};
use crate::admin::{Event, EventKind};
use crate::limits;

impl Driver {
    /// Goes on from the records that are on disk. `degraded` says why no more can be
    /// written, if so.
    pub(super) fn rebuild(&mut self, degraded: Option<String>) {
        let again_ms = self.clock.now().mono_ms + limits::STORE_RETRY_MS;
        let before = self.retry_ms;
        self.retry_ms = degraded.is_some().then(|| before.unwrap_or(again_ms));
        // What they asked for is not done.
        for (_, reply) in std::mem::take(&mut self.replies) {
            // Whoever asked may have gone.
            let _ = reply.send(Err(Refusal::Degraded));
        }
        self.interrupt_askers();
        self.taken.clear();
        self.ahead = None;
        // Those of a daemon that is degraded already rest as they are.
        if before.is_none() || degraded.is_none() {
            self.leases.clear();
            self.outbound.clear();
        }
        self.gate.failed();
        self.begin_again(degraded);
    }

    /// An input that led to a record above its bound fails, and nothing else: what others asked
    /// for before it is written, and then the agent goes on from its records. Leases go on as they
    /// are, but for those that the input was about. No limit lets such a record come to be.
    pub(super) fn refuse(&mut self, asked: Option<u64>, ahead: Ahead) {
        let error = ahead.why;
        warn_once!(self.refused, error; "an input is refused: it cannot be kept");
        let text = format!("something is refused that cannot be kept: {error}");
        self.handle.say(Event::of(EventKind::TooLarge, text));
        let TooLarge { bytes } = error;
        // Whoever asked may have gone.
        if let Some(reply) = asked.and_then(|number| self.replies.remove(&number)) {
            let _ = reply.send(Err(Refusal::TooLarge(bytes)));
        }
        if let Some(reply) = asked.and_then(|number| self.askers.remove(&number)) {
            let _ = reply.send(Answer::Refused(FederationRefusal::TooLarge(bytes)));
        }
        let before = self.ahead.take().map(|before| before.leases);
        let leases = before.into_iter().fold(ahead.leases, LeasesAhead::and);
        self.ahead = Some(Ahead { why: error, leases });
    }

    /// Goes on from the records, all of which are on disk.
    pub(super) fn step_back(&mut self, ahead: Ahead) {
        self.interrupt_askers();
        let degraded = self.agent.degraded().map(str::to_owned);
        let LeasesAhead::These(leases) = ahead.leases else {
            self.leases.clear();
            self.outbound.clear();
            return self.begin_again(degraded);
        };
        for contract in &leases {
            self.leases.remove(contract);
            self.outbound.remove(contract);
        }
        let interner = Interner::new(rand::random());
        self.agent.step_back(rand::random(), interner, self.gate.records(), &leases);
        self.tell_again(degraded.is_some());
    }

    /// What waits for a peer's word is not waited for any more: the agent that waited is gone.
    fn interrupt_askers(&mut self) {
        for (_, reply) in std::mem::take(&mut self.askers) {
            // Whoever asked may have gone.
            let _ = reply.send(Answer::Refused(FederationRefusal::Interrupted));
        }
    }

    /// The agent that the records tell of takes the place of this one, and is told of the world.
    fn begin_again(&mut self, degraded: Option<String>) {
        let named = degraded.is_some();
        self.agent = restore(&self.config, self.gate.records(), degraded);
        self.tell_again(named);
    }

    /// Tells the agent of the world; with `named`, who is where, too.
    fn tell_again(&mut self, named: bool) {
        for input in self.world.again(named) {
            let answer = self.agent.handle(self.clock.now(), input);
            if let Err(Ahead { why, .. }) = self.gate.pass(answer) {
                tracing::error!(%why, "what the records imply cannot be kept");
            }
        }
    }

    /// Tries to write again, from time to time.
    pub(super) async fn recover(&mut self) {
        let now_ms = self.clock.now().mono_ms;
        if self.retry_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        match tokio::task::block_in_place(|| self.store.reopen()) {
            Ok(()) => {
                tracing::info!("the records can be written again");
                let text = "the data folder can be written again";
                self.handle.say(Event::of(EventKind::RecordsWritable, text));
                self.told.mended();
                self.unwritable.is_over();
                self.rebuild(None);
                self.settle().await;
            }
            Err(error) => {
                warn_once!(self.unwritable, error; "the records still cannot be written");
                self.retry_ms = Some(now_ms + limits::STORE_RETRY_MS);
            }
        }
    }
}
