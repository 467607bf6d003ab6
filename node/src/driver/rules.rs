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
        let countries: Vec<&str> = broker.countries_of_nobody().into_iter().collect();
        if countries.is_empty() {
            self.said.is_over();
            return;
        }
        let countries = countries.join(", ");
        warn_once!(self.said, countries; "rules by jurisdiction cover nobody: see mercato doctor");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mercato_broker::{Config, Record, ShareRule};
    use mercato_config::Share;
    use mercato_protocol::envelope::KeyPair;
    use mercato_protocol::id::ClusterId;
    use mercato_protocol::identity::Identity;
    use mercato_protocol::time::Now;

    use super::*;

    /// The broker of an owner who has a rule for Italy, and has said that.
    fn broker(said: Option<Record>) -> Broker {
        let key = Arc::new(KeyPair::from_seed(&[1; 32]));
        let at = Now { mono_ms: 0, wall_ms: 1_800_000_000_000 };
        let identity = Identity::found(&key, "rome", at).unwrap();
        let mut policy = Share::default().policy();
        let jurisdictions = ["IT".to_owned()].into();
        policy.rules = vec![ShareRule { jurisdictions, ..ShareRule::default() }];
        let records = [Record::Share(policy)].into_iter().chain(said);
        Broker::restore(Config::new(key, identity), 1, records)
    }

    #[test]
    fn countries_of_nobody_are_said_when_it_is_time_until_somebody_is_of_them() {
        let mut rules = Rules::new(0);
        rules.look(limits::RULES_MS - 1, &broker(None));
        assert!(!rules.said.is_over(), "others have not been heard yet");
        rules.look(limits::RULES_MS, &broker(None));
        assert!(!rules.said.is_news(&"IT"), "it was said");
        let of_italy = broker(Some(Record::Country(ClusterId([2; 32]), "IT".to_owned())));
        rules.look(2 * limits::RULES_MS - 1, &of_italy);
        assert!(!rules.said.is_news(&"IT"), "it is not time");
        rules.look(2 * limits::RULES_MS, &of_italy);
        assert!(!rules.said.is_over(), "it is over already");
    }
}
