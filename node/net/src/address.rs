//! Between our addresses and multiaddrs. Names are resolved just before a dial: by the system,
//! with its hosts file and search list, or as the daemon's owner wants.

use std::io;
use std::net::{IpAddr, SocketAddr};

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use ipnet::IpNet;
use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;
use mercato_discovery::{Address, Host, Transport, likeliest_first};
use tokio::time::timeout;

use crate::limits;

/// Finds a host's addresses by its name.
pub type Names = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// As all programs of this machine find them.
pub fn system_names() -> Names {
    Arc::new(|name| {
        async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|socket| socket.ip()).collect())
        }
        .boxed()
    })
}

pub(crate) fn multiaddr(socket: SocketAddr, transport: Transport) -> Multiaddr {
    let base = Multiaddr::from(socket.ip());
    match transport {
        Transport::Quic => base.with(Protocol::Udp(socket.port())).with(Protocol::QuicV1),
        Transport::Tcp => base.with(Protocol::Tcp(socket.port())),
    }
}

/// `None` for what we do not speak.
pub(crate) fn address(multiaddr: &Multiaddr) -> Option<Address> {
    without_peer(multiaddr).to_string().parse().ok()
}

/// Less the key that is expected there, as libp2p adds it.
pub(crate) fn without_peer(multiaddr: &Multiaddr) -> Multiaddr {
    multiaddr.iter().filter(|part| !matches!(part, Protocol::P2p(_))).collect()
}

/// The addresses that a peer says are its own, as far as somebody who reached it at
/// `reached` could use them: no one's loopback but our own. Where there are too many, those where it was
/// reached and the likeliest, in whatever order it says them.
pub(crate) fn plausible(own: &[Multiaddr], reached: Option<&Address>) -> Vec<Address> {
    let local = reached.is_some_and(|address| match address.host {
        Host::Ip(ip) => ip.is_loopback(),
        Host::Name(_) => false,
    });
    let usable = |address: &Address| match address.host {
        Host::Ip(IpAddr::V6(ip)) if ip.is_unicast_link_local() => false,
        Host::Ip(ip) => !ip.is_unspecified() && !ip.is_multicast() && (local || !ip.is_loopback()),
        Host::Name(_) => true,
    };
    let mut all: Vec<Address> = own.iter().filter_map(address).filter(usable).collect();
    likeliest_first(&mut all);
    all.sort_by_key(|address| reached.is_none_or(|reached| reached.host != address.host));
    all.truncate(limits::ADDRESSES);
    all
}

/// Where a peer can be dialled that has come from there: at that machine, at a port that it says it
/// listens on. The port that it has come from is none of those.
pub(crate) fn listens_at(own: &[Multiaddr], from: &Address) -> Option<Address> {
    let there = own.iter().filter_map(address).filter(|address| address.host == from.host);
    there.min_by_key(|address| address.transport != from.transport)
}

/// Whether an address is one of a range's; a name is in none.
pub(crate) fn is_in(address: &Address, range: IpNet) -> bool {
    match &address.host {
        Host::Ip(ip) => range.contains(ip),
        Host::Name(_) => false,
    }
}

/// The multiaddrs of an address: several for a name, none if it is not known.
pub(crate) async fn resolve(names: &Names, address: &Address) -> Vec<Multiaddr> {
    match &address.host {
        Host::Ip(ip) => vec![multiaddr((*ip, address.port).into(), address.transport)],
        Host::Name(name) => match timeout(limits::OPEN_TIMEOUT, names(name.clone())).await {
            Ok(Ok(found)) => found
                .into_iter()
                .take(limits::ADDRESSES)
                .map(|ip| multiaddr((ip, address.port).into(), address.transport))
                .collect(),
            Ok(Err(error)) => {
                tracing::debug!(%name, %error, "a name did not resolve");
                Vec::new()
            }
            Err(_) => Vec::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_a_range_and_a_name_in_none() {
        let range = "10.200.0.0/13".parse().unwrap();
        let parsed = |text: &str| text.parse().unwrap();
        assert!(is_in(&parsed("/ip4/10.207.1.2/tcp/7474"), range));
        for text in ["/ip4/10.208.1.2/tcp/7474", "/ip6/2001:db8::1/tcp/1", "/dns/hub.example/tcp/1"]
        {
            assert!(!is_in(&parsed(text), range), "{text}");
        }
    }

    #[test]
    fn an_address_survives_the_way_there_and_back() {
        for text in ["/ip4/192.0.2.1/udp/7474/quic-v1", "/ip6/2001:db8::1/tcp/1"] {
            let parsed: Address = text.parse().unwrap();
            let Host::Ip(ip) = parsed.host else { panic!("a name") };
            let there = multiaddr((ip, parsed.port).into(), parsed.transport);
            assert_eq!(there.to_string(), text);
            assert_eq!(address(&there), Some(parsed));
        }
        assert_eq!(address(&"/ip4/192.0.2.1/udp/7474".parse().unwrap()), None);
        assert_eq!(address(&"/memory/7".parse().unwrap()), None);
    }

    #[test]
    fn who_has_come_is_dialled_at_a_port_that_it_listens_on() {
        let own = [
            "/ip4/10.42.0.1/udp/7/quic-v1",
            "/ip4/192.0.2.1/tcp/7",
            "/ip4/192.0.2.1/udp/7/quic-v1",
        ]
        .map(|text| text.parse().unwrap());
        let listens_at = |from: &str| {
            listens_at(&own, &from.parse().unwrap()).map(|address| address.to_string())
        };
        for (from, there) in [
            ("/ip4/192.0.2.1/udp/40000/quic-v1", Some("/ip4/192.0.2.1/udp/7/quic-v1")),
            ("/ip4/192.0.2.1/tcp/40000", Some("/ip4/192.0.2.1/tcp/7")),
            ("/ip4/10.42.0.1/tcp/40000", Some("/ip4/10.42.0.1/udp/7/quic-v1")),
            ("/ip4/198.51.100.1/tcp/40000", None),
        ] {
            assert_eq!(listens_at(from).as_deref(), there, "{from}");
        }
    }

    #[test]
    fn of_many_addresses_the_likeliest_are_kept_in_whatever_order_they_come() {
        let mut own: Vec<Multiaddr> = (0..limits::ADDRESSES)
            .map(|n| format!("/ip4/10.42.{n}.1/tcp/7").parse().unwrap())
            .collect();
        own.push("/ip4/203.0.113.1/tcp/7".parse().unwrap());
        own.push("/ip4/192.168.1.2/tcp/7".parse().unwrap());
        let reached: Address = "/ip4/192.168.1.2/tcp/7".parse().unwrap();
        let kept = plausible(&own, Some(&reached));
        let first = ["/ip4/192.168.1.2/tcp/7", "/ip4/203.0.113.1/tcp/7"];
        assert_eq!([&kept[0], &kept[1]].map(ToString::to_string), first);
        assert_eq!(kept.len(), limits::ADDRESSES);
        own.rotate_left(3);
        assert_eq!(plausible(&own, Some(&reached)), kept);
    }

    #[test]
    fn nobody_sends_us_to_our_own_loopback() {
        let own = ["/ip4/127.0.0.1/tcp/22", "/ip6/fe80::1/tcp/1", "/ip4/192.0.2.1/tcp/1"]
            .map(|text| text.parse().unwrap());
        let far: Address = "/ip4/192.0.2.1/tcp/1".parse().unwrap();
        assert_eq!(plausible(&own, Some(&far)), std::slice::from_ref(&far));
        let near: Address = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
        assert_eq!(plausible(&own, Some(&near)).len(), 2);
    }
}
