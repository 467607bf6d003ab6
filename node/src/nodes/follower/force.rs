//! What should be in force on this node, by the latest snapshot, the clock, and where our name server
//! listens. It reads no clock and touches nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use mercato_machine::{Egress, Marks, NamesWay, Outward, Overlay, Place, Wanted, Way};
use mercato_protocol::node::{NodeGuest, NodeWay, ServiceAddress, Snapshot};
use mercato_protocol::tunnel::{second, second_range};

use crate::limits;
use crate::nodes::closing::{ClosingRules, GuestRule, called};
use crate::nodes::never::{self, OwnNetworks};

/// Which snapshot, of all that this process has heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Connections are numbered from 1.
    pub(super) connection: u64,
    pub(super) version: u64,
}

/// What this node should have has come.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) connection: u64,
    /// When, by the machine's clock.
    pub(super) at_ms: u64,
    /// None: the daemon is on this node, and keeps its machine itself.
    pub(super) snapshot: Option<Snapshot>,
}

/// What is to be done with the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// What is there stays: an earlier process has set it up, and whoever says what should be
    /// there is still sought.
    Stay,
    /// Whatever is there is the daemon's own.
    Leave,
    /// Nothing of ours: so it was said, or all has ended.
    Nothing,
    /// What is there leads nowhere any more: nobody has said anything. Nothing leaves in clear,
    /// since pods may still know addresses of other clusters.
    Refuse,
    /// This, with the addresses that both are known by.
    SetUp(Box<Wanted>),
}

/// What should be in force.
#[derive(Debug)]
pub(super) struct Force {
    said: Said,
    /// Where our name server listens: no guest reaches another one there.
    names_at: Option<IpAddr>,
    /// The networks of this machine's own.
    own: OwnNetworks,
}

#[derive(Debug)]
enum Said {
    /// Nothing since the start of this process, which may wait until then.
    Nothing { until_ms: u64 },
    /// Nothing in all that time.
    Nobody,
    /// That the daemon keeps this machine itself.
    Own,
    Snapshot {
        word: Word,
        way: Option<Box<NodeWay>>,
        leases: Vec<Lease>,
        others: Arc<BTreeSet<IpAddr>>,
        /// What of the cluster's own no guest reaches by its egress.
        never: BTreeSet<IpNet>,
        /// When the last lease has ended.
        ended_ms: Option<u64>,
    },
}

/// A lease, until its end by the machine's clock.
#[derive(Debug)]
struct Lease {
    end_ms: u64,
    ranges: Vec<IpNet>,
    pods: BTreeSet<IpAddr>,
    guests: bool,
    closed: BTreeSet<NodeGuest>,
    services: BTreeSet<ServiceAddress>,
    egress: Egress,
}

impl Force {
    /// What a process knows that starts now.
    pub(super) fn new(now_ms: u64) -> Self {
        let until_ms = now_ms.saturating_add(limits::FOLLOW_EARLIER_MS);
        let own = Err("its networks are not known yet".to_owned());
        Self { said: Said::Nothing { until_ms }, names_at: None, own }
    }

    /// Takes a snapshot in the place of all that was said before.
    pub(super) fn hear(&mut self, heard: Heard) {
        let Heard { connection, at_ms, snapshot } = heard;
        let Some(Snapshot { version, way, leases, ranges, others, never }) = snapshot else {
            self.said = Said::Own;
            return;
        };
        // A place that is not there is no message.
        let range = |place: u32| ranges.get(place as usize).copied();
        let leases = leases.into_values().map(|lease| Lease {
            end_ms: at_ms.saturating_add(lease.left_ms),
            ranges: lease.ranges.into_iter().filter_map(range).collect(),
            pods: lease.pods,
            guests: lease.guests,
            closed: lease.closed,
            services: lease.services,
            egress: never::egress(&lease.egress),
        });
        let word = Word { connection, version };
        let leases: Vec<_> = leases.collect();
        let ended_ms = leases.is_empty().then_some(at_ms);
        let others = Arc::new(others);
        let way = way.map(Box::new);
        self.said = Said::Snapshot { word, way, leases, others, never, ended_ms };
    }

    /// Our name server listens there from now on; none: nowhere.
    pub(super) fn listen(&mut self, names_at: Option<IpAddr>) {
        self.names_at = names_at;
    }

    /// The networks of this machine are these from now on.
    pub(super) fn know_networks(&mut self, own: OwnNetworks) {
        self.own = own;
    }

    /// The networks of this machine; or why guests cannot be kept from them.
    pub(super) fn networks(&self) -> &OwnNetworks {
        &self.own
    }

    /// Lets end what ends by the clock; gives how many leases that were.
    pub(super) fn end(&mut self, now_ms: u64) -> usize {
        match &mut self.said {
            Said::Nothing { until_ms } => {
                if *until_ms <= now_ms {
                    self.said = Said::Nobody;
                }
                0
            }
            Said::Nobody | Said::Own => 0,
            Said::Snapshot { way, leases, ended_ms, .. } => {
                let before = leases.len();
                leases.retain(|lease| lease.end_ms > now_ms);
                if leases.is_empty() {
                    let ended_ms = *ended_ms.get_or_insert(now_ms);
                    let is_over = ended_ms.saturating_add(limits::FOLLOW_ENDED_MS) <= now_ms;
                    *way = way.take().filter(|_| !is_over);
                }
                before - leases.len()
            }
        }
    }

    /// When [`Force::end`] has something to do next, by the machine's clock.
    pub(super) fn next_ms(&self) -> Option<u64> {
        match &self.said {
            Said::Nothing { until_ms } => Some(*until_ms),
            Said::Nobody | Said::Own => None,
            Said::Snapshot { way, leases, ended_ms, .. } => {
                let over = ended_ms.filter(|_| way.is_some());
                let over = over.map(|ended| ended.saturating_add(limits::FOLLOW_ENDED_MS));
                leases.iter().map(|lease| lease.end_ms).min().or(over)
            }
        }
    }

    /// The snapshot that all this is by.
    pub(super) fn word(&self) -> Option<Word> {
        match &self.said {
            Said::Nothing { .. } | Said::Nobody | Said::Own => None,
            Said::Snapshot { word, .. } => Some(*word),
        }
    }

    /// The guests that are to be closed; none: that is not this process's to do.
    pub(super) fn rules(&self) -> Option<ClosingRules> {
        let Said::Snapshot { way, leases, others, never, .. } = &self.said else { return None };
        let Some(way) = way else { return Some(ClosingRules::default()) };
        let mut guests = BTreeMap::new();
        for lease in leases.iter().filter(|lease| !lease.closed.is_empty()) {
            let mut ranges = lease.ranges.iter().copied().collect();
            of_both(&mut ranges, way);
            ranges.extend(lease.services.iter().map(|service| IpNet::from(service.here)));
            let (reached, services) = (Arc::new(ranges), Arc::new(called(&lease.services)));
            // Whoever cannot be kept from what is near goes nowhere.
            let egress = if self.own.is_ok() { lease.egress.clone() } else { Egress::None };
            guests.extend(lease.closed.iter().map(|guest| {
                let (reached, services) = (reached.clone(), services.clone());
                (guest.uid.clone(), GuestRule::of(guest, reached, services, egress.clone()))
            }));
        }
        // A larger one is no message.
        let port = u16::try_from(way.gate).unwrap_or_default();
        let names = self.names(way).filter(|names| names.listens).map(|names| names.address);
        let goes_out = guests.values().any(|rule| rule.egress != Egress::None);
        let own = self.own.as_ref().ok().filter(|_| goes_out);
        let never = own.map(|own| never::all(never, own)).unwrap_or_default();
        Some(ClosingRules { port, names, guests, others: others.clone(), never })
    }

    /// What should be in force now.
    pub(super) fn target(&self) -> Target {
        match &self.said {
            Said::Nothing { .. } => Target::Stay,
            Said::Own => Target::Leave,
            Said::Nobody => Target::Refuse,
            Said::Snapshot { way: None, .. } => Target::Nothing,
            Said::Snapshot { way: Some(way), leases, .. } => {
                let names = self.names(way);
                let wanted = Wanted { names, ..wanted(way, leases) };
                Target::SetUp(Box::new(with_second(wanted, way)))
            }
        }
    }

    /// Where guests ask for names, if anywhere, and whether that is us.
    fn names(&self, way: &NodeWay) -> Option<NamesWay> {
        let address = way.names.as_ref()?.address;
        Some(NamesWay { address, listens: self.names_at == Some(address) })
    }
}

/// By IPv6 each is known by what it is known by of IPv4.
fn with_second(mut wanted: Wanted, way: &NodeWay) -> Wanted {
    let Some(IpNet::V6(pool)) = way.pool_v6 else { return wanted };
    let known = |address| second(pool, address);
    wanted.second = known(way.address).map(|node| Place { pool: pool.into(), node });
    for ranges in [&mut wanted.ranges, &mut wanted.homes] {
        of_both(ranges, way);
    }
    if let Some(overlay) = &mut wanted.overlay {
        overlay.nodes.extend(known(way.gateway).map(|gateway| (gateway, way.gateway_machine)));
    }
    wanted
}

/// Adds the ranges in which the same addresses are known by IPv6.
fn of_both(ranges: &mut BTreeSet<IpNet>, way: &NodeWay) {
    let Some(IpNet::V6(pool)) = way.pool_v6 else { return };
    let second: Vec<_> = ranges.iter().filter_map(|range| second_range(pool, *range)).collect();
    ranges.extend(second);
}

fn wanted(way: &NodeWay, leases: &[Lease]) -> Wanted {
    let ranges = |of: &mut dyn Iterator<Item = &Lease>| -> BTreeSet<IpNet> {
        of.flat_map(|lease| &lease.ranges).copied().collect()
    };
    let homes = ranges(&mut leases.iter().filter(|lease| lease.guests));
    let ranges = ranges(&mut leases.iter());
    let pods: BTreeSet<IpAddr> = leases.iter().flat_map(|lease| &lease.pods).copied().collect();
    Wanted {
        marks: Marks::default(),
        // Of the gateway's device, which is elsewhere.
        mtu: way.mtu,
        pool: way.pool,
        node: way.address,
        second: None,
        names: None,
        api: None,
        ranges,
        homes,
        pods,
        guests: BTreeSet::new(),
        outward: Outward::default(),
        way: Way::Through(way.gateway),
        overlay: Some(Overlay {
            vni: way.vni,
            // A larger one is no message; none is refused there, too.
            port: u16::try_from(way.port).unwrap_or_default(),
            local: way.machine,
            mtu: way.mtu,
            nodes: BTreeMap::from([(way.gateway, way.gateway_machine)]),
        }),
    }
}

#[cfg(test)]
mod tests;
