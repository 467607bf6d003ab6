//! What guests of a node never reach by the egress of their contracts, whatever these say.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use mercato_host::HostError;
use mercato_machine::{Egress, Network, own_networks};
use mercato_protocol::limits::NODE_NEVER;
use mercato_protocol::{egress, outside};

/// The networks of this machine's own; or why guests here cannot be kept from them.
pub(crate) type OwnNetworks = Result<BTreeSet<IpNet>, String>;

/// Those of these networks that have an address which may be somebody's on the Internet.
pub(crate) fn own(networks: Result<Vec<Network>, HostError>) -> OwnNetworks {
    let networks = networks.map_err(|error| format!("its networks are not known: {error}"))?;
    let mut own = own_networks(&networks);
    own.retain(|net| !outside::NEVER.iter().any(|never| never.contains(net)));
    match own.len() {
        count if count > NODE_NEVER => Err(format!(
            "it has {count} networks of its own, more than the {NODE_NEVER} that can be told apart"
        )),
        _ => Ok(own),
    }
}

/// All that no guest reaches: what is nobody's on the Internet, what is the cluster's, and what is this
/// machine's.
pub(crate) fn all(of_cluster: &BTreeSet<IpNet>, own: &BTreeSet<IpNet>) -> Arc<BTreeSet<IpNet>> {
    let nets = of_cluster.iter().chain(own).map(IpNet::trunc).chain(outside::NEVER).collect();
    Arc::new(IpNet::aggregate(&nets).into_iter().collect())
}

/// Where guests may go whose contract says so.
pub(crate) fn egress(of: &egress::Egress) -> Egress {
    match of {
        egress::Egress::None => Egress::None,
        egress::Egress::Named(outside) => Egress::Named(outside.ranges().iter().copied().collect()),
        egress::Egress::Internet => Egress::Internet,
    }
}

#[cfg(test)]
mod tests {
    use mercato_machine::NetworkKind;

    use super::*;

    fn network(net: &str) -> Network {
        Network { net: net.parse().unwrap(), kind: NetworkKind::Address, device: None }
    }

    #[test]
    fn networks_that_are_nobodys_count_for_nothing() {
        let all = ["10.1.2.3/16", "8.8.8.7/24", "fe80::1/64", "0.0.0.0/0"].map(network);
        assert_eq!(own(Ok(all.into())).unwrap(), ["8.8.8.0/24".parse().unwrap()].into());
    }

    #[test]
    fn a_machine_with_too_many_keeps_nobody_from_them() {
        let public =
            |n: u32| network(&format!("{}/32", std::net::Ipv4Addr::from(0x0800_0000 + 2 * n)));
        let of = |count| own(Ok((0..count).map(public).collect()));
        assert_eq!(of(256).unwrap().len(), 256);
        let why = of(257).unwrap_err();
        assert!(why.contains("257 networks of its own") && why.contains("256"), "{why}");
    }

    #[test]
    fn all_of_it_is_said_once() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let (cluster, machine) =
            ([net("10.42.0.0/16"), net("9.9.9.0/24")].into(), [net("9.9.9.9/32")].into());
        let all = all(&cluster, &machine);
        assert!(all.contains(&net("10.0.0.0/8")) && all.contains(&net("9.9.9.0/24")));
        let covers = |it: &&IpNet| it.contains(&net("9.9.9.9/32"));
        assert_eq!(all.iter().filter(covers).count(), 1);
        assert!(all.iter().any(|it| it.contains(&net("2002::/16"))));
        let open = net("2a00:1450::/32");
        assert!(!all.iter().any(|it| it.contains(&open)), "that is somebody's");
    }
}
