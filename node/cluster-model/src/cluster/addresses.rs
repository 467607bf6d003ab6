//! Addresses of the pod network: each is one pod's, until the pod has ended or has another.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde_json::Value;

/// The pod network is of this address and the 65,535 after it.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 0);

/// Who has which address. The next that is given is one after the last, as kubelets do: none is
/// soon another pod's.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    taken: BTreeSet<u16>,
    /// Of each pod, by its uid.
    of: BTreeMap<String, u16>,
    last: u16,
}

impl Addresses {
    /// A free one, in place of the one that the pod has; none if all are taken.
    pub(super) fn give(&mut self, pod: &Value) -> Option<Ipv4Addr> {
        let turn = (1..=u16::MAX).map(|step| self.last.wrapping_add(step));
        let mut turn = turn.filter(|place| *place != 0);
        let free = turn.find(|place| !self.taken.contains(place))?;
        self.give_back(pod);
        self.last = free;
        self.taken.insert(free);
        self.of.insert(uid(pod).to_owned(), free);
        Some(Ipv4Addr::from(u32::from(FIRST) + u32::from(free)))
    }

    /// What the pod has, if anything, is free again.
    pub(super) fn give_back(&mut self, pod: &Value) {
        if let Some(place) = self.of.remove(uid(pod)) {
            self.taken.remove(&place);
        }
    }
}

fn uid(pod: &Value) -> &str {
    pod["metadata"]["uid"].as_str().unwrap_or_default()
}
