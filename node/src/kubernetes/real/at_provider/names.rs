//! The names of a lease's guests: told to whoever tells guests, and where that is.

use std::net::IpAddr;
use std::sync::Arc;

use mercato_agent::GuestWork;
use mercato_offload::key::Item;
use mercato_protocol::names::LeaseNames;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::kubernetes::{LeaseTask, NameServerAt, TellNames};
use crate::limits;

/// Where guests of the lease are told names, if anywhere.
pub(super) fn server(task: &LeaseTask) -> Option<IpAddr> {
    match *task.name_server.borrow() {
        NameServerAt::There(address) => Some(address),
        NameServerAt::NotYet | NameServerAt::Nowhere => None,
    }
}

/// Tells each change as long as it is asked to.
pub(super) async fn tell(mut names: watch::Receiver<Option<Arc<LeaseNames>>>, to: TellNames) {
    loop {
        let now = names.borrow_and_update().clone();
        if let Some(now) = now {
            to(now);
        }
        if names.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// How long new pods wait until it is known where they are told names.
pub(super) struct Patience {
    until: Instant,
    /// What is known was looked at.
    is_over: bool,
}

impl Patience {
    pub(super) fn begin() -> Self {
        Self { until: Instant::now() + limits::NAMES_WAIT, is_over: false }
    }

    /// Whether this work is to wait.
    pub(super) fn holds(&self, work: &GuestWork, task: &LeaseTask) -> bool {
        let is_pod = matches!(work, GuestWork::Apply(Item::Pod(_), ..) | GuestWork::Make(..));
        let is_known = *task.name_server.borrow() != NameServerAt::NotYet;
        is_pod && !is_known && !self.is_over
    }

    /// Waits until what waits is to go on, and each time that something else is known.
    pub(super) async fn is_over(&mut self, server: &mut watch::Receiver<NameServerAt>) {
        if self.is_over {
            if server.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            return;
        }
        let known = server.wait_for(|at| *at != NameServerAt::NotYet);
        tokio::select! { _ = known => {} () = sleep_until(self.until) => {} }
        self.is_over = true;
    }
}
