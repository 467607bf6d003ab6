//! Whom a guest may call, by its leases alone: no rule and no set is asked here, and no packet is read.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use crate::wire::{ACK, ARP, Arp, Body, Ip, Load, Part, SYN, Sent};
use crate::world::{ITSELF, MAC, NEVER, Term, World};

/// Where it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the guest's own namespace, where addresses are written anew before.
    Own,
    /// At the node's end of its device, by what is on the wire.
    AtNode,
}

/// What conntrack and the routes say of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) is_established: bool,
    pub(crate) is_related: bool,
    pub(crate) is_reply: bool,
    pub(crate) leads_back: bool,
    /// Whether every bound is used up.
    pub(crate) is_used_up: bool,
}

impl World {
    /// Whether a guest may send this frame, as far as one place can say.
    pub(crate) fn may_send(&self, sent: &Sent, place: Place, is_used_up: bool) -> bool {
        let is_told_so = place == Place::AtNode || sent.told() == sent.kind();
        if sent.from != MAC || sent.tag.is_some() || !is_told_so {
            return false;
        }
        match &sent.load {
            Load::Arp(arp) => !is_used_up && self.may_ask(arp, place),
            Load::Ip(ip) => self.may_send_packet(&self.on_the_wire(ip, place), is_used_up),
            Load::Other(kind) => {
                assert_ne!(*kind, ARP);
                false
            }
        }
    }

    fn may_ask(&self, arp: &Arp, place: Place) -> bool {
        let sender = match place {
            Place::Own if arp.is_plain => self.here(arp.sender),
            Place::Own | Place::AtNode => arp.sender,
        };
        arp.is_plain && arp.mac == MAC && self.four == Some(sender)
    }

    /// The one address of the wire for the one by which a guest knows itself.
    fn here(&self, address: Ipv4Addr) -> Ipv4Addr {
        match (self.called, self.four) {
            (Some(called), Some(four)) if called == address => four,
            _ => address,
        }
    }

    /// What is on the wire for a packet of the guest.
    fn on_the_wire(&self, ip: &Ip, place: Place) -> Ip {
        let mut wire = ip.clone();
        let (IpAddr::V4(from), IpAddr::V4(to), Place::Own) = (ip.from, ip.to, place) else {
            return wire;
        };
        wire.from = self.here(from).into();
        let service = self.told().find(|it| self.four.is_some() && it.called == to);
        let is_itself = to == ITSELF && self.called.is_some() && self.four.is_some();
        wire.to = match (service, self.called) {
            (Some(service), _) => service.here.into(),
            (None, Some(called)) if is_itself => called.into(),
            _ => to.into(),
        };
        if let Body::Error { kind: 3 | 11 | 12, to, .. } = &mut wire.body
            && let IpAddr::V4(about) = *to
        {
            *to = self.here(about).into();
        }
        wire
    }

    fn may_send_packet(&self, ip: &Ip, is_used_up: bool) -> bool {
        if let Some(is) = self.may_speak_of_neighbours(ip, is_used_up) {
            return is;
        }
        let icmp = if ip.from.is_ipv4() { 1 } else { 58 };
        if !self.own().contains(&ip.from) || ![6, 17, icmp].contains(&ip.protocol()) {
            return false;
        }
        if self.asks_for_names(ip) {
            return !is_used_up && ip.is_plain();
        }
        if self.node.contains(&ip.to) {
            return ip.is_plain() && self.may_send_to_node(&ip.body, is_used_up);
        }
        self.is_leased(ip.to) || self.may_go_out(ip)
    }

    /// Whether a contract lets the guest send this to the world.
    pub(crate) fn may_go_out(&self, ip: &Ip) -> bool {
        let is_mail = matches!(ip.body, Body::Tcp { to: 25, .. }) && ip.part != Part::Later;
        // Of IPv6, what follows its own header is what is in the packet.
        let follows = ip.from.is_ipv4() || ip.is_plain();
        let has_options = ip.has_options && ip.from.is_ipv4();
        self.is_of_the_world(ip.to) && !is_mail && follows && !has_options
    }

    /// Whether a contract has somebody of this address, who is on the Internet and not the provider's own.
    pub(crate) fn is_of_the_world(&self, address: IpAddr) -> bool {
        let is_there = match address {
            IpAddr::V4(_) => true,
            IpAddr::V6(address) => address.segments()[0] & 0xe000 == 0x2000,
        };
        let has = match &self.term {
            Term::Nowhere => false,
            Term::Named(nets) => nets.iter().any(|net| begins_as(*net, address)),
            Term::Everywhere => true,
        };
        is_there && has && !is_never(address)
    }

    /// Whether the guest sends anything of this family to the world.
    pub(crate) fn goes_out(&self, is_four: bool) -> bool {
        let has = self.own().iter().any(|own| own.is_ipv4() == is_four);
        has && match &self.term {
            Term::Nowhere => false,
            Term::Named(nets) => nets.iter().any(|net| net.addr().is_ipv4() == is_four),
            Term::Everywhere => true,
        }
    }

    /// The same by a node, which knows a guest and the networks of all: it tells no family of a guest apart.
    fn node_lets_out(&self, own: IpAddr) -> bool {
        self.term != Term::Nowhere && self.own().contains(&own)
    }

    /// Whether the node brings this to a guest that others call: answers from the world, and errors on the way.
    pub(crate) fn may_come_back(&self, ip: &Ip, told: Told) -> bool {
        let is_error = match ip.body {
            Body::Error { kind, to, .. } => (kind != 5 || to.is_ipv6()) && !is_never(to),
            Body::Udp { .. } | Body::Tcp { .. } | Body::Icmp { .. } => false,
            Body::Neighbour { .. } | Body::Other(_) => false,
        };
        let is_back = told.is_established || (told.is_related && is_error);
        self.node_lets_out(ip.to) && told.is_reply && is_back
    }

    /// At port 53 of where names are asked for.
    pub(crate) fn asks_for_names(&self, ip: &Ip) -> bool {
        let is_port = matches!(ip.body, Body::Udp { to: 53, .. } | Body::Tcp { to: 53, .. });
        is_port && ip.is_plain() && self.names.map(IpAddr::from) == Some(ip.to)
    }

    /// Whether a range of the lease has the address, or it is what a Service has here that the lease has.
    pub(crate) fn is_leased(&self, to: IpAddr) -> bool {
        let is_service = self.told().any(|service| IpAddr::from(service.here) == to);
        is_service || self.leased.iter().any(|range| begins_as(*range, to))
    }

    /// To the node: answers, errors about what it has sent, and to its gate.
    fn may_send_to_node(&self, body: &Body, is_used_up: bool) -> bool {
        match body {
            Body::Tcp { to, flags, .. } => {
                let begins = flags & (SYN | ACK) == SYN;
                !begins || (self.gate != 0 && *to == self.gate && !is_used_up)
            }
            Body::Icmp { kind: 0 } if self.four.is_some() => true,
            Body::Icmp { kind: 129 } => true,
            Body::Error { kind, to, .. } => {
                let kinds: &[u8] = if to.is_ipv4() { &[3, 11, 12] } else { &[1, 2, 3, 4] };
                kinds.contains(kind) && self.own().contains(to)
            }
            Body::Icmp { .. } | Body::Udp { .. } | Body::Neighbour { .. } | Body::Other(_) => false,
        }
    }

    /// Of neighbours it speaks on its link alone, and as who it is; none: of something else.
    fn may_speak_of_neighbours(&self, ip: &Ip, is_used_up: bool) -> Option<bool> {
        self.six?;
        let kind = match ip.body {
            Body::Neighbour { kind, .. } | Body::Icmp { kind } | Body::Error { kind, .. } => kind,
            Body::Udp { .. } | Body::Tcp { .. } | Body::Other(_) => return None,
        };
        if ip.from.is_ipv4() || ip.part == Part::Later || !(132..140).contains(&kind) {
            return None;
        }
        let Body::Neighbour { about, .. } = ip.body else { return Some(false) };
        let is_own =
            |address: IpAddr| self.own().contains(&address) || self.of_link().contains(&address);
        let [asks, says] = [kind == 135, kind == 136];
        let (as_itself, about_itself) = (is_own(ip.from), is_own(about.into()));
        let is_so = (asks && as_itself)
            || (asks && ip.from.is_unspecified() && about_itself)
            || (says && as_itself && about_itself);
        let IpAddr::V6(to) = ip.to else { return Some(false) };
        let [first, ..] = to.segments();
        let is_near = first & 0xffc0 == 0xfe80 || first == 0xff02 || self.node.contains(&ip.to);
        Some(ip.is_plain() && is_so && is_near && !is_used_up)
    }

    /// Whether the node may take a packet of the guest for itself.
    pub(crate) fn may_come_in(&self, ip: &Ip, told: Told) -> bool {
        let is_answer = told.is_reply && told.is_established;
        let is_error = told.is_reply
            && told.is_related
            && matches!(ip.body, Body::Error { kind, to, .. }
                if (kind != 5 || ip.from.is_ipv6()) && self.own().contains(&to));
        let asks = self.asks_for_names(ip) && self.listens && !told.is_used_up;
        let is_neighbour = matches!(ip.body, Body::Neighbour { kind: 135 | 136, .. });
        self.may_arrive(ip, told) && (is_answer || is_error || asks || is_neighbour)
    }

    /// Whether the node may send a packet of the guest on by this device.
    pub(crate) fn may_go_on(&self, ip: &Ip, told: Told, device: &str) -> bool {
        let begins = !told.is_established && !told.is_related;
        let is_bounded = begins && told.is_used_up;
        let is_plain = !self.own().contains(&ip.to);
        let is_ours = ["mercato0", "mercato1"].contains(&device);
        let goes = if is_ours {
            self.is_mapped && device == self.way()
        } else {
            self.node_lets_out(ip.from) && self.may_go_out(&Ip { has_options: false, ..ip.clone() })
        };
        self.may_arrive(ip, told) && goes && is_plain && !is_bounded
    }

    /// Of whoever has the address of a guest, and is one, by the protocols that guests have.
    fn may_arrive(&self, ip: &Ip, told: Told) -> bool {
        let icmp = if ip.from.is_ipv4() { 1 } else { 58 };
        told.leads_back && [6, 17, icmp].contains(&ip.protocol())
    }

    /// Whether a frame may come to the guest: from whom it may call, or from its node.
    pub(crate) fn may_get(&self, sent: &Sent) -> bool {
        if sent.tag.is_some() {
            return false;
        }
        match &sent.load {
            Load::Arp(_) => self.four.is_some(),
            Load::Ip(ip) => {
                let is_neighbour = matches!(ip.body, Body::Neighbour { kind: 135 | 136, .. });
                let is_known = self.node.contains(&ip.from) || self.is_leased(ip.from);
                let is_known = is_known || self.may_come_from_the_world(ip);
                (self.six.is_some() && is_neighbour && ip.is_plain())
                    || (self.own().contains(&ip.to) && is_known)
            }
            Load::Other(_) => false,
        }
    }
}

impl World {
    /// Whether a guest hears this of the world: nobody calls it, and any router may say an error about what it
    /// has sent.
    fn may_come_from_the_world(&self, ip: &Ip) -> bool {
        let is_error = match ip.body {
            Body::Error { kind, from, .. } => {
                let kinds: &[u8] = if from.is_ipv4() { &[3, 11, 12] } else { &[1, 2, 3, 4] };
                kinds.contains(&kind) && self.own().contains(&from) && ip.part != Part::Later
            }
            Body::Udp { .. } | Body::Tcp { .. } | Body::Icmp { .. } => false,
            Body::Neighbour { .. } | Body::Other(_) => false,
        };
        let begins = match ip.body {
            Body::Tcp { flags, .. } => flags & (SYN | ACK) == SYN && ip.part != Part::Later,
            Body::Udp { .. } | Body::Icmp { .. } | Body::Error { .. } => false,
            Body::Neighbour { .. } | Body::Other(_) => false,
        };
        self.goes_out(ip.to.is_ipv4()) && (is_error || self.is_of_the_world(ip.from) && !begins)
    }
}

fn is_never(address: IpAddr) -> bool {
    NEVER.iter().any(|net| begins_as(net.parse().unwrap(), address))
}

/// Whether the first bits of an address are those of a range.
fn begins_as(range: IpNet, address: IpAddr) -> bool {
    match (range, address) {
        (IpNet::V4(range), IpAddr::V4(address)) => {
            let different = u32::from(range.addr()) ^ u32::from(address);
            different.leading_zeros() >= range.prefix_len().into()
        }
        (IpNet::V6(range), IpAddr::V6(address)) => {
            let different = u128::from(range.addr()) ^ u128::from(address);
            different.leading_zeros() >= range.prefix_len().into()
        }
        (IpNet::V4(_), IpAddr::V6(_)) | (IpNet::V6(_), IpAddr::V4(_)) => false,
    }
}
