//! The gateway of this machine: it runs while a lease needs it, and the machine has what it needs
//! for as long.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use anyhow::{Context as _, anyhow, bail};
use ipnet::{IpNet, Ipv6Net};
use mercato_discovery::{Host, likeliest_first};
use mercato_machine::{Family, Finding, Mac, Marks, Wanted, WantedError};
use mercato_net::Net;
use mercato_protocol::tunnel::home_api;
use mercato_session::{PublicKey, Suite, Suites};
use mercato_tunnel::{
    Command, Device, Gateway, GatewayConfig, GatewayError, GatewayHandle, LinkEvent, OffloadState,
    Offloads, Sockets, Traffic, default_shards,
};

use super::secrets;
use crate::limits;
use crate::nodes::mending::Mending;

/// What the owner says of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct GatewaySettings {
    /// Where others reach it, by UDP.
    pub(crate) port: u16,
    /// Where they are told that it is; empty: at the addresses of this machine.
    pub(crate) addresses: Vec<SocketAddr>,
    /// By addresses of this range pods are known.
    pub(crate) pool: IpNet,
    /// Behind this one they are known by IPv6; none: by IPv4 alone.
    pub(crate) pool_v6: Option<Ipv6Net>,
    /// The way between the nodes of this cluster.
    pub(crate) nodes: NodesSettings,
    /// What guests are told of names.
    pub(crate) names: NamesSettings,
}

/// What the owner says of names that guests are told.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamesSettings {
    /// Whom to ask what is not known here.
    pub(crate) servers: Vec<IpAddr>,
}

/// What the owner says of the way between nodes.
#[derive(Clone, Debug)]
pub(crate) struct NodesSettings {
    /// Where they reach the daemon, by TCP.
    pub(crate) port: u16,
    /// By which they reach each other, by UDP.
    pub(crate) overlay_port: u16,
    /// The network identifier of the overlay.
    pub(crate) vni: u32,
    /// Where gates of guests ask on each of them, by TCP.
    pub(crate) gate: u16,
    /// Whether there is an image of gates: else no guest is closed.
    pub(crate) has_gate: bool,
}

impl GatewaySettings {
    /// Where others are told that it is.
    pub(super) fn told(&self, net: &Net) -> Vec<SocketAddr> {
        if !self.addresses.is_empty() {
            return self.addresses.clone();
        }
        let mut told = net.told_addresses();
        likeliest_first(&mut told);
        let mut all = Vec::new();
        for address in net.published_addresses().into_iter().chain(told) {
            if let Host::Ip(ip) = address.host
                && !ip.is_loopback()
                && !ip.is_unspecified()
                && !self.is_in_pool(ip)
                && !all.contains(&SocketAddr::new(ip, self.port))
            {
                all.push(SocketAddr::new(ip, self.port));
            }
        }
        all
    }

    /// Where guests elsewhere reach this cluster's API server, by IPv4 alone.
    pub(super) fn api(&self) -> Option<IpAddr> {
        home_api(self.pool).filter(IpAddr::is_ipv4)
    }

    /// By such an address pods are known in tunnels.
    fn is_in_pool(&self, ip: IpAddr) -> bool {
        let second = self.pool_v6.map(IpNet::V6);
        self.pool.contains(&ip) || second.is_some_and(|pool| pool.contains(&ip))
    }
}

/// A gateway that runs on this machine.
pub(super) struct Running {
    pub(super) handle: GatewayHandle,
    pub(super) key: PublicKey,
    thread: JoinHandle<Result<Traffic, GatewayError>>,
}

impl Running {
    /// Starts it, with these keys; it tells there of its links.
    pub(super) fn start(
        port: u16,
        keys: secrets::Gateway,
        links: SyncSender<LinkEvent>,
    ) -> anyhow::Result<Self> {
        let (devices, sockets) = open(port, default_shards())?;
        let key = keys.keys.public();
        let config = GatewayConfig {
            keys: keys.keys,
            suites: Suites::new(Suite::ALL),
            inner_mtu: limits::TUNNEL_DATAGRAM,
            start: keys.start,
            seed: rand::random(),
        };
        let (mut gateway, handle) = Gateway::new(config, devices, sockets).map_err(whole)?;
        gateway.tell_links(links);
        let named = std::thread::Builder::new().name("tunnel-0".to_owned());
        let thread = named.spawn(|| gateway.run()).context("cannot start a thread")?;
        Ok(Self { handle, key, thread })
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it; its device goes with it.
    pub(super) fn stop(self) -> anyhow::Result<Traffic> {
        // It may have ended by itself, which its result says.
        let _ = self.handle.send(Command::Stop);
        match self.thread.join() {
            Ok(ended) => ended.map_err(whole),
            Err(_) => bail!("the gateway panicked"),
        }
    }
}

/// Whether a gateway can run here, before one is needed: its port is free, there may be a TUN
/// device, the pool is nobody's. Nothing of it stays.
pub(super) fn probe(settings: &GatewaySettings, marks: &Marks) -> anyhow::Result<()> {
    let found = mercato_host::read(marks).map_err(whole)?;
    let networks = mercato_host::networks(marks).map_err(whole)?;
    if let Some(overlap) = mercato_machine::overlap(settings.pool, &networks) {
        bail!("{overlap}");
    }
    let off = Finding::ForwardingOff(Family::of_net(settings.pool));
    if let Some(off) = found.findings().iter().find(|it| **it == off) {
        bail!("{off}");
    }
    if found.device.is_some() {
        // That of an earlier run may take a moment to go; one that stays is another daemon's.
        bail!(
            "there is a device {} already: is another daemon running on this machine?",
            marks.device
        );
    }
    drop(open(settings.port, 1)?);
    Ok(())
}

/// Whether packets of IPv6 can go by a gateway here: the kernel knows and forwards them, and the
/// pool is nobody's.
pub(super) fn probe_second(pool: Ipv6Net, marks: &Marks) -> anyhow::Result<()> {
    let found = mercato_host::read(marks).map_err(whole)?;
    if !found.forwarding.contains_key(&Family::V6) {
        bail!("{}", WantedError::Kernel(Family::V6));
    }
    let networks = mercato_host::networks(marks).map_err(whole)?;
    if let Some(overlap) = mercato_machine::overlap(pool.into(), &networks) {
        bail!("{overlap}");
    }
    let off = Finding::ForwardingOff(Family::V6);
    match found.findings().iter().find(|it| **it == off) {
        Some(off) => bail!("{off}"),
        None => Ok(()),
    }
}

/// Whether an earlier run has had IPv6 in tunnels, and has left it here.
pub(super) fn has_second(marks: &Marks) -> anyhow::Result<bool> {
    let found = mercato_host::read(marks).map_err(whole)?;
    let mut ours = found.routes.iter().filter(|route| route.protocol == marks.protocol);
    Ok(ours.any(|route| Family::of_net(route.net) == Family::V6))
}

fn open(port: u16, shards: u8) -> anyhow::Result<(Vec<Device>, Sockets)> {
    let offloads = OffloadState::new(Offloads::ALL);
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let sockets = Sockets::bind(address, shards, &offloads).map_err(|error| {
        anyhow!(
            "UDP port {port} cannot be had for the tunnel: {error}; end who has it (ss -ulpn sport \
             = :{port}), or set another one (gateway.port) and start the daemon again"
        )
    })?;
    let devices = Device::create(&Marks::default().device, sockets.shards.len(), &offloads);
    Ok((devices.map_err(whole)?, sockets))
}

/// These say all by themselves: told with their sources they would say it again.
fn whole(error: impl Error) -> anyhow::Error {
    anyhow!("{error}")
}

/// The nodes that this machine has a way to: by their addresses on their own network, those of the
/// pool.
pub(super) fn nodes(marks: &Marks) -> anyhow::Result<BTreeMap<IpAddr, IpAddr>> {
    let Some(overlay) = mercato_host::read(marks).map_err(whole)?.overlay else {
        return Ok(BTreeMap::new());
    };
    let machine = |mac: Mac| {
        let mut behind = overlay.endpoints.iter().filter(|endpoint| endpoint.mac == mac);
        behind.find_map(|endpoint| endpoint.machine)
    };
    // Those of the second family follow from the first ones.
    let known = overlay.neighbours.iter().filter(|it| it.address.is_ipv4());
    Ok(known.filter_map(|it| Some((machine(it.mac)?, it.address))).collect())
}

/// No guest reaches whoever has listened for them on this machine in an earlier run.
pub(super) fn nobody_listens(marks: &Marks) -> anyhow::Result<()> {
    let found = mercato_host::read(marks).map_err(whole)?;
    mercato_host::apply(&mercato_machine::nobody_listens_plan(&found)).map_err(whole)
}

/// The addresses of this machine.
pub(super) fn addresses(marks: &Marks) -> anyhow::Result<BTreeSet<IpAddr>> {
    Ok(mercato_host::read(marks).map_err(whole)?.own.into_keys().collect())
}

/// Brings the machine to what is wanted; or to the first family of it, and then gives why the second
/// one cannot be.
pub(super) fn set_up(
    wanted: &Wanted,
    mending: &mut Mending,
) -> anyhow::Result<Option<anyhow::Error>> {
    match set_up_whole(wanted, mending) {
        Err(error) if wanted.second.is_some() => {
            set_up_whole(&wanted.first_alone(), mending).map(|()| Some(error))
        }
        done => done.map(|()| None),
    }
}

fn set_up_whole(wanted: &Wanted, mending: &mut Mending) -> anyhow::Result<()> {
    let found = mercato_host::read(&wanted.marks).map_err(whole)?;
    mending.look(&found);
    let steps = mercato_machine::plan(&found, wanted)?;
    mercato_host::apply(&steps).map_err(whole)?;
    mending.have(wanted);
    Ok(())
}
