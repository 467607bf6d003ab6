//! Federations that DNS tells of: the root document in a TXT record of `_mercato.DOMAIN`, and
//! the peers in SRV records of `_mercato._udp.DOMAIN` (QUIC) and `_mercato._tcp.DOMAIN`.
//!
//! What DNS says is a hint: the fingerprint of a root is for the owner to compare. The names
//! of peers are resolved when they are dialled, at the same server; writing the records is in
//! `zone`.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use hickory_resolver::{Resolver, TokioResolver};
use mercato_discovery::{Address, Host, Report, Sighting, SightingId, Source, Transport};
use mercato_protocol::envelope::Signed;
use mercato_protocol::federation::Root;
use rand::{Rng, RngExt as _};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::limits;
use crate::zone::{ROOT_PREFIX, root_name, server_name};

/// Why DNS does not tell.
#[derive(Debug, Error)]
pub enum DnsError {
    /// The system names no server.
    #[error("the system's name servers are not known: {0}")]
    System(#[source] NetError),
    /// The text is not a domain name.
    #[error("{0:?} is not a domain name")]
    Domain(String),
    /// No answer came, or a bad one.
    #[error("{name} cannot be looked up at {server}: {source}")]
    Lookup {
        /// The name that was asked for.
        name: String,
        /// Which server was asked, or which of the system's.
        server: String,
        /// Why the query brought no answer.
        source: Box<NetError>,
    },
    /// The name has no root of a federation, or several.
    #[error("{name} has no TXT record of one federation: {why}; asked: {servers}")]
    NoRoot {
        /// The name that was asked for.
        name: String,
        /// What is wrong with the records found.
        why: &'static str,
        /// Who was asked, for people.
        servers: String,
    },
}

/// Asks name servers. Clones share what is remembered.
#[derive(Clone)]
pub struct Dns {
    resolver: TokioResolver,
    /// Which servers are asked, for people.
    servers: String,
}

/// Peers of a domain, now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Where they are, those to be tried first at the front.
    pub addresses: Vec<Address>,
    /// When the records have aged.
    pub until: Instant,
}

/// Follows a domain's records until it is dropped.
pub struct Following {
    task: AbortHandle,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Dns {
    /// Asks the servers that the system names, in `/etc/resolv.conf`.
    pub fn system() -> Result<Self, DnsError> {
        let (config, settings) = read_system_conf().map_err(DnsError::System)?;
        let each: BTreeSet<_> = config.name_servers().iter().map(|it| it.ip.to_string()).collect();
        let each: Vec<_> = each.into_iter().collect();
        let servers = format!("the system's name servers ({})", each.join(", "));
        let builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
        let mut builder = builder.with_options(settings);
        options(builder.options_mut());
        Ok(Self { resolver: builder.build().map_err(DnsError::System)?, servers })
    }

    /// A resolver that asks this server alone.
    pub fn at(server: SocketAddr) -> Result<Self, DnsError> {
        let mut connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
        connections.iter_mut().for_each(|connection| connection.port = server.port());
        let servers = server.to_string();
        let server = NameServerConfig::new(server.ip(), true, connections.into());
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
        options(builder.options_mut());
        Ok(Self { resolver: builder.build().map_err(DnsError::System)?, servers })
    }

    /// The root document of the federation that a domain announces. Nothing of it is checked.
    pub async fn root(&self, domain: &str) -> Result<Signed<Root>, DnsError> {
        let name = root_name(&domain_name(domain)?);
        let no_root =
            |why| DnsError::NoRoot { name: name.clone(), why, servers: self.servers.clone() };
        let Some(lookup) = self.lookup(&name, RecordType::TXT).await? else {
            return Err(no_root("there is none"));
        };
        let mut roots: Vec<String> =
            lookup.answers().iter().filter_map(|record| root_of(&record.data)).collect();
        roots.sort_unstable();
        roots.dedup();
        match roots.as_slice() {
            [root] => {
                let bytes = URL_SAFE_NO_PAD.decode(root).map_err(|_| no_root("it is damaged"))?;
                Ok(Signed::from_bytes(bytes))
            }
            [] => Err(no_root("what is there is of something else")),
            _ => Err(no_root("there are several")),
        }
    }

    /// The peers that a domain names, in the order in which they are to be tried this time:
    /// by priority, and by chance within one, as the weights say (RFC 2782).
    pub async fn peers(&self, domain: &str) -> Result<Peers, DnsError> {
        let domain = domain_name(domain)?;
        let mut until = Instant::now() + *limits::DNS_REFRESH.end();
        let mut ordered = Vec::new();
        for transport in [Transport::Quic, Transport::Tcp] {
            let lookup = self.lookup(&server_name(transport, &domain), RecordType::SRV).await?;
            until = lookup.iter().map(Lookup::valid_until).fold(until, Instant::min);
            let servers = lookup.iter().flat_map(Lookup::answers).filter_map(|record| {
                let RData::SRV(server) = &record.data else { return None };
                Some(server.clone())
            });
            let servers = servers.take(limits::DNS_SERVERS).collect();
            let servers = in_order(servers, &mut rand::rng());
            let addresses = servers.into_iter().enumerate();
            ordered.extend(addresses.filter_map(|(rank, server)| {
                Some((
                    rank,
                    transport,
                    Address { host: host(&server)?, port: server.port, transport },
                ))
            }));
        }
        // Every server by QUIC before the next one, or it by TCP.
        ordered.sort_by_key(|(rank, transport, _)| (*rank, *transport));
        let addresses = ordered.into_iter().map(|(_, _, address)| address).collect();
        Ok(Peers { addresses, until })
    }

    /// The addresses of a host.
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        let host = domain_name(host)?;
        match self.resolver.lookup_ip(format!("{host}.")).await {
            Ok(lookup) => Ok(lookup.iter().collect()),
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(source) => Err(self.failed(host, source)),
        }
    }

    /// Reports a domain's peers, now and whenever its records have aged. While there is no
    /// answer, what was seen before stays.
    pub fn follow(self, domain: String) -> (Following, mpsc::Receiver<Report>) {
        let (send, reports) = mpsc::channel(limits::REPORTS);
        let task = tokio::spawn(async move {
            // Why there was no answer, which is warned of once.
            let mut told: Option<String> = None;
            loop {
                let (report, pause) = match self.peers(&domain).await {
                    Ok(peers) => {
                        told = None;
                        let pause = peers.until.saturating_duration_since(Instant::now());
                        (Some(report(&domain, peers.addresses)), pause)
                    }
                    Err(error) => {
                        let why = error.to_string();
                        if told.as_ref() == Some(&why) {
                            tracing::debug!(domain, why, "the peers of a federation are not found");
                        } else {
                            // Once for each reason.
                            tracing::warn!(domain, why, "the peers of a federation are not found");
                        }
                        told = Some(why);
                        (None, limits::DNS_RETRY)
                    }
                };
                if let Some(report) = report
                    && send.send(report).await.is_err()
                {
                    return;
                }
                tokio::time::sleep(pause.clamp(*limits::DNS_REFRESH.start(), Duration::MAX)).await;
            }
        });
        (Following { task: task.abort_handle() }, reports)
    }

    /// None: there is no such record.
    async fn lookup(&self, name: &str, kind: RecordType) -> Result<Option<Lookup>, DnsError> {
        match self.resolver.lookup(name, kind).await {
            Ok(lookup) => Ok(Some(lookup)),
            Err(error) if error.is_no_records_found() => Ok(None),
            Err(source) => Err(self.failed(name.to_owned(), source)),
        }
    }

    fn failed(&self, name: String, source: NetError) -> DnsError {
        DnsError::Lookup { name, server: self.servers.clone(), source: Box::new(source) }
    }
}

fn options(options: &mut ResolverOpts) {
    options.edns0 = true;
    options.edns_payload_len = limits::DNS_ANSWER_BYTES;
    options.timeout = limits::DNS_TIMEOUT;
    options.use_hosts_file = ResolveHosts::Never;
    // What there is not, there may be a minute later.
    options.negative_max_ttl = Some(limits::DNS_RETRY);
}

/// A domain as it is kept: lower case, without the last dot.
pub fn domain_name(text: &str) -> Result<String, DnsError> {
    match Host::parse(text) {
        Ok(Host::Name(name)) => Ok(name),
        Ok(Host::Ip(_)) | Err(_) => Err(DnsError::Domain(text.chars().take(253).collect())),
    }
}

fn root_of(data: &RData) -> Option<String> {
    let RData::TXT(text) = data else { return None };
    let text = String::from_utf8(text.txt_data.concat()).ok()?;
    text.strip_prefix(ROOT_PREFIX).map(|root| root.trim().to_owned())
}

/// The machine that a record names; none where it says that there is no service.
fn host(server: &SRV) -> Option<Host> {
    let host = Host::parse(&server.target.to_ascii()).ok()?;
    (server.port != 0).then_some(host)
}

fn report(domain: &str, addresses: Vec<Address>) -> Report {
    let id = SightingId { source: Source::Dns, instance: domain.to_owned() };
    if addresses.is_empty() {
        return Report::Gone(id);
    }
    Report::Seen(Sighting { id, peer: None, addresses })
}

/// The lowest priority first; of one priority each server comes first as often as its share
/// of the weights, and one without weight seldom.
fn in_order(mut servers: Vec<SRV>, rng: &mut impl Rng) -> Vec<SRV> {
    // Those without weight at the front: that is how they get their small chance.
    servers.sort_by_key(|server| (server.priority, server.weight != 0, server.weight));
    let mut ordered = Vec::with_capacity(servers.len());
    while let Some(first) = servers.first() {
        let priority = first.priority;
        let equals = servers.iter().take_while(|server| server.priority == priority);
        let total: u32 = equals.map(|server| u32::from(server.weight)).sum();
        let mut left = rng.random_range(0..=total);
        let at = servers.iter().position(|server| {
            let weight = u32::from(server.weight);
            let here = left <= weight;
            left = left.saturating_sub(weight);
            here
        });
        ordered.push(servers.remove(at.unwrap_or(0)));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use hickory_resolver::proto::rr::Name;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    fn server(priority: u16, weight: u16, port: u16) -> SRV {
        SRV::new(priority, weight, port, Name::from_ascii("hub.example.").unwrap())
    }

    #[test]
    fn servers_come_by_priority_and_as_often_as_their_weights_say() {
        let mut rng = StdRng::seed_from_u64(1);
        let (mut first, mut seldom) = (0, 0);
        for _ in 0..4_000 {
            let servers =
                vec![server(20, 100, 9), server(10, 30, 1), server(10, 10, 2), server(10, 0, 3)];
            let ports: Vec<u16> = in_order(servers, &mut rng).iter().map(|one| one.port).collect();
            assert_eq!(ports.len(), 4);
            assert_eq!(ports[3], 9, "{ports:?}");
            first += u32::from(ports[0] == 1);
            seldom += u32::from(ports[0] == 3);
        }
        assert!((2_700..3_200).contains(&first), "three of four: {first}");
        assert!((1..400).contains(&seldom), "{seldom}");
    }

    #[test]
    fn a_domain_is_a_name() {
        assert_eq!(domain_name("Alps.Example.").unwrap(), "alps.example");
        for wrong in ["", "a b", "192.0.2.1", ".", &"a.".repeat(200)] {
            assert!(matches!(domain_name(wrong), Err(DnsError::Domain(_))), "{wrong}");
        }
    }

    #[test]
    fn a_server_that_is_none_is_left_out() {
        assert_eq!(host(&SRV::new(0, 0, 0, Name::root())), None);
        assert_eq!(host(&server(0, 0, 7474)), Some(Host::Name("hub.example".into())));
    }
}
