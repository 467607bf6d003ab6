//! The local network, by multicast DNS: announces us, and reports who else is there.
//!
//! Anybody on the network can announce anything; what is reported is a hint.

use std::net::IpAddr;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mdns_sd::{
    Error, IfKind, IfPredicate, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo,
};
use mercato_discovery::{Address, Host, Report, Sighting, SightingId, Source, Transport};
use mercato_protocol::id::PublicKey;
use thiserror::Error as ThisError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Our own service type; libp2p's `_p2p._udp` has no goodbye.
const SERVICE: &str = "_mercato._udp.local.";
/// Of what peers speak; other versions are not reported.
const VERSION: &str = "1";
/// No answer is cut into fragments: the least IPv6 MTU less its headers.
const PACKET_BYTES: usize = 1_232;
/// Reports that wait for the driver.
const REPORTS: usize = 64;
/// Before browsing again, once the daemon closed a receiver that fell behind.
const BROWSE_AGAIN: Duration = Duration::from_secs(1);
/// For the goodbye to leave.
const GOODBYE: Duration = Duration::from_secs(2);

/// Interfaces of containers, bridges and virtual machines, and loopback; `*` ends a prefix.
pub const DEFAULT_SKIPPED: [&str; 10] =
    ["br-*", "cali*", "cni*", "docker*", "flannel*", "kube-*", "lo", "podman*", "veth*", "virbr*"];

/// What to announce, and where.
#[derive(Clone, Debug)]
pub struct LanConfig {
    /// The public key of this cluster.
    pub peer: PublicKey,
    /// Where we listen for QUIC.
    pub quic_port: Option<u16>,
    /// Where we listen for TCP.
    pub tcp_port: Option<u16>,
    /// Interfaces to leave alone: names, or prefixes that end in `*`. By default
    /// [`DEFAULT_SKIPPED`].
    pub skip: Vec<String>,
}

/// Why the local network cannot be searched.
#[derive(Debug, ThisError)]
#[error("cannot search the local network by multicast DNS")]
pub struct LanError(#[from] Error);

/// The announcement and the search, for as long as it lives.
pub struct Lan {
    daemon: ServiceDaemon,
    browser: JoinHandle<()>,
}

impl Lan {
    /// Announces us under a random name and reports others. Must run within a tokio
    /// runtime.
    pub fn start(config: &LanConfig) -> Result<(Self, mpsc::Receiver<Report>), LanError> {
        let daemon = ServiceDaemon::new()?;
        let skip = config.skip.clone();
        let skipped = IfPredicate::new(move |interface| is_skipped(&skip, &interface.name));
        daemon.disable_interface(IfKind::Predicate(skipped))?;
        daemon.set_max_packet_size(IfKind::All, PACKET_BYTES)?;
        let service = announcement(config, rand::random())?;
        let fullname = service.get_fullname().to_owned();
        daemon.register(service)?;
        let (reports, seen) = mpsc::channel(REPORTS);
        let loopback = !is_skipped(&config.skip, "lo");
        let browser = tokio::spawn(browse(daemon.clone(), fullname, loopback, reports));
        Ok((Self { daemon, browser }, seen))
    }

    /// Sends the goodbye of mDNS, and ends.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        async move {
            // An error says that it has ended.
            if let Ok(ended) = self.daemon.shutdown() {
                let _ = timeout(GOODBYE, ended.recv_async()).await;
            }
        }
        .boxed()
    }
}

impl Drop for Lan {
    /// Says goodbye too, without waiting for it to leave.
    fn drop(&mut self) {
        self.browser.abort();
        // An error says that it has ended.
        let _ = self.daemon.shutdown();
    }
}

fn is_skipped(skip: &[String], name: &str) -> bool {
    skip.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    })
}

fn announcement(config: &LanConfig, random: u64) -> Result<ServiceInfo, Error> {
    let name = format!("{random:016x}");
    let port = |port: Option<u16>| port.map(|port| port.to_string());
    let txt: Vec<(&str, String)> = [
        ("v", Some(VERSION.to_owned())),
        ("id", Some(config.peer.to_string())),
        ("quic", port(config.quic_port)),
        ("tcp", port(config.tcp_port)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect();
    let port = config.quic_port.or(config.tcp_port).unwrap_or_default();
    let host = format!("{name}.local.");
    Ok(ServiceInfo::new(SERVICE, &name, &host, "", port, &txt[..])?.enable_addr_auto())
}

async fn browse(daemon: ServiceDaemon, own: String, loopback: bool, reports: mpsc::Sender<Report>) {
    loop {
        match daemon.browse(SERVICE) {
            Ok(events) => {
                // Ends without a word when we fell behind.
                while let Ok(event) = events.recv_async().await {
                    let Some(report) = report(event, &own, loopback) else { continue };
                    if reports.send(report).await.is_err() {
                        return;
                    }
                }
                tracing::debug!("browsing the local network again");
            }
            Err(Error::Again) => {}
            Err(error) => {
                // Once: it ends with it.
                tracing::warn!(%error, "the local network is no longer searched");
                return;
            }
        }
        sleep(BROWSE_AGAIN).await;
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the library's enum is non-exhaustive")]
fn report(event: ServiceEvent, own: &str, loopback: bool) -> Option<Report> {
    match event {
        ServiceEvent::ServiceResolved(service) if service.get_fullname() != own => {
            sighting(&service, loopback).map(Report::Seen)
        }
        ServiceEvent::ServiceRemoved(_, name) if name != own => Some(Report::Gone(id(&name))),
        _ => None,
    }
}

fn id(fullname: &str) -> SightingId {
    SightingId { source: Source::Lan, instance: fullname.to_owned() }
}

/// `None` for what is not ours to understand.
fn sighting(service: &ResolvedService, loopback: bool) -> Option<Sighting> {
    let txt = |key| service.get_property_val_str(key);
    if txt("v") != Some(VERSION) {
        tracing::debug!(name = service.get_fullname(), "speaks another version");
        return None;
    }
    let peer = txt("id")?.parse().ok()?;
    let port = |key| txt(key).and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    let ports = [(Transport::Quic, port("quic")), (Transport::Tcp, port("tcp"))];
    let mut hosts: Vec<IpAddr> = service
        .get_addresses()
        .iter()
        .map(mdns_sd::ScopedIp::to_ip_addr)
        .filter(|ip| is_dialable(*ip, loopback))
        .collect();
    hosts.sort();
    let addresses: Vec<Address> = hosts
        .into_iter()
        .flat_map(|ip| {
            ports.into_iter().filter_map(move |(transport, port)| {
                Some(Address { host: Host::Ip(ip), port: port?, transport })
            })
        })
        .collect();
    let id = id(service.get_fullname());
    (!addresses.is_empty()).then_some(Sighting { id, peer: Some(peer), addresses })
}

/// Link-local IPv6 needs a zone, which a multiaddr for QUIC or TCP does not carry. And
/// nobody on the network may send us to our own loopback.
fn is_dialable(ip: IpAddr, loopback: bool) -> bool {
    let link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !link_local && !ip.is_unspecified() && !ip.is_multicast() && (loopback || !ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> LanConfig {
        let skip = DEFAULT_SKIPPED.map(str::to_owned).to_vec();
        LanConfig { peer: PublicKey([7; 32]), quic_port: Some(7474), tcp_port: Some(7475), skip }
    }

    fn seen(txt: &[(&str, &str)], ips: &str) -> Option<Sighting> {
        let service = ServiceInfo::new(SERVICE, "x", "x.local.", ips, 1, txt).unwrap();
        sighting(&service.as_resolved_service(), false)
    }

    #[test]
    fn containers_and_bridges_are_skipped() {
        let skip = config().skip;
        for name in ["docker0", "br-12ab", "veth9", "cni0", "flannel.1", "cali12", "virbr0", "lo"] {
            assert!(is_skipped(&skip, name), "{name}");
        }
        for name in ["eth0", "enp3s0", "wlan0", "br0", "loc0", "bond0"] {
            assert!(!is_skipped(&skip, name), "{name}");
        }
        assert!(!is_skipped(&[], "lo"));
    }

    #[test]
    fn what_we_announce_we_understand() {
        let service = announcement(&config(), 7).unwrap();
        assert_eq!(service.get_fullname(), "0000000000000007._mercato._udp.local.");
        let txt: Vec<(&str, &str)> =
            service.get_properties().iter().map(|txt| (txt.key(), txt.val_str())).collect();
        let sighting = seen(&txt, "192.0.2.2,192.0.2.1,fe80::1,127.0.0.1").unwrap();
        assert_eq!(sighting.peer, Some(PublicKey([7; 32])));
        let addresses: Vec<String> = sighting.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(
            addresses,
            [
                "/ip4/192.0.2.1/udp/7474/quic-v1",
                "/ip4/192.0.2.1/tcp/7475",
                "/ip4/192.0.2.2/udp/7474/quic-v1",
                "/ip4/192.0.2.2/tcp/7475",
            ]
        );
        let bytes: usize = txt.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
        assert!(bytes < 200, "{bytes} of {PACKET_BYTES}");
    }

    #[test]
    fn nonsense_is_not_reported() {
        let key = PublicKey([7; 32]).to_string();
        let good = [("v", "1"), ("id", key.as_str()), ("tcp", "1")];
        assert!(seen(&good, "192.0.2.1").is_some());
        for (field, value) in [("v", "2"), ("id", "7"), ("tcp", "0"), ("tcp", "70000"), ("tcp", "")]
        {
            let bad = good.map(|(key, old)| (key, if key == field { value } else { old }));
            assert_eq!(seen(&bad, "192.0.2.1"), None, "{field}={value}");
        }
        assert_eq!(seen(&good, "127.0.0.1"), None);
        assert_eq!(seen(&good[1..], "192.0.2.1"), None);
    }
}
