//! Whether a gateway can run on this machine and in this cluster: looked at when the daemon starts,
//! and again for as long as none can, so that whoever mends what is wrong need not start anything.
//! Why one that runs fails is [`End`](super::end::End)'s matter.

use std::time::Instant;

use ipnet::IpNet;
use mercato_host::Marks;
use tokio::task::block_in_place;

use super::machine::{self, GatewaySettings};
use crate::admin::OwnGateway;
use crate::kubernetes::ClusterRange;
use crate::limits;

/// What the owner wants of a gateway, and why there can be none, if so.
pub(super) struct Ground {
    settings: GatewaySettings,
    marks: Marks,
    /// What the cluster has given to pods and Services, as it said last.
    ranges: Vec<ClusterRange>,
    off: Option<Off>,
}

/// Why there can be no gateway, and when that is looked at again.
struct Off {
    why: String,
    again: Instant,
}

impl Ground {
    /// As the machine is now; of the cluster nothing is known yet.
    pub(super) fn look(settings: GatewaySettings, marks: Marks) -> Self {
        let mut this = Self { settings, marks, ranges: Vec::new(), off: None };
        this.set(this.probe());
        this
    }

    /// Looks again, if no gateway could run and it is time to; whether it has looked.
    pub(super) fn look_again(&mut self) -> bool {
        if self.off.as_ref().is_none_or(|off| Instant::now() < off.again) {
            return false;
        }
        self.set(self.probe());
        true
    }

    /// The cluster has given out these.
    pub(super) fn take_ranges(&mut self, ranges: Vec<ClusterRange>) {
        self.ranges = ranges;
        if let Some(why) = overlap(self.settings.pool, &self.ranges) {
            self.set(Some(why));
        }
    }

    /// What the owner wants of the gateway; or why there can be none.
    pub(super) fn gateway(&self) -> Result<&GatewaySettings, &str> {
        match &self.off {
            Some(off) => Err(&off.why),
            None => Ok(&self.settings),
        }
    }

    /// The range by whose addresses pods are known, while there can be a gateway.
    pub(super) fn pool(&self) -> Option<IpNet> {
        self.gateway().ok().map(|settings| settings.pool)
    }

    /// What people are to see of it.
    pub(super) fn own(&self) -> OwnGateway {
        let settings = self.gateway().ok();
        OwnGateway {
            enabled: settings.is_some(),
            port: settings.map(|settings| settings.port),
            pool: settings.map(|settings| settings.pool),
            reason: self.gateway().err().map(str::to_owned),
            cut_off: Vec::new(),
        }
    }

    fn probe(&self) -> Option<String> {
        overlap(self.settings.pool, &self.ranges).or_else(|| {
            let probed = block_in_place(|| machine::probe(&self.settings, &self.marks));
            probed.err().map(|error| format!("{error:#}"))
        })
    }

    fn set(&mut self, why: Option<String>) {
        match (&why, &self.off) {
            (Some(why), before) if before.as_ref().is_none_or(|before| before.why != *why) => {
                // Once for each reason.
                tracing::warn!("no gateway can run: {why}");
            }
            (None, Some(_)) => tracing::info!("a gateway can run now"),
            (Some(_) | None, _) => {}
        }
        self.off = why.map(|why| Off { why, again: Instant::now() + limits::TUNNEL_PROBE });
    }
}

/// What the cluster has given out of the pool, if anything.
fn overlap(pool: IpNet, ranges: &[ClusterRange]) -> Option<String> {
    let overlaps = |it: &&ClusterRange| pool.contains(&it.net) || it.net.contains(&pool);
    let found = ranges.iter().find(overlaps)?;
    Some(format!(
        "the pool {pool} overlaps with {found}: packets to one would go to the other; set \
         gateway.pool to a range that nothing here uses, and start the daemon again"
    ))
}

#[cfg(test)]
mod tests {
    use mercato_kubelet::inventory::RangeUse;

    use super::*;

    #[test]
    fn a_range_of_the_clusters_own_is_named_with_what_to_set() {
        let range = |net: &str, by| ClusterRange { net: net.parse().unwrap(), by };
        let ranges = [
            range("10.42.0.0/24", RangeUse::Node("n1".to_owned())),
            range("10.96.0.0/12", RangeUse::Services),
        ];
        let said = |pool: &str| overlap(pool.parse().unwrap(), &ranges);
        assert_eq!(said("10.200.0.0/13"), None);
        let within = said("10.100.0.0/16").unwrap();
        for part in ["10.100.0.0/16", "10.96.0.0/12 of the cluster's Services", "gateway.pool"] {
            assert!(within.contains(part), "{within}");
        }
        assert!(said("10.0.0.0/8").unwrap().contains("10.42.0.0/24 of the pods on node n1"));
    }
}
