//! Guests whose contract requires isolation are closed on their node: they reach whom it names, and
//! nobody else, from their first instruction on.
//!
//! `gate` hears the gates of guests that begin, as far as they are `pods` of this machine, `keeper`
//! closes each guest's network namespace and keeps it closed, also when its lease is over,
//! `unkept` says what fails of that for longer than a moment, `forwarding` tries whether what they may
//! send comes through, and `sandboxes` is the machine. What
//! is in force in a namespace stays until that is gone, whoever ends.

mod forwarding;
mod gate;
mod held;
mod keeper;
mod pods;
mod rules;
mod sandboxes;
#[cfg(test)]
mod tests;
mod unkept;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::keeper::ClosingKeeper;
pub(crate) use self::rules::{ClosingRules, Closings, GuestRule, called};
use self::sandboxes::Host;
use crate::limits;

/// Closes guests until it is dropped; they stay closed.
pub(crate) struct Closing {
    rules: watch::Sender<Option<Arc<ClosingRules>>>,
    closings: watch::Receiver<Closings>,
    _tasks: JoinSet<()>,
}

impl Closing {
    /// Begins to do so on this machine.
    pub(crate) fn start() -> Self {
        let (rules, ruled) = watch::channel(None);
        let untried = Some("it was not tried yet".to_owned());
        let before = Closings { trouble: untried, ..Closings::default() };
        let (tell, closings) = watch::channel(before);
        let (ask, asked) = mpsc::channel(limits::GATE_ASKS);
        let mut tasks = JoinSet::new();
        let (host, (tried, forwarding)) =
            (Arc::new(Host::default()), watch::channel(forwarding::untried()));
        tasks.spawn(gate::answer(host.clone(), ruled.clone(), ask));
        tasks.spawn(forwarding::try_again(host.clone(), tried));
        tasks.spawn(ClosingKeeper::new(host, ruled, asked, tell, forwarding).keep());
        Self { rules, closings, _tasks: tasks }
    }

    /// One that closes nobody, of which this is told.
    #[cfg(test)]
    pub(crate) fn told_of(closings: watch::Receiver<Closings>) -> Self {
        Self { rules: watch::channel(None).0, closings, _tasks: JoinSet::new() }
    }

    /// These are to be closed from now on.
    pub(crate) fn rule(&self, rules: ClosingRules) {
        self.rules.send_if_modified(|before| {
            let is_new = before.as_deref() != Some(&rules);
            *before = Some(Arc::new(rules));
            is_new
        });
    }

    /// How it is now, and whether that has changed.
    pub(crate) fn closings(&self) -> watch::Receiver<Closings> {
        self.closings.clone()
    }
}
