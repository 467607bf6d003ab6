//! What a guest has bought, by its leases, and the node that it runs on: from these alone tables are
//! made, and from these alone it is said whom the guest may call.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use mercato_machine::{
    Closed, Egress, Family, FrameTable, Interface, Mac, Marks, NamesWay, Outward, Overlay, Place,
    Table, Wanted, Way, closed, closed_at_node, guard,
};

use crate::dice::Dice;

pub(crate) const DEVICE: &str = "eth0";
pub(crate) const END: &str = "pod0";
pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 5];
/// Who calls itself by a Service is called from here.
pub(crate) const ITSELF: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 6);
/// From here on, addresses of Services that are not open end so.
pub(crate) const NOT_OPEN: u8 = 40;
const LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 5);

/// A guest and its node.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) four: Option<Ipv4Addr>,
    pub(crate) six: Option<Ipv6Addr>,
    /// The ranges of its lease.
    pub(crate) leased: Vec<IpNet>,
    /// Services of its own namespace at home, and of others that are open to its lease or are not: all of them
    /// have an address here, since another lease of the same home may have them.
    pub(crate) services: Vec<Service>,
    /// The node's own addresses.
    pub(crate) node: Vec<IpAddr>,
    pub(crate) gate: u16,
    pub(crate) names: Option<Ipv4Addr>,
    /// Whether somebody listens there.
    pub(crate) listens: bool,
    /// How everybody knows the guest.
    pub(crate) called: Option<Ipv4Addr>,
    /// Whether packets with its address are known elsewhere.
    pub(crate) is_mapped: bool,
    /// Whether the gateway runs on another node.
    pub(crate) is_through: bool,
    /// What its contract has of the world.
    pub(crate) term: Term,
}

/// How far a contract lets guests go beyond clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Nowhere,
    Named(Vec<IpNet>),
    Everywhere,
}

/// What is nobody's on the Internet, or does not stay what it says (RFC 6890; 6to4, Teredo), and two networks
/// of the provider's own that the world knows.
pub(crate) const NEVER: [&str; 20] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/23",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
    "9.9.4.0/24",
    "2001::/32",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
    "2600:1f14::/32",
];
/// The networks that a contract names: the first and the last have something of the above in them.
const NAMED: [&str; 4] = ["203.0.112.0/22", "9.9.9.0/24", "2620:fe::/48", "2600:1f00::/24"];

/// A Service of home's, by what guests call it, and by what it has here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    pub(crate) called: Ipv4Addr,
    pub(crate) here: Ipv4Addr,
    pub(crate) namespace: ServiceNamespace,
}

/// Where a Service is at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceNamespace {
    Own,
    Open,
    NotOpen,
}

/// All tables of a guest and its node.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) own: FrameTable,
    pub(crate) at_node: FrameTable,
    pub(crate) node: [Table; 2],
}

impl World {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let dice = &mut Dice::new(bytes);
        let has = dice.pick(&[[true, true], [true, true], [true, false], [false, true]]);
        let four = has[0].then(|| Ipv4Addr::new(10, 42, dice.byte() % 4, 5 + dice.byte() % 200));
        let six =
            has[1].then(|| Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 5 + u16::from(dice.byte())));
        let mut leased = Vec::new();
        for _ in 0..dice.below(4) {
            let prefix = 24 + dice.byte() % 7;
            let address = Ipv4Addr::new(10, 201 + dice.byte() % 3, dice.byte() % 8, dice.byte());
            leased.push(Ipv4Net::new_assert(address, prefix).trunc().into());
        }
        for _ in 0..dice.below(3) {
            let prefix = 113 + dice.byte() % 13;
            let last = u16::from(dice.byte()) << 8 | u16::from(dice.byte());
            let address = Ipv6Addr::new(0xfd00, 0xc8, u16::from(dice.byte() % 4), 0, 0, 0, 0, last);
            leased.push(Ipv6Net::new_assert(address, prefix).trunc().into());
        }
        let mut node: Vec<IpAddr> = vec![Ipv4Addr::new(10, 42, 0, 1).into()];
        node.push(Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 1).into());
        // Ranges may have addresses of the node in them.
        let more = [[192, 0, 2, 1], [10, 201, 0, 1], [10, 202, 1, 9]].map(Ipv4Addr::from);
        node.extend(more.into_iter().take(dice.below(4)).map(IpAddr::from));
        let names = dice.is(180).then_some(Ipv4Addr::new(10, 207, 255, 254));
        node.extend(names.map(IpAddr::from));
        let of_own = services(dice, ServiceNamespace::Own, 0);
        let mut world = Self {
            services: of_own,
            four,
            six,
            leased,
            node,
            gate: dice.pick(&[0, 7_479]),
            names,
            listens: dice.is(160),
            called: dice.is(128).then_some(Ipv4Addr::new(10, 204, 3, 7)),
            is_mapped: dice.is(200),
            is_through: dice.is(100),
            term: Term::Nowhere,
        };
        world.services.extend(services(dice, ServiceNamespace::Open, 20));
        world.services.extend(services(dice, ServiceNamespace::NotOpen, NOT_OPEN));
        let named =
            NAMED.into_iter().take(1 + dice.below(4)).map(|net| net.parse().expect("a network"));
        let named = Term::Named(named.collect());
        world.term = dice.pick(&[Term::Nowhere, named.clone(), Term::Everywhere, named]);
        world
    }

    /// The Services that the lease has: which namespace they are of makes no difference here.
    pub(crate) fn told(&self) -> impl Iterator<Item = &Service> {
        self.services.iter().filter(|service| service.namespace != ServiceNamespace::NotOpen)
    }

    pub(crate) fn own(&self) -> Vec<IpAddr> {
        self.four.map(IpAddr::from).into_iter().chain(self.six.map(IpAddr::from)).collect()
    }

    /// How the guest is known on its link, besides.
    pub(crate) fn of_link(&self) -> Vec<IpAddr> {
        self.six.map(|_| LINK.into()).into_iter().collect()
    }

    /// The device by which other clusters are reached.
    pub(crate) fn way(&self) -> &'static str {
        if self.is_through { "mercato1" } else { "mercato0" }
    }

    pub(crate) fn closed(&self) -> Closed {
        let behind = self.told().map(|service| IpNet::from(IpAddr::from(service.here)));
        Closed {
            own: self.own().into_iter().collect(),
            reached: self.leased.iter().copied().chain(behind).collect(),
            services: self.told().map(|service| (service.called, service.here)).collect(),
            node: self.node.iter().copied().collect(),
            gate: self.gate,
            names: self.names.map(IpAddr::from),
            called: self.called,
            egress: match &self.term {
                Term::Nowhere => Egress::None,
                Term::Named(nets) => Egress::Named(nets.iter().copied().collect()),
                Term::Everywhere => Egress::Internet,
            },
            never: Arc::new(never()),
        }
    }

    fn outward(&self) -> Outward {
        let own = || self.own().into_iter().collect();
        let outward = Outward { never: never(), ..Outward::default() };
        match &self.term {
            Term::Nowhere => outward,
            Term::Named(nets) => {
                Outward { named: own(), to: nets.iter().copied().collect(), ..outward }
            }
            Term::Everywhere => Outward { internet: own(), ..outward },
        }
    }

    pub(crate) fn wanted(&self) -> Wanted {
        let node: IpAddr = Ipv4Addr::new(10, 201, 255, 1).into();
        let gateway: IpAddr = Ipv4Addr::new(10, 201, 255, 2).into();
        let six: IpAddr = Ipv6Addr::new(0xfd00, 0xc8, 0xff, 0, 0, 0, 0, 1).into();
        let gateway_six: IpAddr = Ipv6Addr::new(0xfd00, 0xc8, 0xff, 0, 0, 0, 0, 2).into();
        let machine: IpAddr = Ipv4Addr::new(192, 0, 2, 2).into();
        let overlay = Overlay {
            vni: Overlay::VNI,
            port: Overlay::PORT,
            local: Ipv4Addr::new(192, 0, 2, 1).into(),
            mtu: 1_330,
            nodes: [gateway, gateway_six].map(|node| (node, machine)).into(),
        };
        let way = if self.is_through { Way::Through(gateway) } else { Way::default() };
        let mapped = self.is_mapped.then(|| self.own()).into_iter().flatten();
        Wanted {
            marks: Marks::default(),
            mtu: 1_380,
            pool: Ipv4Net::new_assert(Ipv4Addr::new(10, 200, 0, 0), 13).into(),
            node,
            second: Some(Place {
                pool: Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0xc8, 0, 0, 0, 0, 0, 0), 32).into(),
                node: six,
            }),
            names: self
                .names
                .map(|names| NamesWay { address: names.into(), listens: self.listens }),
            api: None,
            ranges: self.leased.iter().copied().collect(),
            homes: self.leased.iter().copied().take(1).collect(),
            pods: mapped.collect(),
            guests: self.own().into_iter().collect(),
            outward: self.outward(),
            way,
            overlay: self.is_through.then_some(overlay),
        }
    }

    pub(crate) fn tables(&self) -> Tables {
        let (closing, wanted) = (self.closed(), self.wanted());
        assert_eq!((closing.check(), wanted.check()), (Ok(()), Ok(())), "{self:?}");
        let of_link = self.of_link().into_iter().collect();
        let interface = Interface { name: DEVICE.to_owned(), mac: Mac(MAC), of_link };
        Tables {
            own: closed(&closing, &interface),
            at_node: closed_at_node(&closing, &interface, "mercato-7".to_owned(), END),
            node: Family::ALL.map(|family| guard(&wanted, family, Some("out0"))),
        }
    }
}

fn never() -> BTreeSet<IpNet> {
    NEVER.into_iter().map(|net| net.parse().expect("a network")).collect()
}

/// A few Services of one namespace.
fn services(dice: &mut Dice<'_>, namespace: ServiceNamespace, first: u8) -> Vec<Service> {
    let count = dice.below(3);
    let service = |number: usize| {
        let number = first + number as u8;
        let called = Ipv4Addr::new(10, 96, 0, 7 + number);
        let here = dice.pick(&[Ipv4Addr::new(10, 97, number, 7), called]);
        Service { called, here, namespace }
    };
    (0..count).map(service).collect()
}
