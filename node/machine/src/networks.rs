//! Which networks this machine knows, and whether the pool is one of them.

use std::collections::BTreeSet;
use std::fmt;

use ipnet::IpNet;

/// A network that this machine has an address of, or a route to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    /// The addresses that are in it.
    pub net: IpNet,
    /// How the machine knows it.
    pub kind: NetworkKind,
    /// By which device, if it is one.
    pub device: Option<String>,
}

/// How a machine knows a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkKind {
    /// One of its devices has an address there.
    Address,
    /// A routing table leads there.
    Route {
        /// The number of the table.
        table: u32,
    },
}

/// Addresses of the pool that already mean something else here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The pool that was looked at.
    pub pool: IpNet,
    /// Which has addresses of it.
    pub network: Network,
}

/// Default routes, and the halves of the Internet that VPNs set in their place, lead everywhere:
/// that says nothing of any address.
const LONGEST_DEFAULT_PREFIX: u8 = 1;

/// The network that has addresses of the pool. Of several it is one that this machine has an
/// address of, since that has routes of its own, and else the most specific one.
pub fn overlap(pool: IpNet, networks: &[Network]) -> Option<Overlap> {
    let overlaps = |network: &&Network| {
        network.net.prefix_len() > LONGEST_DEFAULT_PREFIX
            && (pool.contains(&network.net) || network.net.contains(&pool))
    };
    let specific =
        |network: &&Network| (network.kind == NetworkKind::Address, network.net.prefix_len());
    let found = networks.iter().filter(overlaps).max_by_key(specific)?;
    Some(Overlap { pool, network: found.clone() })
}

/// All of these networks but those that lead everywhere, each without its host's bits, and none within another.
pub fn own_networks(networks: &[Network]) -> BTreeSet<IpNet> {
    let nets = networks.iter().map(|network| network.net.trunc());
    let nets = nets.filter(|net| net.prefix_len() > LONGEST_DEFAULT_PREFIX).collect();
    IpNet::aggregate(&nets).into_iter().collect()
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            NetworkKind::Address => write!(f, "the address {}", self.net)?,
            NetworkKind::Route { table } => write!(f, "the route to {} (table {table})", self.net)?,
        }
        match &self.device {
            Some(device) => write!(f, " of {device}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = if self.pool.addr().is_ipv4() { "pool" } else { "poolV6" };
        write!(
            f,
            "the pool {} overlaps with {} on this node: packets to one would go to the other; set \
             gateway.{setting} to a range that nothing here uses, and start the daemon again",
            self.pool, self.network
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(net: &str) -> Network {
        let kind = NetworkKind::Route { table: 254 };
        Network { net: net.parse().unwrap(), kind, device: Some("eth0".to_owned()) }
    }

    fn pool() -> IpNet {
        "10.200.0.0/13".parse().unwrap()
    }

    #[test]
    fn networks_beside_the_pool_and_default_routes_are_none() {
        let networks = ["0.0.0.0/0", "0.0.0.0/1", "10.192.0.0/13", "10.208.0.0/13", "fd00::/8"];
        assert_eq!(overlap(pool(), &networks.map(route)), None);
    }

    #[test]
    fn own_networks_are_those_that_lead_somewhere() {
        let networks = ["0.0.0.0/0", "128.0.0.0/1", "8.8.8.0/24", "8.8.8.7/24", "2000::/3", "::/0"];
        let own = own_networks(&networks.map(route));
        assert_eq!(own, ["8.8.8.0/24", "2000::/3"].map(|net| net.parse().unwrap()).into());
    }

    #[test]
    fn the_most_specific_one_is_named() {
        let networks = ["10.0.0.0/8", "10.203.1.0/24", "10.200.0.0/14"];
        let found = overlap(pool(), &networks.map(route)).unwrap();
        assert_eq!(found.network, route("10.203.1.0/24"));
        let said = found.to_string();
        for part in ["10.200.0.0/13", "10.203.1.0/24", "eth0", "gateway.pool"] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn an_address_is_named_before_the_routes_that_come_with_it() {
        let net = "10.203.1.1/24".parse().unwrap();
        let address = Network { net, kind: NetworkKind::Address, device: None };
        let networks = [route("10.203.1.255/32"), address.clone(), route("10.203.1.0/24")];
        assert_eq!(overlap(pool(), &networks).unwrap().network, address);
    }

    #[test]
    fn a_network_around_the_pool_is_one() {
        assert!(overlap(pool(), &[route("10.0.0.0/8")]).is_some());
    }
}
