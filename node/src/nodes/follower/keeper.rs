//! Keeps the machine as the latest snapshot says, whoever else changes it, and says how it is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use mercato_kubelet::{Repeated, warn_once};
use mercato_machine::Outward;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::super::closing::{Closing, Closings};
use super::force::{Force, Heard, Target};
use super::look::{Done, Outcome, look};
use super::machine::{Machine, Trouble};
use super::names::Served;
use super::standing::{SetUp, Standing, line};
use crate::limits;

/// What it is that keeps the machine so.
pub(super) struct NodeKeeper<M> {
    machine: Arc<M>,
    heard: watch::Receiver<Option<Heard>>,
    served: watch::Receiver<Served>,
    told: watch::Sender<Option<Standing>>,
    force: Force,
    /// None where the daemon does so itself.
    closing: Option<Closing>,
    /// How it was with guests when that was looked at last.
    closings: Option<Closings>,
    set_up: SetUp,
    /// What was to go is gone.
    is_clean: bool,
    troubled: Repeated,
    second_troubled: Repeated,
}

impl<M: Machine> NodeKeeper<M> {
    /// Keeps this machine: it hears snapshots there, and how it is with names, and tells here. Nothing
    /// is told before the machine was looked at.
    pub(super) fn new(
        machine: Arc<M>,
        heard: watch::Receiver<Option<Heard>>,
        served: watch::Receiver<Served>,
        told: watch::Sender<Option<Standing>>,
    ) -> Self {
        let force = Force::new(machine.now_ms());
        let (troubled, second_troubled) = (Repeated::default(), Repeated::default());
        let (closing, set_up, is_clean) = (Some(machine.closing()), SetUp::default(), false);
        Self {
            machine,
            heard,
            served,
            told,
            force,
            closing,
            closings: None,
            set_up,
            is_clean,
            troubled,
            second_troubled,
        }
    }

    /// Does so for as long as snapshots may come.
    pub(super) async fn keep(mut self) {
        let mut news = None;
        loop {
            let pause = self.step(news).await;
            let other_guests = self.other_guests();
            news = tokio::select! {
                changed = self.heard.changed() => match changed {
                    Ok(()) => self.heard.borrow_and_update().clone(),
                    Err(_) => return,
                },
                () = other_guests => None,
                Ok(()) = self.served.changed() => None,
                () = tokio::time::sleep(pause) => None,
            };
        }
    }

    /// Waits until another guest is closed, or one no more.
    fn other_guests(&self) -> impl Future<Output = ()> + use<M> {
        let closings = self.closing.as_ref().map(Closing::closings);
        let known = self.closings.clone();
        async move {
            let is_other = |now: &Closings| Some(now) != known.as_ref();
            if let Some(mut closings) = closings
                && closings.wait_for(is_other).await.is_ok()
            {
                return;
            }
            std::future::pending::<()>().await;
        }
    }

    /// Guests are closed as they should be; gives those that are, and whom no guest reaches.
    fn mind_guests(&mut self) -> (Closings, Arc<BTreeSet<IpNet>>) {
        let mut never = Arc::default();
        match self.force.rules() {
            Some(rules) => {
                never = rules.never.clone();
                self.closing.get_or_insert_with(|| self.machine.closing()).rule(rules);
            }
            None if self.force.target() == Target::Leave => self.closing = None,
            None => {}
        }
        self.closings = self.closing.as_ref().map(|closing| closing.closings().borrow().clone());
        (self.closings.clone().unwrap_or_default(), never)
    }

    /// One look at all of it, and what has to be done; gives when to look again. What is known is told
    /// then, whoever has found it out, and whether or not there was anything to do.
    async fn step(&mut self, news: Option<Heard>) -> Duration {
        if let Some(heard) = news {
            self.hear(heard);
        }
        let ended = self.force.end(self.machine.now_ms());
        if ended > 0 {
            tracing::info!(ended, "leases have ended on this node, by its own clock");
        }
        self.force.listen(self.served.borrow().at);
        let machine = self.machine.clone();
        let own = spawn_blocking(move || machine.networks()).await;
        self.force.know_networks(own.unwrap_or_else(|error| {
            std::panic::resume_unwind(error.into_panic());
        }));
        let (guests, never) = self.mind_guests();
        self.mind_machine(guests, &never).await;
        self.tell();
        let now_ms = self.machine.now_ms();
        let next = self.force.next_ms().map(|at| Duration::from_millis(at.saturating_sub(now_ms)));
        next.map_or(limits::FOLLOW_LOOK, |next| next.min(limits::FOLLOW_LOOK))
    }

    fn hear(&mut self, heard: Heard) {
        if heard.snapshot.is_none() {
            tracing::info!("the daemon is on this node, and keeps its machine itself");
        }
        self.force.hear(heard);
        self.is_clean = false;
    }

    /// The machine is as it should be, with these guests that are closed.
    async fn mind_machine(&mut self, guests: Closings, never: &BTreeSet<IpNet>) {
        let mut target = self.force.target();
        if let Target::SetUp(wanted) = &mut target {
            wanted.outward = Outward::of(&guests.outward, never);
            wanted.guests = guests.addresses;
        }
        if target == Target::Nothing && self.is_clean {
            // Whatever is there by now is another's.
            return;
        }
        let machine = self.machine.clone();
        let looking = spawn_blocking(move || look(&*machine, &target));
        let outcome = looking.await.unwrap_or_else(|error| {
            std::panic::resume_unwind(error.into_panic());
        });
        self.take(outcome);
    }

    /// Says how it is now, if that is anything new.
    fn tell(&self) {
        let (closings, mended) = (self.closings.as_ref(), self.machine.mended());
        let (served, own) = (self.served.borrow().clone(), self.force.networks());
        let now = Standing::new(&self.set_up, closings, mended, &served, own);
        self.told.send_if_modified(|before| {
            let is_news = before.as_ref() != Some(&now);
            *before = Some(now);
            is_news
        });
    }

    fn take(&mut self, outcome: Outcome) {
        let Outcome { mtu, done } = outcome;
        self.set_up.mtu = mtu.unwrap_or(self.set_up.mtu);
        let word = self.force.word();
        self.set_up.second = self.second(&done);
        let address = match done {
            Err(trouble) => {
                let what = "this node is not set up for other clusters";
                warn_once!(self.troubled, trouble; "{what}");
                self.set_up.trouble = Some(line(&trouble));
                return;
            }
            Ok(Done::Stays(address)) => address,
            Ok(Done::Left) => None,
            Ok(Done::Cleaned(was_there)) => {
                self.is_clean = true;
                was_there.then(|| tracing::info!("removed what other clusters were reached by"));
                None
            }
            Ok(Done::Refused(was_there)) => {
                if was_there {
                    // Once, for it leads nowhere from then on.
                    tracing::warn!(
                        "what an earlier process has set up leads nowhere from now on: the daemon \
                         of this cluster is not reached, and nobody says that it is still needed"
                    );
                }
                None
            }
            Ok(Done::SetUp(address, _)) => Some(address),
        };
        let was_troubled = self.troubled.is_over();
        if let (Some(address), Some(_)) = (address, word)
            && (was_troubled || self.set_up.address != Some(address))
        {
            tracing::info!(%address, "this node is set up for other clusters");
        }
        self.set_up.address = address;
        self.set_up.word = word;
        self.set_up.trouble = None;
    }

    /// Whether the second family is in force too; what keeps it from that is said here alone.
    fn second(&mut self, done: &Result<Done, Trouble>) -> bool {
        let Ok(Done::SetUp(_, second)) = done else { return false };
        match second {
            Ok(second) => {
                self.second_troubled.is_over();
                *second
            }
            Err(trouble) => {
                let what = "this node is set up for other clusters by IPv4 alone";
                warn_once!(self.second_troubled, trouble; "{what}");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
