//! Whether this machine forwards what a pod sends: tried with a datagram from one network namespace to
//! another, both of which are made for it, by two devices of this machine. Somebody else's chain may
//! drop it on its way, which no rule of ours can undo.
//!
//! Nothing is kept: namespaces end with whoever has them, and devices with these. IPv4 alone is tried.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd as _;

use ipnet::{IpNet, Ipv4Net};
use nix::sched::{CloneFlags, unshare};

use crate::error::{HostError, KernelError};
use crate::limits;
use crate::netlink::{
    Change, Conversation, Device, add_address, add_neighbour, add_pair, add_route, add_rule,
    all_routes, read_addresses, read_devices, read_dropping, read_generation, read_packets,
    read_rules, remove_device, remove_rule, set_device, set_up,
};
use crate::sandbox::ends_of_pods;
use crate::trial::comes;
use mercato_machine::Family;
use mercato_machine::Mac;
use mercato_machine::Marks;
use mercato_machine::NotForwarded;
use mercato_machine::Table;
use mercato_machine::{DeviceSetting, Neighbour, Route, RouteKind, Rule};

/// By which the datagram comes, and by which it leaves.
const IN: &str = Marks::OF_TRIALS[0];
const OUT: &str = Marks::OF_TRIALS[1];
/// What the other ends of both are called.
const INSIDE: &str = "eth0";
/// Whom the datagram is for: nobody has an address of this network (RFC 5737).
const TO: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 174);
/// Routes and rules with ours would go as those of an earlier run (`Marks::protocol`): the next number.
const PROTOCOL: u8 = 175;
/// The table that all packets look into (`RT_TABLE_MAIN`), and one for the datagram alone.
const MAIN: u32 = 254;
const BACK: u32 = 7480;
/// Of the addresses of a network, those are tried whose last byte is at most this.
const LAST: u8 = 254;

/// The number of this machine's packet rules: another one after each change by anybody. What
/// iptables' legacy program changes is not seen.
///
/// # Errors
/// When the kernel does not say.
pub fn generation() -> Result<u32, HostError> {
    let kernel = Conversation::about_packets();
    kernel.and_then(|mut kernel| read_generation(&mut kernel)).map_err(reading("nf_tables"))
}

/// Tries whether this machine forwards what a pod of its pod network sends. Where no pod is it cannot
/// be tried, and nothing is said.
///
/// # Errors
/// When it does not, and which chain it may be; or when it could not be tried.
pub fn try_to_forward() -> Result<(), HostError> {
    let mut kernel = Conversation::about_routing().map_err(reading("network"))?;
    let Some(source) = source(&mut kernel)? else { return Ok(()) };
    let rooms = [Room::new()?, Room::new()?];
    // One that was stopped in between has left them for a moment.
    remove(&mut kernel)?;
    let comes = comes_through(&mut kernel, rooms, source);
    remove(&mut kernel)?;
    if comes? {
        return Ok(());
    }
    let packets = Conversation::about_packets();
    let chains = packets.and_then(|mut packets| read_dropping(&mut packets, IN));
    let mut chains = chains.map_err(reading("nf_tables"))?;
    chains.retain(|chain| chain.table != Table::NAME && chain.family.sees(Family::V4));
    Err(NotForwarded { chains }.into())
}

/// A network namespace that was made for this, with what speaks there.
struct Room {
    namespace: File,
    routing: Conversation,
    socket: UdpSocket,
}

impl Room {
    fn new() -> Result<Self, HostError> {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| trying(error.into()))?;
            let namespace = File::open("/proc/thread-self/ns/net").map_err(trying)?;
            let routing =
                Conversation::about_routing().map_err(reading("own network namespace"))?;
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(trying)?;
            socket.set_read_timeout(Some(limits::TRIAL)).map_err(trying)?;
            Ok(Self { namespace, routing, socket })
        };
        let thread = std::thread::Builder::new().name("trial".to_owned());
        let made = thread.spawn(make).map_err(trying)?.join();
        made.map_err(|_| trying(io::Error::other("its thread has ended")))?
    }

    /// Joins it to this machine by a device of that name; gives both ends, the one here first.
    fn join(
        &mut self,
        kernel: &mut Conversation,
        name: &str,
        own: Ipv4Addr,
    ) -> Result<[End; 2], HostError> {
        perform(kernel, add_pair(name, INSIDE, self.namespace.as_raw_fd()))?;
        let here = End::of(kernel, name)?;
        let there = End::of(&mut self.routing, INSIDE)?;
        for setting in [DeviceSetting::Forwarding, DeviceSetting::ReversePath] {
            perform(kernel, set_device(here.device, setting, setting.wanted()))?;
        }
        let loose = DeviceSetting::ReversePath;
        perform(&mut self.routing, set_device(there.device, loose, loose.wanted()))?;
        // Nobody is to hear of an address that is gone in a moment; without IPv6 there is none.
        let no_address = DeviceSetting::AddressGeneration;
        let _ = kernel.perform(set_device(here.device, no_address, no_address.wanted()));
        perform(&mut self.routing, add_address(there.device, net(own)))?;
        perform(&mut self.routing, set_up(there.device))?;
        perform(kernel, set_up(here.device))?;
        Ok([here, there])
    }
}

/// One end of a pair.
#[derive(Clone, Copy)]
struct End {
    device: u32,
    mac: Mac,
}

impl End {
    fn of(kernel: &mut Conversation, name: &str) -> Result<Self, HostError> {
        let devices = read_devices(kernel).map_err(reading("devices"))?;
        let found = devices.into_iter().find(|device| device.name == name);
        let end =
            found.and_then(|Device { index, mac, .. }| Some(Self { device: index, mac: mac? }));
        end.ok_or_else(|| trying(io::ErrorKind::NotFound.into()))
    }

    /// What goes to the address goes by this end, to whoever has that address in frames.
    fn leads(
        self,
        kernel: &mut Conversation,
        address: Ipv4Addr,
        mac: Mac,
    ) -> Result<(), HostError> {
        let address = IpAddr::V4(address);
        perform(kernel, add_neighbour(self.device, &Neighbour { address, mac }))?;
        perform(kernel, add_route(&self.route(address.into())))
    }

    fn route(self, net: IpNet) -> Route {
        Route {
            table: MAIN,
            net,
            metric: 0,
            kind: RouteKind::Unicast,
            device: Some(self.device),
            gateway: None,
            onlink: false,
            source: None,
            protocol: PROTOCOL,
        }
    }
}

/// Whether a datagram from this source comes from the one to the other.
fn comes_through(
    kernel: &mut Conversation,
    [mut from, mut to]: [Room; 2],
    source: Ipv4Addr,
) -> Result<bool, HostError> {
    let [enters, first] = from.join(kernel, IN, source)?;
    // Sources are looked up (`rp_filter`): this one is behind that device, for the datagram alone.
    perform(kernel, add_route(&Route { table: BACK, ..enters.route(net(source)) }))?;
    perform(kernel, add_rule(&back(source)))?;
    let [leaves, last] = to.join(kernel, OUT, TO)?;
    first.leads(&mut from.routing, TO, enters.mac)?;
    // Who has sent it is behind the one device that there is.
    let everywhere = IpNet::V4(Ipv4Net::default());
    perform(&mut to.routing, add_route(&last.route(everywhere)))?;
    leaves.leads(kernel, TO, last.mac)?;
    let port = to.socket.local_addr().map_err(trying)?.port();
    for _ in 0..limits::TRIALS {
        // What is dropped may be said to the sender, or not.
        let _ = from.socket.send_to(b"?", (TO, port));
        if comes(&to.socket).map_err(trying)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The way back of the datagram, and of nothing else.
fn back(source: Ipv4Addr) -> Rule {
    Rule {
        family: Family::V4,
        preference: Marks::default().preference,
        to: Some(net(source)),
        from: Some(net(TO)),
        from_device: None,
        table: BACK,
        protocol: PROTOCOL,
        is_plain: true,
    }
}

fn net(address: Ipv4Addr) -> IpNet {
    IpNet::from(IpAddr::V4(address))
}

fn remove(kernel: &mut Conversation) -> Result<(), HostError> {
    let rules = read_rules(kernel, Family::V4).map_err(reading("routing rules"))?;
    for rule in rules.iter().filter(|rule| rule.protocol == PROTOCOL) {
        perform(kernel, remove_rule(rule))?;
    }
    let devices = read_devices(kernel).map_err(reading("devices"))?;
    let ours = devices.iter().filter(|device| [IN, OUT].contains(&&*device.name));
    ours.map(|device| device.index).try_for_each(|device| perform(kernel, remove_device(device)))
}

/// An address as pods here have one, whose packets go as theirs do: of nobody, if that can be, and
/// never of a guest, who sends by his own device alone. None: no pod is here.
fn source(kernel: &mut Conversation) -> Result<Option<Ipv4Addr>, HostError> {
    let devices = read_devices(kernel).map_err(reading("devices"))?;
    let addresses = read_addresses(kernel).map_err(reading("addresses"))?;
    let routes = all_routes(kernel).map_err(reading("routes"))?;
    let packets = Conversation::about_packets();
    let ours = packets.and_then(|mut packets| read_packets(&mut packets, Family::V4));
    let ours = ours.map_err(reading("nf_tables"))?;
    let guests = ours.and_then(|mut table| table.sets.remove(Table::GUESTS)).unwrap_or_default();
    let ends = ends_of_pods(&devices, &addresses).filter(|end| end.link_namespace.is_some());
    let by: BTreeSet<u32> = ends.flat_map(|end| [Some(end.index), end.bridge]).flatten().collect();
    let to_pods = routes.iter().filter(|route| route.device.is_some_and(|at| by.contains(&at)));
    let nets = to_pods.filter_map(|route| match (route.kind, route.net) {
        (RouteKind::Unicast, IpNet::V4(net)) if !net.addr().is_link_local() => Some(net),
        _ => None,
    });
    let nets: BTreeSet<Ipv4Net> = nets.filter(|net| net.prefix_len() > 0).collect();
    let is_free = |address: &Ipv4Addr| {
        let address = IpAddr::V4(*address);
        !guests.contains(&address) && !addresses.iter().any(|one| one.net.addr() == address)
    };
    let near = |net: &Ipv4Net| {
        let [a, b, c, _] = net.addr().octets();
        (1..=LAST).rev().map(move |last| Ipv4Addr::new(a, b, c, last))
    };
    // A route to one pod alone says that this one is there.
    let of = nets.iter().flat_map(|net| near(net).filter(|address| net.contains(address)));
    Ok(of.chain(nets.iter().flat_map(near)).find(is_free))
}

fn perform(kernel: &mut Conversation, change: Change) -> Result<(), HostError> {
    let doing = || "set up a trial of what is forwarded".to_owned();
    kernel.perform(change).map_err(|source| HostError::Apply { doing: doing(), source })
}

fn trying(source: io::Error) -> HostError {
    HostError::Trial { source }
}

fn reading(what: &'static str) -> impl Fn(KernelError) -> HostError {
    move |source| HostError::Read { what, source }
}
