//! Rules by jurisdiction that cover nobody: said once in the log, and again when that has changed.

use mercato_broker::Broker;
use mercato_kubelet::{Repeated, warn_once};

use crate::limits;

/// When they are looked at, and what was said of them.
pub(super) struct Rules {
    /// The next look: monotonic milliseconds.
    at_ms: u64,
    said: Repeated,
}

impl Rules {
    /// The first look is after a daemon that starts has heard from the members that it knows.
    pub(super) fn new(now_ms: u64) -> Self {
        Self { at_ms: now_ms + limits::RULES_MS, said: Repeated::default() }
    }

    /// Looks at them, if it is time.
    pub(super) fn look(&mut self, now_ms: u64, broker: &Broker) {
        if now_ms < self.at_ms {
            return;
        }
        self.at_ms = now_ms + limits::RULES_MS;
        let countries = broker.countries_of_nobody();
        if countries.is_empty() {
            self.said.is_over();
            return;
        }
        let countries: Vec<&str> = countries.into_iter().collect();
        let countries = countries.join(", ");
        warn_once!(self.said, countries; "rules by jurisdiction cover nobody: see mercato doctor");
    }
}
