//! Frames by what they say, and their bytes: sums are right, so that a kernel takes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const VLAN: u16 = 0x8100;
pub(crate) const IPV6: u16 = 0x86dd;

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;

pub(crate) const SYN: u8 = 0x02;
pub(crate) const ACK: u8 = 0x10;

/// A frame that a program hands to a device.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) to: [u8; 6],
    pub(crate) from: [u8; 6],
    /// The tag of a VLAN, if it has one.
    pub(crate) tag: Option<u16>,
    /// What the program tells the kernel is in it; none: what the frame says.
    pub(crate) told: Option<u16>,
    pub(crate) load: Load,
}

#[derive(Clone, Debug)]
pub(crate) enum Load {
    Arp(Arp),
    Ip(Ip),
    /// Of another kind.
    Other(u16),
}

/// A question about a neighbour, or an answer.
#[derive(Clone, Debug)]
pub(crate) struct Arp {
    pub(crate) is_plain: bool,
    pub(crate) mac: [u8; 6],
    pub(crate) sender: Ipv4Addr,
    pub(crate) target: Ipv4Addr,
}

/// A packet. Both addresses are of one family.
#[derive(Clone, Debug)]
pub(crate) struct Ip {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) part: Part,
    /// That options come first; of IPv4, that its header has one.
    pub(crate) has_options: bool,
    pub(crate) body: Body,
    /// A number of this frame, which stands in its last two bytes.
    pub(crate) id: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    First,
    Later,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Udp {
        from: u16,
        to: u16,
    },
    Tcp {
        from: u16,
        to: u16,
        flags: u8,
    },
    /// Of ICMP of either family.
    Icmp {
        kind: u8,
    },
    /// The same, about a datagram of these ports that was sent so.
    Error {
        kind: u8,
        from: IpAddr,
        to: IpAddr,
        ports: [u16; 2],
    },
    /// Of ICMPv6, about whoever has this address.
    Neighbour {
        kind: u8,
        about: Ipv6Addr,
    },
    /// Of another protocol.
    Other(u8),
}

impl Sent {
    /// What the frame says is in it.
    pub(crate) fn kind(&self) -> u16 {
        match &self.load {
            Load::Arp(_) => ARP,
            Load::Ip(ip) if ip.from.is_ipv4() => IPV4,
            Load::Ip(_) => IPV6,
            Load::Other(kind) => *kind,
        }
    }

    /// What the kernel takes it for that is handed it.
    pub(crate) fn told(&self) -> u16 {
        self.told.unwrap_or(if self.tag.is_some() { VLAN } else { self.kind() })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.to, self.from].concat();
        if let Some(tag) = self.tag {
            bytes.extend(VLAN.to_be_bytes());
            bytes.extend(tag.to_be_bytes());
        }
        bytes.extend(self.kind().to_be_bytes());
        match &self.load {
            Load::Arp(arp) => bytes.extend(arp.bytes()),
            Load::Ip(ip) => bytes.extend(ip.bytes()),
            Load::Other(_) => bytes.extend([0xaa; 46]),
        }
        bytes
    }
}

impl Arp {
    fn bytes(&self) -> Vec<u8> {
        let head = if self.is_plain { [0, 1, 8, 0, 6, 4] } else { [0, 6, 8, 0, 6, 4] };
        let (sender, target) = (self.sender.octets(), self.target.octets());
        [&head[..], &[0, 1], &self.mac, &sender, &[0; 6], &target].concat()
    }
}

impl Ip {
    /// What is in it, behind whatever headers.
    pub(crate) fn protocol(&self) -> u8 {
        match self.body {
            Body::Udp { .. } => UDP,
            Body::Tcp { .. } => TCP,
            Body::Icmp { .. } | Body::Error { .. } if self.from.is_ipv4() => ICMP,
            Body::Icmp { .. } | Body::Error { .. } | Body::Neighbour { .. } => ICMPV6,
            Body::Other(protocol) => protocol,
        }
    }

    /// Whether it has no header but its own and that of what is in it, and is no part of another one.
    pub(crate) fn is_plain(&self) -> bool {
        self.part == Part::Whole && !(self.has_options && self.from.is_ipv6())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let body = self.body.bytes(self);
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => four(from, to, self, &body),
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let (mut next, mut behind) = (self.protocol(), body);
                if self.part != Part::Whole {
                    let offset: u16 = if self.part == Part::First { 1 } else { 64 };
                    behind =
                        [&[next, 0][..], &offset.to_be_bytes(), &[0, 0, 0, 7], &behind].concat();
                    next = 44;
                }
                if self.has_options {
                    behind = [&[next, 0, 1, 4, 0, 0, 0, 0][..], &behind].concat();
                    next = 60;
                }
                six(from, to, next, &behind)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {
                unreachable!("one family")
            }
        }
    }
}

impl Body {
    fn bytes(&self, ip: &Ip) -> Vec<u8> {
        let id = ip.id.to_be_bytes();
        let (mut bytes, at) = match self {
            Self::Udp { from, to } => {
                let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
                ([&ports[..], &[0, 12, 0, 0, 0, 0], &id].concat(), Some(6))
            }
            Self::Tcp { from, to, flags } => {
                let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
                let numbers = [0, 0, 0, 1, 0, 0, 0, if flags & ACK == 0 { 0 } else { 1 }];
                let rest = [0x50, *flags, 16, 0, 0, 0, 0, 0, 0, 0];
                ([&ports[..], &numbers, &rest, &id].concat(), Some(16))
            }
            Self::Icmp { kind } => ([&[*kind, 0, 0, 0, 0, 7, 0, 1][..], &id].concat(), Some(2)),
            Self::Error { kind, from, to, ports } => {
                let about = Body::Udp { from: ports[0], to: ports[1] };
                let (part, has_options) = (Part::Whole, false);
                let about = Ip { from: *from, to: *to, part, has_options, body: about, id: ip.id };
                let code = u8::from(*kind == 3 && ip.from.is_ipv4()) * 3;
                ([&[*kind, code, 0, 0, 0, 0, 0, 0][..], &about.bytes()].concat(), Some(2))
            }
            Self::Neighbour { kind, about } => {
                let option = [if *kind == 135 { 1 } else { 2 }, 1, 2, 0, 0, 0, 0, 5];
                ([&[*kind, 0, 0, 0, 0x20, 0, 0, 0][..], &about.octets(), &option].concat(), Some(2))
            }
            Self::Other(_) => ([&[0; 14][..], &id].concat(), None),
        };
        if let Some(at) = at {
            let is_icmp_of_four = ip.protocol() == ICMP;
            let pseudo = if is_icmp_of_four { 0 } else { pseudo(ip, bytes.len()) };
            let sum = !folded(pseudo + words(&bytes));
            let sum = if sum == 0 && ip.protocol() == UDP { 0xffff } else { sum };
            bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    }
}

fn four(from: Ipv4Addr, to: Ipv4Addr, ip: &Ip, body: &[u8]) -> Vec<u8> {
    // Three that do nothing, and the end (RFC 791, section 3.1).
    let options: &[u8] = if ip.has_options { &[1, 1, 1, 0] } else { &[] };
    let first = if ip.has_options { 0x46 } else { 0x45 };
    let length = (20 + options.len() + body.len()) as u16;
    let part: u16 = match ip.part {
        Part::Whole => 0,
        Part::First => 0x2000,
        Part::Later => 8,
    };
    let head = [&[first, 0][..], &length.to_be_bytes(), &[0, 7], &part.to_be_bytes()].concat();
    let mut head =
        [&head[..], &[64, ip.protocol(), 0, 0], &from.octets(), &to.octets(), options].concat();
    let sum = !folded(words(&head));
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    [head, body.to_vec()].concat()
}

fn six(from: Ipv6Addr, to: Ipv6Addr, next: u8, behind: &[u8]) -> Vec<u8> {
    let length = (behind.len() as u16).to_be_bytes();
    let head = [&[0x60, 0, 0, 0][..], &length, &[next, 255]].concat();
    [&head[..], &from.octets(), &to.octets(), behind].concat()
}

/// What the sum of a datagram is about besides itself.
fn pseudo(ip: &Ip, length: usize) -> u32 {
    let of = |address: IpAddr| match address {
        IpAddr::V4(address) => words(&address.octets()),
        IpAddr::V6(address) => words(&address.octets()),
    };
    of(ip.from) + of(ip.to) + u32::from(ip.protocol()) + length as u32
}

fn words(bytes: &[u8]) -> u32 {
    let word = |word: &[u8]| u32::from(word[0]) << 8 | word.get(1).map_or(0, |it| u32::from(*it));
    bytes.chunks(2).map(word).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
