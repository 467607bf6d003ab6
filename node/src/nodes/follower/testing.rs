//! A machine of none, and snapshots of few words.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Mutex;

use mercato_machine::Wanted;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::node::{NodeLease, NodeWay, Snapshot};
use tokio::sync::watch;

use super::super::closing::{Closing, Closings};
use super::super::never::OwnNetworks;
use super::force::{Force, Heard, Target};
use super::machine::{Machine, Trouble};

/// How it is with a machine that is none.
pub(super) struct Now {
    ms: u64,
    pub(super) set_up: Option<Wanted>,
    /// The largest packet of its network.
    pub(super) mtu: u32,
    pub(super) mended: u64,
    pub(super) closings: watch::Sender<Closings>,
    /// The networks of its own, or why these are not known.
    pub(super) networks: OwnNetworks,
    /// Why nothing can be changed.
    pub(super) trouble: Option<String>,
    /// Why nothing of the second family can be.
    pub(super) second_trouble: Option<String>,
}

impl Default for Now {
    fn default() -> Self {
        let all_closed = Closings::default();
        Self {
            ms: 0,
            set_up: None,
            mtu: 1_500,
            mended: 0,
            closings: watch::channel(all_closed).0,
            networks: Ok(["9.9.9.0/24".parse().unwrap()].into()),
            trouble: None,
            second_trouble: None,
        }
    }
}

/// A machine that is none.
#[derive(Default)]
pub(super) struct Fake(Mutex<Now>);

impl Fake {
    pub(super) fn now<T>(&self, of: impl FnOnce(&mut Now) -> T) -> T {
        of(&mut self.0.lock().unwrap())
    }

    /// Lets its clock go on.
    pub(super) fn pass(&self, ms: u64) {
        self.now(|now| now.ms += ms);
    }

    fn changed<T>(&self, of: impl FnOnce(&mut Now) -> T) -> Result<T, Trouble> {
        self.now(|now| match &now.trouble {
            Some(trouble) => Err(Trouble::Gateway(trouble.clone())),
            None => Ok(of(now)),
        })
    }
}

impl Machine for Fake {
    fn now_ms(&self) -> u64 {
        self.now(|now| now.ms)
    }

    fn closing(&self) -> Closing {
        Closing::told_of(self.now(|now| now.closings.subscribe()))
    }

    fn stay(&self) -> Result<Option<IpAddr>, Trouble> {
        self.changed(|now| {
            let wanted = now.set_up.as_mut()?;
            wanted.names.iter_mut().for_each(|names| names.listens = false);
            Some(wanted.node)
        })
    }

    fn mtu_of(&self, address: IpAddr) -> Result<Option<u32>, Trouble> {
        Ok((address == way().machine).then(|| self.now(|now| now.mtu)))
    }

    fn set_up(&self, wanted: &Wanted) -> Result<Option<Trouble>, Trouble> {
        self.changed(|now| {
            let trouble = now.second_trouble.clone().filter(|_| wanted.second.is_some());
            let first = || wanted.first_alone();
            now.set_up = Some(trouble.as_ref().map_or_else(|| wanted.clone(), |_| first()));
            trouble.map(Trouble::Gateway)
        })
    }

    fn networks(&self) -> OwnNetworks {
        self.now(|now| now.networks.clone())
    }

    fn mended(&self) -> u64 {
        self.now(|now| now.mended)
    }

    fn refuse(&self) -> Result<bool, Trouble> {
        self.changed(|now| now.set_up.take().is_some())
    }

    fn clean(&self) -> Result<bool, Trouble> {
        self.changed(|now| now.set_up.take().is_some())
    }
}

/// A way to a gateway.
pub(super) fn way() -> NodeWay {
    NodeWay {
        pool: "10.200.0.0/13".parse().unwrap(),
        address: "10.200.0.7".parse().unwrap(),
        machine: "192.0.2.7".parse().unwrap(),
        gateway: "10.200.0.1".parse().unwrap(),
        gateway_machine: "192.0.2.1".parse().unwrap(),
        vni: 7_475,
        port: 7_477,
        mtu: 1_420,
        pool_v6: None,
        gate: 7_479,
        names: None,
    }
}

/// A lease that is in force for so long.
pub(super) fn lease(left_ms: u64, ranges: &[&str], pods: &[&str]) -> NodeLease {
    NodeLease {
        left_ms,
        ranges: ranges.iter().map(|range| place(range)).collect(),
        pods: pods.iter().map(|pod| pod.parse().unwrap()).collect(),
        guests: false,
        closed: BTreeSet::new(),
        services: BTreeSet::new(),
        askers: BTreeSet::new(),
        egress: Egress::None,
    }
}

fn place(range: &str) -> u32 {
    RANGES.iter().position(|it| *it == range).unwrap() as u32
}

/// All that leases here have.
const RANGES: [&str; 2] = ["10.201.0.0/24", "10.202.0.0/24"];

/// A snapshot with that way, and with these leases, whichever they are.
pub(super) fn snapshot(version: u64, leases: Vec<NodeLease>) -> Snapshot {
    let ranges = RANGES.map(|range| range.parse().unwrap()).into();
    let leases = (1..).map(|id| ContractId([id; 16])).zip(leases).collect();
    Snapshot { version, way: Some(way()), leases, ranges, others: [].into(), never: [].into() }
}

/// What a node without a lease has set up.
pub(super) fn wanted() -> Wanted {
    let mut force = Force::new(0);
    force.hear(Heard { connection: 1, at_ms: 0, snapshot: Some(snapshot(1, Vec::new())) });
    match force.target() {
        Target::SetUp(wanted) => *wanted,
        other @ (Target::Stay | Target::Leave | Target::Nothing | Target::Refuse) => {
            panic!("{other:?}")
        }
    }
}
