//! Whether a gateway can run on this machine and in this cluster: looked at when the daemon starts,
//! and again for as long as none can, so that whoever mends what is wrong need not start anything.
//! Why one that runs fails is [`End`](super::end::End)'s matter.

use std::time::Instant;

use ipnet::{IpNet, Ipv6Net};
use mercato_kubelet::inventory::RangeUse;
use mercato_machine::Marks;
use tokio::task::block_in_place;

use super::machine::{self, GatewaySettings};
use crate::admin::OwnGateway;
use crate::kubernetes::{ClusterNetwork, ClusterRange};
use crate::limits;

/// What the owner wants of a gateway, and why there can be none, if so.
pub(super) struct Ground {
    settings: GatewaySettings,
    marks: Marks,
    /// What the cluster said last.
    network: ClusterNetwork,
    off: Option<Off>,
    /// Why nothing passes by IPv6, though the owner wants it.
    second_off: Option<Off>,
}

/// Why there can be no gateway, and when that is looked at again.
struct Off {
    why: String,
    again: Instant,
}

impl Ground {
    /// As the machine is now; of the cluster nothing is known yet.
    pub(super) fn look(settings: GatewaySettings, marks: Marks) -> Self {
        let network = ClusterNetwork::default();
        let mut this = Self { settings, marks, network, off: None, second_off: None };
        this.set(this.probe());
        this.second_off = this.probe_second().map(Off::new);
        this
    }

    /// Looks again, if no gateway could run and it is time to; whether it has looked.
    pub(super) fn look_again(&mut self) -> bool {
        if self.second_off.as_ref().is_some_and(Off::is_due) {
            self.second_off = self.probe_second().map(Off::new);
        }
        if !self.off.as_ref().is_some_and(Off::is_due) {
            return false;
        }
        self.set(self.probe());
        true
    }

    /// The cluster says this of its network.
    pub(super) fn take_network(&mut self, network: ClusterNetwork) {
        self.network = network;
        if let Some(why) = overlap(self.settings.pool, &self.network.ranges) {
            self.set(Some(why));
        }
        let second =
            self.settings.pool_v6.and_then(|pool| overlap(pool.into(), &self.network.ranges));
        self.second_off = second.map(Off::new).or(self.second_off.take());
    }

    /// What the cluster has given to pods and Services, and where its API servers are.
    pub(super) fn networks(&self) -> impl Iterator<Item = IpNet> + '_ {
        let servers = self.network.servers.iter().map(|server| IpNet::from(*server));
        self.network.ranges.iter().map(|range| range.net).chain(servers)
    }

    /// What the cluster calls itself, once it has said so.
    pub(super) fn domain(&self) -> Option<&str> {
        self.network.domain.as_deref()
    }

    /// Behind which range pods are known by IPv6, if by any; or why by none, though the owner wants it.
    pub(super) fn second(&self) -> Result<Option<Ipv6Net>, &str> {
        match &self.second_off {
            Some(off) => Err(&off.why),
            None => Ok(self.settings.pool_v6),
        }
    }

    /// Whether the cluster has said that pods have addresses of IPv6.
    pub(super) fn has_second(&self) -> bool {
        let of_pods = self.network.ranges.iter().filter(|it| matches!(it.by, RangeUse::Node(_)));
        let (four, six): (Vec<_>, Vec<_>) = of_pods.partition(|it| it.net.addr().is_ipv4());
        !four.is_empty() && !six.is_empty()
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

    /// What people are to see of it. One that carries nothing, for the reason `apart`, is none.
    pub(super) fn own(&self, apart: Option<&str>) -> OwnGateway {
        let gateway = self.gateway().and_then(|settings| apart.map_or(Ok(settings), Err));
        let settings = gateway.ok();
        OwnGateway {
            enabled: settings.is_some(),
            port: settings.map(|settings| settings.port),
            pool: settings.map(|settings| settings.pool),
            reason: gateway.err().map(str::to_owned),
            ..OwnGateway::default()
        }
    }

    fn probe(&self) -> Option<String> {
        overlap(self.settings.pool, &self.network.ranges).or_else(|| {
            let probed = block_in_place(|| machine::probe(&self.settings, &self.marks));
            probed.err().map(|error| format!("{error:#}"))
        })
    }

    fn probe_second(&self) -> Option<String> {
        let pool = self.settings.pool_v6?;
        overlap(pool.into(), &self.network.ranges).or_else(|| {
            let probed = block_in_place(|| machine::probe_second(pool, &self.marks));
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
        self.off = why.map(Off::new);
    }
}

impl Off {
    fn new(why: String) -> Self {
        Self { why, again: Instant::now() + limits::TUNNEL_PROBE }
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.again
    }
}

/// What the cluster has given out of the pool, if anything.
fn overlap(pool: IpNet, ranges: &[ClusterRange]) -> Option<String> {
    let overlaps = |it: &&ClusterRange| pool.contains(&it.net) || it.net.contains(&pool);
    let found = ranges.iter().find(overlaps)?;
    let setting = if pool.addr().is_ipv4() { "pool" } else { "poolV6" };
    Some(format!(
        "the pool {pool} overlaps with {found}: packets to one would go to the other; set \
         gateway.{setting} to a range that nothing here uses, and start the daemon again"
    ))
}

#[cfg(test)]
mod tests {
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
