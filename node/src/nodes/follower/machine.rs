//! The machine of this node: its clock, and what `node/host/` sets up there.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use mercato_host::HostError;
use mercato_machine::{Family, Finding, Found, Marks, Step, Wanted, WantedError};
use nix::time::{ClockId, clock_gettime};
use thiserror::Error;

use super::super::closing::Closing;
use super::super::mending::Mending;
use super::super::never::{self, OwnNetworks};

/// What the rest needs of a machine. Whoever calls it waits for the kernel.
pub(super) trait Machine: Send + Sync + 'static {
    /// Milliseconds since some moment, also of those in which the machine slept.
    fn now_ms(&self) -> u64;
    /// Closes guests on it from now on.
    fn closing(&self) -> Closing;
    /// Leaves there what an earlier process has set up, but that guests reach whoever has listened for them
    /// in that one; gives the node's address of the pool, if it has one.
    fn stay(&self) -> Result<Option<IpAddr>, Trouble>;
    /// The largest packet of the device that has this address, in bytes, if one has.
    fn mtu_of(&self, address: IpAddr) -> Result<Option<u32>, Trouble>;
    /// Brings it about that this is in force; or that the first family is, and then gives why the
    /// second one is not.
    fn set_up(&self, wanted: &Wanted) -> Result<Option<Trouble>, Trouble>;
    /// The networks of its own; or why guests cannot be kept from them.
    fn networks(&self) -> OwnNetworks;
    /// How often somebody else had changed packet rules that were set up here, and they were put back.
    fn mended(&self) -> u64;
    /// Has what a node has set up lead nowhere, and refuse; gives whether anything led anywhere.
    fn refuse(&self) -> Result<bool, Trouble>;
    /// Removes what a node has set up; gives whether there was anything.
    fn clean(&self) -> Result<bool, Trouble>;
}

/// Why this node is not as it should be.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    /// The kernel does not let it be so.
    #[error(transparent)]
    Host(#[from] HostError),
    /// It cannot be so here.
    #[error(transparent)]
    Wanted(#[from] WantedError),
    /// It is so, and is of no use.
    #[error("{0}")]
    Found(Finding),
    /// Whoever has the device sets up the rest himself.
    #[error(
        "the device {0} is on this node: a gateway runs here, and this node is to reach another \
         one; end the daemon that runs here, or run none of the nodes' processes beside it"
    )]
    Gateway(String),
}

/// The machine that this process runs on.
#[derive(Default)]
pub(super) struct Host {
    mending: Mutex<Mending>,
}

impl Machine for Host {
    fn now_ms(&self) -> u64 {
        // Every Linux since 2.6.39 has it.
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("the machine has this clock");
        now.tv_sec() as u64 * 1_000 + now.tv_nsec() as u64 / 1_000_000
    }

    fn closing(&self) -> Closing {
        Closing::start()
    }

    fn stay(&self) -> Result<Option<IpAddr>, Trouble> {
        let found = mercato_host::read(&Marks::default())?;
        if !is_gateways(&found) {
            mercato_host::apply(&mercato_machine::nobody_listens_plan(&found))?;
        }
        Ok(address(&found))
    }

    fn mtu_of(&self, address: IpAddr) -> Result<Option<u32>, Trouble> {
        Ok(mercato_host::mtu_of(address)?)
    }

    fn set_up(&self, wanted: &Wanted) -> Result<Option<Trouble>, Trouble> {
        let mut mending = self.mending();
        let Some(second) = wanted.second else {
            return set_up(wanted, &mut mending).map(|()| None);
        };
        let found = mercato_host::read(&wanted.marks)?;
        let whole = forwards(&found, second.pool).and_then(|()| set_up(wanted, &mut mending));
        let Err(trouble) = whole else { return Ok(None) };
        set_up(&wanted.first_alone(), &mut mending).map(|()| Some(trouble))
    }

    fn networks(&self) -> OwnNetworks {
        never::own(mercato_host::networks(&Marks::default()))
    }

    fn mended(&self) -> u64 {
        self.mending().mended()
    }

    fn refuse(&self) -> Result<bool, Trouble> {
        self.mending().forget();
        unless_gateways(mercato_machine::refuse_plan)
    }

    fn clean(&self) -> Result<bool, Trouble> {
        self.mending().forget();
        // Guests that are there yet are closed until they end.
        mercato_host::forget_at_node()?;
        unless_gateways(mercato_machine::clean_plan)
    }
}

/// Does what is planned where no gateway is; gives whether there was anything to do.
fn unless_gateways(plan: fn(&Found, &Marks) -> Vec<Step>) -> Result<bool, Trouble> {
    let marks = Marks::default();
    let found = mercato_host::read(&marks)?;
    if is_gateways(&found) {
        return Ok(false);
    }
    let steps = plan(&found, &marks);
    mercato_host::apply(&steps)?;
    Ok(!steps.is_empty())
}

impl Host {
    fn mending(&self) -> MutexGuard<'_, Mending> {
        self.mending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set_up(wanted: &Wanted, mending: &mut Mending) -> Result<(), Trouble> {
    let found = mercato_host::read(&wanted.marks)?;
    if found.device.is_some() {
        return Err(Trouble::Gateway(wanted.marks.device.clone()));
    }
    mending.look(&found);
    mercato_host::apply(&mercato_machine::plan(&found, wanted)?)?;
    mending.have(wanted);
    forwards(&found, wanted.pool)
}

/// Whether this machine forwards what is of the family of a pool.
fn forwards(found: &Found, pool: IpNet) -> Result<(), Trouble> {
    let off = Finding::ForwardingOff(Family::of_net(pool));
    match found.findings().into_iter().find(|it| *it == off) {
        Some(off) => Err(Trouble::Found(off)),
        None => Ok(()),
    }
}

/// The one address of the overlay's device that is of its own: of two that of IPv4, from which the
/// other one follows.
fn address(found: &Found) -> Option<IpAddr> {
    let overlay = found.overlay.as_ref()?;
    let is_own = |net: &&IpNet| net.prefix_len() == net.max_prefix_len();
    overlay.link.addresses.iter().filter(is_own).map(IpNet::addr).min()
}

/// Whether a gateway has set up what is there: it runs here, or has, and its daemon cleans up as
/// it starts. Other nodes have no rule about what comes by its device.
fn is_gateways(found: &Found) -> bool {
    found.device.is_some() || found.rules.iter().any(|rule| rule.from_device.is_some())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::process::Command;

    use mercato_machine::{Link, OverlayLink, Rule};

    use super::super::testing::wanted;
    use super::*;

    fn link(addresses: &[&str]) -> Link {
        let addresses = addresses.iter().map(|net| net.parse().unwrap()).collect();
        Link { index: 7, up: true, mtu: 1_400, addresses, settings: BTreeMap::new() }
    }

    #[test]
    fn the_address_is_that_of_the_overlay_alone() {
        let overlay = |addresses: &[&str]| OverlayLink {
            link: link(addresses),
            vxlan: None,
            neighbours: BTreeSet::new(),
            endpoints: BTreeSet::new(),
        };
        let mut found = Found { device: Some(link(&["10.200.0.1/32"])), ..Found::default() };
        assert_eq!(address(&found), None);
        found.overlay = Some(overlay(&["fe80::1/64"]));
        assert_eq!(address(&found), None);
        let own = ["10.1.0.0/16", "10.200.0.7/32", "fd4d::10.200.0.7/128", "fe80::1/64"];
        found.overlay = Some(overlay(&own));
        assert_eq!(address(&found), "10.200.0.7".parse().ok());
    }

    #[test]
    fn what_a_gateway_has_set_up_is_not_a_nodes() {
        let rule = |from_device: Option<&str>| Rule {
            family: Family::V4,
            preference: 500,
            to: None,
            from: None,
            from_device: from_device.map(str::to_owned),
            table: 7_475,
            protocol: 174,
            is_plain: true,
        };
        let rules =
            |rules: Vec<Rule>| Found { rules: rules.into_iter().collect(), ..Found::default() };
        assert!(!is_gateways(&Found::default()));
        assert!(!is_gateways(&rules(vec![rule(None)])));
        assert!(is_gateways(&rules(vec![rule(None), rule(Some("mercato0"))])));
        assert!(is_gateways(&Found { device: Some(link(&[])), ..Found::default() }));
    }

    const INSIDE: &str = "MERCATO_TEST_NODE";

    fn ip(line: &str) -> String {
        run("ip", &line.split_whitespace().collect::<Vec<_>>())
    }

    fn run(program: &str, words: &[&str]) -> String {
        let output = Command::new(program).args(words).output().unwrap();
        assert!(output.status.success(), "{program} {words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// In a network namespace of its own, where everybody may do this.
    #[test]
    fn a_node_is_set_up_and_cleaned() {
        if std::env::var_os(INSIDE).is_none() {
            let this = std::env::current_exe().unwrap();
            let test = "nodes::follower::machine::tests::a_node_is_set_up_and_cleaned";
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--net"]).arg(this);
            let output = command.args(["--exact", test]).env(INSIDE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
            return;
        }
        let (host, wanted) = (Host::default(), wanted());
        let local = wanted.overlay.as_ref().unwrap().local;
        let error = host.set_up(&wanted).unwrap_err().to_string();
        assert!(error.contains("is no address of this machine"), "{error}");
        assert_eq!(host.mtu_of(local).unwrap(), None);
        ip("link add eth0 mtu 1490 type veth peer name far0");
        ip(&format!("address add {local}/24 dev eth0"));
        ip("link set eth0 up");
        assert_eq!((host.mtu_of(local).unwrap(), host.stay().unwrap()), (Some(1_490), None));
        // Whether a new namespace forwards packets is the machine's own affair.
        let is_in_force = |done: Result<Option<Trouble>, Trouble>| {
            let off = Trouble::Found(Finding::ForwardingOff(Family::V4)).to_string();
            assert!(matches!(done, Ok(None)) || done.is_err_and(|it| it.to_string() == off));
        };
        is_in_force(host.set_up(&wanted));
        is_in_force(host.set_up(&wanted));
        assert_eq!(host.stay().unwrap(), Some(wanted.node));
        // A gateway begins, and has this for its own.
        ip("link add mercato0 type veth peer name far1");
        let error = host.set_up(&wanted).unwrap_err().to_string();
        assert!(error.starts_with("the device mercato0 is on this node"), "{error}");
        assert!(!host.clean().unwrap());
        ip("link delete mercato0");
        assert_eq!(host.stay().unwrap(), Some(wanted.node), "it was left alone");
        assert!(host.refuse().unwrap() && !host.refuse().unwrap());
        assert_eq!(host.stay().unwrap(), None);
        let found = mercato_host::read(&Marks::default()).unwrap();
        assert!(found.overlay.is_none() && !found.rules.is_empty() && !found.packets.is_empty());
        let index = ip("-o link show eth0").split(':').next().unwrap().to_owned();
        let ends = ["4294967295", &index].map(|index| format!("netdev mercato-{index}"));
        for end in &ends {
            run("nft", &["add", "table", end]);
        }
        assert!(host.clean().unwrap());
        let left = run("nft", &["list", "tables"]);
        assert!(!left.contains(&ends[0]) && left.contains(&ends[1]), "a guest is open: {left}");
        assert!(!host.clean().unwrap(), "nothing is left");
    }

    #[test]
    fn the_clock_goes_on() {
        let host = Host::default();
        let before = host.now_ms();
        assert!(before > 0 && host.now_ms() >= before);
    }
}
