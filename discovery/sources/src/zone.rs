//! The DNS records that announce a federation, as the lines of a zone file (RFC 1035). Looking
//! them up is in `dns`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mercato_discovery::{Address, Host, Transport};
use mercato_protocol::envelope::Signed;
use mercato_protocol::federation::Root;

/// What a TXT record with a root document begins with.
pub(crate) const ROOT_PREFIX: &str = "v=mercato1 root=";
/// One string of a TXT record (RFC 1035, section 3.3).
const STRING_BYTES: usize = 255;

/// Who finds a federation by DNS finds these.
pub struct Zone<'a> {
    /// The domain, without its last dot.
    pub domain: &'a str,
    /// The federation's first document, signed by its root.
    pub root: &'a Signed<Root>,
    /// Where its peers are. A number gets the name `label` in the domain.
    pub peers: &'a [Address],
    /// The name of the machine whose numbers are among the peers.
    pub label: &'a str,
    /// How long the records may be kept, in seconds.
    pub ttl_s: u32,
}

/// The name of the TXT record; names end in a dot, so that no search list is tried.
pub(crate) fn root_name(domain: &str) -> String {
    format!("_mercato.{domain}.")
}

/// The name of the SRV records of a transport.
pub(crate) fn server_name(transport: Transport, domain: &str) -> String {
    match transport {
        Transport::Quic => format!("_mercato._udp.{domain}."),
        Transport::Tcp => format!("_mercato._tcp.{domain}."),
    }
}

impl Zone<'_> {
    /// The records, a line each.
    pub fn lines(&self) -> String {
        let mut text = format!("$TTL {}\n", self.ttl_s);
        let root = format!("{ROOT_PREFIX}{}", URL_SAFE_NO_PAD.encode(self.root.as_bytes()));
        let strings = root.as_bytes().chunks(STRING_BYTES).map(String::from_utf8_lossy);
        let strings: Vec<String> = strings.map(|string| format!("\"{string}\"")).collect();
        line(&mut text, &root_name(self.domain), "TXT", &strings.join(" "));
        let mut numbers = BTreeSet::new();
        for transport in [Transport::Quic, Transport::Tcp] {
            let name = server_name(transport, self.domain);
            for (port, target) in self.servers(transport) {
                line(&mut text, &name, "SRV", &format!("10 10 {port} {target}"));
            }
        }
        for peer in self.peers {
            if let Host::Ip(ip) = &peer.host {
                numbers.insert(*ip);
            }
        }
        for ip in numbers {
            let kind = if ip.is_ipv4() { "A" } else { "AAAA" };
            line(&mut text, &self.own_name(), kind, &ip.to_string());
        }
        text
    }

    /// Bytes of the largest answer: beyond 1,232 it comes by TCP, and some networks lose it.
    pub fn answer_bytes(&self) -> usize {
        let answer = |transport| {
            let name = server_name(transport, self.domain);
            // Each with a pointer to the name, and ten bytes before its data.
            let records = self
                .servers(transport)
                .iter()
                .map(|(_, to)| 2 + 10 + 6 + to.len() + 1)
                .sum::<usize>();
            HEADER_BYTES + name.len() + 1 + records
        };
        answer(Transport::Quic).max(answer(Transport::Tcp))
    }

    fn servers(&self, transport: Transport) -> BTreeSet<(u16, String)> {
        let peers = self.peers.iter().filter(|peer| peer.transport == transport);
        let target = |host: &Host| match host {
            Host::Name(name) => format!("{name}."),
            Host::Ip(_) => self.own_name(),
        };
        peers.map(|peer| (peer.port, target(&peer.host))).collect()
    }

    fn own_name(&self) -> String {
        format!("{}.{}.", self.label, self.domain)
    }
}

/// The header, the rest of the question, and the OPT record.
const HEADER_BYTES: usize = 12 + 4 + 11;

fn line(text: &mut String, name: &str, kind: &str, data: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{name} IN {kind} {data}");
}
