//! What should be in force on this node, by the latest snapshot and the clock. It reads no clock
//! and touches nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use mercato_host::{Marks, Overlay, Place, Wanted, Way};
use mercato_protocol::node::{NodeGuest, NodeWay, Snapshot};
use mercato_protocol::tunnel::{second, second_range};

use crate::limits;
use crate::nodes::closing::{ClosingRules, GuestRule};

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
        way: Option<NodeWay>,
        leases: Vec<Lease>,
        others: Arc<BTreeSet<IpAddr>>,
        /// When the last lease has ended.
        ended_ms: Option<u64>,
    },
}

/// A lease, until its end by the machine's clock.
#[derive(Debug)]
struct Lease {
    end_ms: u64,
    ranges: Vec<IpNet>,
    pods: Vec<IpAddr>,
    guests: bool,
    closed: Vec<NodeGuest>,
    services: Vec<IpAddr>,
}

impl Force {
    /// What a process knows that starts now.
    pub(super) fn new(now_ms: u64) -> Self {
        let until_ms = now_ms.saturating_add(limits::FOLLOW_EARLIER_MS);
        Self { said: Said::Nothing { until_ms } }
    }

    /// Takes a snapshot in the place of all that was said before.
    pub(super) fn hear(&mut self, heard: Heard) {
        let Heard { connection, at_ms, snapshot } = heard;
        let Some(Snapshot { version, way, leases, ranges, others }) = snapshot else {
            self.said = Said::Own;
            return;
        };
        // A place that is not there is no message.
        let range = |place: u32| ranges.get(place as usize).copied();
        let leases = leases.into_iter().map(|lease| Lease {
            end_ms: at_ms.saturating_add(lease.left_ms),
            ranges: lease.ranges.into_iter().filter_map(range).collect(),
            pods: lease.pods,
            guests: lease.guests,
            closed: lease.closed,
            services: lease.services,
        });
        let word = Word { connection, version };
        let leases: Vec<_> = leases.collect();
        let ended_ms = leases.is_empty().then_some(at_ms);
        let others = Arc::new(others.into_iter().collect());
        self.said = Said::Snapshot { word, way, leases, others, ended_ms };
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
        let Said::Snapshot { way, leases, others, .. } = &self.said else { return None };
        let Some(way) = way else { return Some(ClosingRules::default()) };
        let mut guests = BTreeMap::new();
        for lease in leases.iter().filter(|lease| !lease.closed.is_empty()) {
            let mut ranges = lease.ranges.iter().copied().collect();
            of_both(&mut ranges, way);
            ranges.extend(lease.services.iter().copied().map(IpNet::from));
            let reached = Arc::new(ranges);
            guests.extend(lease.closed.iter().map(|guest| {
                let rule = GuestRule { pod: guest.pod, reached: reached.clone() };
                (guest.uid.clone(), rule)
            }));
        }
        // A larger one is no message.
        let port = u16::try_from(way.gate).unwrap_or_default();
        Some(ClosingRules { port, guests, others: others.clone() })
    }

    /// What should be in force now.
    pub(super) fn target(&self) -> Target {
        match &self.said {
            Said::Nothing { .. } => Target::Stay,
            Said::Own => Target::Leave,
            Said::Nobody => Target::Refuse,
            Said::Snapshot { way: None, .. } => Target::Nothing,
            Said::Snapshot { way: Some(way), leases, .. } => {
                Target::SetUp(Box::new(with_second(wanted(way, leases), way)))
            }
        }
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
        ranges,
        homes,
        pods,
        guests: BTreeSet::new(),
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
mod tests {
    use mercato_protocol::node::NodeLease;

    use mercato_protocol::tunnel::SECOND_POOL;

    use super::super::testing::{lease, snapshot, way};
    use super::*;

    fn heard(version: u64, at_ms: u64, leases: Vec<NodeLease>) -> Heard {
        Heard { connection: 1, at_ms, snapshot: Some(snapshot(version, leases)) }
    }

    fn set_up(force: &Force) -> Wanted {
        match force.target() {
            Target::SetUp(wanted) => *wanted,
            other @ (Target::Stay | Target::Leave | Target::Nothing | Target::Refuse) => {
                panic!("{other:?}")
            }
        }
    }

    #[test]
    fn what_is_there_at_the_start_stays_for_a_while() {
        let mut force = Force::new(1_000);
        assert_eq!((force.target(), force.word()), (Target::Stay, None));
        let until_ms = force.next_ms().unwrap();
        assert_eq!(until_ms, 1_000 + limits::FOLLOW_EARLIER_MS);
        force.end(until_ms - 1);
        assert_eq!(force.target(), Target::Stay);
        force.end(until_ms);
        assert_eq!((force.target(), force.next_ms()), (Target::Refuse, None));
        force.hear(heard(1, until_ms, Vec::new()));
        assert_eq!(set_up(&force).node, way().address);
    }

    #[test]
    fn a_snapshot_is_all_that_is_wanted() {
        let mut force = Force::new(0);
        let one = lease(9_000, &["10.201.0.0/24"], &["10.42.0.5"]);
        let two = lease(9_000, &["10.201.0.0/24", "10.202.0.0/24"], &["10.42.0.5", "10.42.0.6"]);
        force.hear(heard(1, 50, vec![one, two]));
        let wanted = set_up(&force);
        wanted.check().unwrap();
        assert_eq!((wanted.pool, wanted.node), (way().pool, way().address));
        assert_eq!(wanted.ranges.len(), 2);
        assert_eq!(wanted.pods.len(), 2);
        assert_eq!(wanted.way, Way::Through(way().gateway));
        let overlay = wanted.overlay.unwrap();
        assert_eq!(overlay.nodes, BTreeMap::from([(way().gateway, way().gateway_machine)]));
        assert_eq!((overlay.local, overlay.mtu), (way().machine, way().mtu));
        assert_eq!((overlay.vni, u32::from(overlay.port)), (way().vni, way().port));
        force.hear(heard(2, 60, vec![lease(9_000, &[], &["10.42.0.7"])]));
        let wanted = set_up(&force);
        assert_eq!((wanted.ranges.len(), wanted.pods.len()), (0, 1));
        assert_eq!(force.word(), Some(Word { connection: 1, version: 2 }));
        let none = Snapshot { way: None, ..snapshot(3, Vec::new()) };
        force.hear(Heard { connection: 1, at_ms: 70, snapshot: Some(none) });
        assert_eq!(force.target(), Target::Nothing);
    }

    #[test]
    fn what_is_of_the_second_family_follows_from_the_first() {
        let mut force = Force::new(0);
        let pods = ["10.42.0.5", "fd42::5"];
        let mut heard = heard(1, 50, vec![lease(9_000, &["10.201.0.0/24"], &pods)]);
        let way = heard.snapshot.as_mut().and_then(|it| it.way.as_mut()).unwrap();
        way.pool_v6 = Some(SECOND_POOL.into());
        force.hear(heard);
        let wanted = set_up(&force);
        wanted.check().unwrap();
        let node = "fd4d:6572:6361:746f::10.200.0.7".parse().unwrap();
        assert_eq!(wanted.second, Some(Place { pool: SECOND_POOL.into(), node }));
        assert!(wanted.ranges.contains(&"fd4d:6572:6361:746f::10.201.0.0/120".parse().unwrap()));
        assert_eq!((wanted.ranges.len(), wanted.pods.len()), (2, 2));
        let nodes = wanted.overlay.unwrap().nodes;
        assert_eq!(
            nodes[&"fd4d:6572:6361:746f::10.200.0.1".parse().unwrap()],
            nodes[&self::way().gateway]
        );
    }

    #[test]
    fn the_daemons_own_machine_is_left_to_it() {
        let own = || Heard { connection: 1, at_ms: 0, snapshot: None };
        let mut force = Force::new(0);
        force.hear(own());
        force.end(limits::FOLLOW_EARLIER_MS);
        assert_eq!((force.target(), force.word(), force.next_ms()), (Target::Leave, None, None));
        force.hear(heard(1, 0, vec![lease(500, &[], &["10.42.0.5"])]));
        assert_eq!(set_up(&force).pods.len(), 1);
        force.hear(own());
        assert_eq!((force.target(), force.end(1_000)), (Target::Leave, 0));
    }

    #[test]
    fn each_lease_ends_by_the_clock_and_the_way_after_the_last() {
        let mut force = Force::new(0);
        let leases = [lease(500, &["10.201.0.0/24"], &[]), lease(700, &[], &["10.42.0.5"])];
        force.hear(heard(1, 1_000, leases.to_vec()));
        assert_eq!(force.next_ms(), Some(1_500));
        assert_eq!(force.end(1_499), 0);
        assert_eq!(force.end(1_500), 1);
        let wanted = set_up(&force);
        assert_eq!((wanted.ranges.len(), wanted.pods.len()), (0, 1));
        let over_ms = 1_700 + limits::FOLLOW_ENDED_MS;
        assert_eq!((force.next_ms(), force.end(1_700)), (Some(1_700), 1));
        assert_eq!((force.next_ms(), force.end(over_ms - 1)), (Some(over_ms), 0));
        assert!(set_up(&force).pods.is_empty(), "what comes yet is refused for a while");
        force.end(over_ms);
        assert_eq!((force.target(), force.next_ms()), (Target::Nothing, None));
    }

    #[test]
    fn guests_alone_call_their_homes() {
        let mut force = Force::new(0);
        let guests = NodeLease { guests: true, ..lease(500, &["10.202.0.0/24"], &["10.42.0.5"]) };
        force.hear(heard(1, 1_000, vec![lease(700, &["10.201.0.0/24"], &[]), guests]));
        let wanted = set_up(&force);
        assert_eq!(wanted.homes, ["10.202.0.0/24".parse().unwrap()].into());
        assert_eq!(wanted.ranges.len(), 2);
    }

    #[test]
    fn a_lease_that_lasts_for_ever_is_none_that_has_ended() {
        let mut force = Force::new(0);
        force.hear(heard(1, 1_000, vec![lease(u64::MAX, &[], &["10.42.0.5"])]));
        assert_eq!(force.end(u64::MAX - 1), 0);
    }
}
