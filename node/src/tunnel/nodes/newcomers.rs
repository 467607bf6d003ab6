//! Nodes that were added while the daemon runs: an autoscaler's, whose programs are still being fetched.

use std::collections::BTreeMap;
use std::time::Instant;

use super::machines::Machines;
use crate::limits;

/// Since when each node that runs pods has been there; none: since before the daemon knew of any.
#[derive(Default)]
pub(super) struct Newcomers {
    since: Option<BTreeMap<String, Option<Instant>>>,
}

impl Newcomers {
    /// The cluster has these nodes by now. Those of the first time are no newcomers, and no more is one
    /// that was away for a moment.
    pub(super) fn see(&mut self, machines: &Machines, now: Instant) {
        let is_first = self.since.is_none();
        let since = self.since.get_or_insert_default();
        since.retain(|name, _| machines.get(name).is_some());
        for (name, machine) in machines.others() {
            if is_first || (machine.ready && !machine.left_out) {
                since.entry(name.clone()).or_insert((!is_first).then_some(now));
            } else if machine.left_out {
                // It is new once it takes part again.
                since.remove(name);
            }
        }
    }

    /// Whether it came less than [`limits::NODE_AWAITED`] ago.
    pub(super) fn has(&self, node: &str, now: Instant) -> bool {
        let since = self.since.as_ref().and_then(|since| *since.get(node)?);
        since.is_some_and(|since| now.duration_since(since) < limits::NODE_AWAITED)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::kubernetes::NodeMachine;

    fn machines(told: &[(&str, bool, bool)]) -> Machines {
        let all = told.iter().zip(2_u8..).map(|(&(name, ready, left_out), n)| NodeMachine {
            name: name.to_owned(),
            addresses: vec![IpAddr::from([192, 0, 2, n])],
            public: vec![],
            ready,
            left_out,
        });
        Machines::read(&all.collect::<Vec<_>>(), &[IpAddr::from([192, 0, 2, 1])].into())
    }

    #[test]
    fn whoever_is_added_is_new_for_a_minute() {
        let (mut newcomers, begun) = (Newcomers::default(), Instant::now());
        let after = |seconds| begun + std::time::Duration::from_secs(seconds);
        newcomers.see(&machines(&[("n2", true, false), ("n3", false, false)]), begun);
        let more = [("n2", true, false), ("n3", true, false), ("n4", false, false)];
        newcomers.see(&machines(&more), after(1));
        for (node, at) in [("n2", 1), ("n3", 1), ("n4", 1), ("n5", 1)] {
            assert!(!newcomers.has(node, after(at)), "{node}");
        }
        let ready = [("n2", true, false), ("n4", true, false)];
        newcomers.see(&machines(&ready), after(10));
        assert!(newcomers.has("n4", after(69)) && !newcomers.has("n4", after(71)));
        // It is away and comes back: nothing is new about it.
        newcomers.see(&machines(&[("n4", false, false)]), after(80));
        newcomers.see(&machines(&ready), after(90));
        assert!(!newcomers.has("n4", after(91)));
        assert!(newcomers.has("n2", after(91)), "it was gone from the cluster");
        newcomers.see(&machines(&[("n2", true, true)]), after(92));
        assert!(!newcomers.has("n2", after(92)), "it is left out");
        newcomers.see(&machines(&ready), after(200));
        assert!(newcomers.has("n2", after(201)), "it takes part again");
    }
}
