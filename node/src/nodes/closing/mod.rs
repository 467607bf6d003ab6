//! Guests whose contract requires isolation are closed on their node: they reach whom it names, and
//! nobody else, from their first instruction on.
//!
//! `gate` hears the gates of guests that begin, `keeper` closes each guest's network namespace and
//! keeps it closed, also when its lease is over, and `sandboxes` is the machine. What is in force
//! in a namespace stays until that is gone, whoever ends.

mod gate;
mod keeper;
mod sandboxes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use mercato_protocol::gate::GuestUid;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use self::keeper::ClosingKeeper;
use self::sandboxes::Host;
use crate::limits;

/// What guests of this node may reach that are to be closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClosingRules {
    /// The TCP port at which gates ask; zero: nobody answers them.
    pub(crate) port: u16,
    pub(crate) guests: BTreeMap<GuestUid, GuestRule>,
}

/// What one of them may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GuestRule {
    /// Its own address, once its gate is known to be open.
    pub(crate) pod: Option<IpAddr>,
    pub(crate) reached: Arc<BTreeSet<IpNet>>,
}

/// How it is with the guests of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closings {
    /// The addresses of those that are closed, and whose gates have heard so.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Why none can be closed, or one is not; none: all are that should be.
    pub(crate) trouble: Option<String>,
}

/// Closes guests until it is dropped; they stay closed.
pub(crate) struct Closing {
    rules: watch::Sender<ClosingRules>,
    closings: watch::Receiver<Closings>,
    _tasks: JoinSet<()>,
}

impl Closing {
    /// On this machine.
    pub(crate) fn start() -> Self {
        let (rules, ruled) = watch::channel(ClosingRules::default());
        let untried = Some("it was not tried yet".to_owned());
        let before = Closings { addresses: BTreeSet::new(), trouble: untried };
        let (tell, closings) = watch::channel(before);
        let (ask, asked) = mpsc::channel(limits::GATE_ASKS);
        let mut tasks = JoinSet::new();
        tasks.spawn(gate::answer(ruled.clone(), ask));
        tasks.spawn(ClosingKeeper::new(Arc::new(Host), ruled, asked, tell).keep());
        Self { rules, closings, _tasks: tasks }
    }

    /// These are to be closed from now on.
    pub(crate) fn rule(&self, rules: ClosingRules) {
        self.rules.send_if_modified(|before| {
            let is_new = *before != rules;
            *before = rules;
            is_new
        });
    }

    /// How it is now, and whether that has changed.
    pub(crate) fn closings(&self) -> watch::Receiver<Closings> {
        self.closings.clone()
    }
}
