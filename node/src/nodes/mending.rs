//! Whether somebody else has changed packet rules of ours: each look at the machine puts them back, and
//! their owner should hear that it was needed.

use mercato_machine::{Found, Wanted, lacks_rules};

/// What was set up last on a machine, and how often it was found otherwise.
#[derive(Default)]
pub(crate) struct Mending {
    last: Option<Wanted>,
    mended: u64,
}

impl Mending {
    /// The machine was found so, before anything is done.
    pub(crate) fn look(&mut self, found: &Found) {
        // Until this is in force again, whatever is found is ours.
        if self.last.take().is_some_and(|last| lacks_rules(found, &last)) {
            self.mended += 1;
            // Once for each time that somebody does it.
            tracing::warn!("somebody else has changed packet rules of ours, which are put back");
        }
    }

    /// This is in force from now on.
    pub(crate) fn have(&mut self, wanted: &Wanted) {
        self.last = Some(wanted.clone());
    }

    /// Nothing is in force from now on.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// How often that was since the start.
    pub(crate) fn mended(&self) -> u64 {
        self.mended
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use mercato_machine::{Family, Marks, Outward, Way, guard};

    use super::*;

    #[test]
    fn what_others_change_counts_and_what_is_wanted_anew_does_not() {
        let [pool, node] = ["10.200.0.0/13", "10.200.0.1/32"].map(|net| net.parse().unwrap());
        let mut wanted = Wanted {
            marks: Marks::default(),
            mtu: 1_420,
            pool,
            node: ipnet::IpNet::addr(&node),
            second: None,
            names: None,
            api: None,
            ranges: BTreeSet::new(),
            homes: BTreeSet::new(),
            pods: BTreeSet::new(),
            guests: BTreeSet::new(),
            outward: Outward::default(),
            way: Way::Device { elsewhere: BTreeMap::new() },
            overlay: None,
        };
        let nothing = Found { forwarding: [(Family::V4, true)].into(), ..Found::default() };
        let has = |wanted: &Wanted| {
            let packets = [(Family::V4, guard(wanted, Family::V4, None))].into();
            Found { packets, ..nothing.clone() }
        };
        let mut mending = Mending::default();
        mending.look(&nothing);
        mending.have(&wanted);
        mending.look(&has(&wanted));
        assert_eq!(mending.mended(), 0);
        let before = wanted.clone();
        mending.have(&before);
        wanted.guests = ["10.42.0.5".parse().unwrap()].into();
        mending.look(&has(&before));
        mending.have(&wanted);
        assert_eq!(mending.mended(), 0, "it is wanted otherwise");
        mending.look(&nothing);
        assert_eq!(mending.mended(), 1);
        mending.look(&nothing);
        assert_eq!(mending.mended(), 1, "it was not put back meanwhile");
        mending.have(&wanted);
        mending.forget();
        mending.look(&nothing);
        assert_eq!(mending.mended(), 1);
    }
}
