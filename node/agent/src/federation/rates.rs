//! How often the clusters of one organisation may advertise, all together: keys are free to
//! whoever may let clusters join. Gossip bounds each key, and those whom nobody knows.

use std::collections::BTreeMap;

use mercato_protocol::certificate::Member;
use mercato_protocol::id::FederationId;
use mercato_protocol::text::Slug;
use mercato_protocol::time::Now;

use crate::limits;

/// What each organisation has used up. A cluster of none is bounded by its key.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    of: BTreeMap<(FederationId, Slug), Bucket>,
    /// Of all those of a federation together that there is no room for.
    others: BTreeMap<FederationId, Bucket>,
}

/// Advertisements that may come now, and when that was so, monotonic.
#[derive(Debug)]
struct Bucket {
    left: u64,
    at_ms: u64,
}

impl Bucket {
    fn refill(&mut self, now_ms: u64) {
        let more = now_ms.saturating_sub(self.at_ms) / limits::ORGANISATION_AD_MS;
        self.left = self.left.saturating_add(more).min(limits::ORGANISATION_ADS);
        self.at_ms += more * limits::ORGANISATION_AD_MS;
    }
}

impl Rates {
    /// Whether one more advertisement of this member's is taken now.
    pub(crate) fn admit(&mut self, now: Now, federation: FederationId, member: &Member) -> bool {
        let Some(organisation) = member.organisation.clone() else { return true };
        let (now_ms, of) = (now.mono_ms, (federation, organisation));
        if !self.of.contains_key(&of) && self.of.len() >= limits::ORGANISATIONS {
            // Whoever has not used up anything is as good as new.
            self.of.retain(|_, bucket| {
                bucket.refill(now_ms);
                bucket.left < limits::ORGANISATION_ADS
            });
        }
        let new = || Bucket { left: limits::ORGANISATION_ADS, at_ms: now_ms };
        let has_room = self.of.contains_key(&of) || self.of.len() < limits::ORGANISATIONS;
        // One that is busy does not leave: as a newcomer it would begin anew.
        let bucket = match has_room {
            true => self.of.entry(of).or_insert_with(new),
            false => self.others.entry(federation).or_insert_with(new),
        };
        bucket.refill(now_ms);
        let admitted = bucket.left > 0;
        bucket.left -= u64::from(admitted);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::{ClusterId, PublicKey};

    use super::*;

    const ALPS: FederationId = FederationId([7; 32]);

    fn at(mono_ms: u64) -> Now {
        Now { mono_ms, wall_ms: 0 }
    }

    fn of(organisation: Option<String>) -> Member {
        Member {
            cluster: ClusterId([1; 32]),
            key: PublicKey([1; 32]),
            organisation: organisation.map(|name| name.parse().unwrap()),
            roles: Vec::new(),
            attributes: Default::default(),
            certified_by: Vec::new(),
            until_ms: 0,
        }
    }

    fn admitted(rates: &mut Rates, now: Now, member: &Member) -> u64 {
        (0..2 * limits::ORGANISATION_ADS).filter(|_| rates.admit(now, ALPS, member)).count() as u64
    }

    #[test]
    fn an_organisation_has_its_own_bound_and_no_others() {
        let mut rates = Rates::default();
        let (polito, gov) = (of(Some("polito".to_owned())), of(Some("gov".to_owned())));
        assert_eq!(admitted(&mut rates, at(0), &polito), limits::ORGANISATION_ADS);
        assert_eq!(admitted(&mut rates, at(0), &gov), limits::ORGANISATION_ADS);
        assert!(rates.admit(at(0), FederationId([8; 32]), &polito));
        assert_eq!(admitted(&mut rates, at(10 * limits::ORGANISATION_AD_MS + 1), &polito), 10);
        let long_ms = 10 * limits::ORGANISATION_ADS * limits::ORGANISATION_AD_MS;
        assert_eq!(admitted(&mut rates, at(long_ms), &polito), limits::ORGANISATION_ADS);
        let none = of(None);
        assert_eq!(admitted(&mut rates, at(0), &none), 2 * limits::ORGANISATION_ADS);
    }

    #[test]
    fn organisations_are_bounded_and_those_without_room_share_one_count() {
        let mut rates = Rates::default();
        let one = |n: usize| of(Some(format!("org-{n}")));
        for n in 0..limits::ORGANISATIONS {
            assert!(rates.admit(at(0), ALPS, &one(n)));
        }
        let others = (0..2 * limits::ORGANISATION_ADS)
            .filter(|n| rates.admit(at(0), ALPS, &one(limits::ORGANISATIONS + *n as usize)));
        assert_eq!(others.count() as u64, limits::ORGANISATION_ADS, "all together");
        let elsewhere = FederationId([8; 32]);
        assert!(rates.admit(at(0), elsewhere, &one(0)), "of another federation");
        let rested_ms = 2 * limits::ORGANISATION_AD_MS;
        let late = one(limits::ORGANISATIONS);
        assert_eq!(admitted(&mut rates, at(rested_ms), &late), limits::ORGANISATION_ADS);
        assert!(rates.of.len() <= limits::ORGANISATIONS);
    }
}
