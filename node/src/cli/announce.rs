//! `mercato federation dns`: the DNS records that announce a federation.

use mercato_agent::Joined;
use mercato_sources::limits::DNS_ANSWER_BYTES;
use mercato_sources::{Zone, domain_name};

use super::screen::Screen;
use crate::admin::{Class, OperatorApi, Problem};

/// The records that announce a federation.
pub(super) async fn dns(
    api: &dyn OperatorApi,
    screen: &Screen,
    federation: &Joined,
    domain: Option<String>,
    peers: Vec<String>,
) -> Result<String, Problem> {
    let Some(domain) = domain.or_else(|| federation.domain.clone()) else {
        return Err(Problem::new(Class::Usage, "the federation's domain is not known")
            .todo("name it: mercato federation dns alps.example"));
    };
    let usage = |error: &dyn std::error::Error| Problem::new(Class::Usage, error.to_string());
    let domain = domain_name(&domain).map_err(|error| usage(&error))?;
    let daemon = api.status().await?;
    let mut addresses = Vec::new();
    for peer in &peers {
        addresses.extend(mercato_sources::entry(peer).map_err(|error| usage(&error))?.addresses);
    }
    if peers.is_empty() {
        addresses = daemon.addresses.iter().filter_map(|address| address.parse().ok()).collect();
    }
    if addresses.is_empty() {
        return Err(Problem::failed("no address of this daemon can be reached from elsewhere")
            .todo("name clusters that can: mercato federation dns DOMAIN --peer HOST:PORT")
            .todo("or say where others reach this one: mercato run --public-address HOST[:PORT]"));
    }
    let zone = Zone {
        domain: &domain,
        root: &federation.document,
        peers: &addresses,
        label: &label(&daemon.name),
        ttl_s: 3_600,
    };
    if zone.answer_bytes() > usize::from(DNS_ANSWER_BYTES) {
        eprintln!(
            "the answer has {} bytes; some networks lose answers over {DNS_ANSWER_BYTES}: name \
             fewer peers, a handful is enough",
            zone.answer_bytes()
        );
    }
    let lines = zone.lines();
    screen.render(&lines, || lines.clone())
}

/// A cluster's name as a name in DNS.
fn label(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let label: String = name.chars().take(63).map(plain).collect();
    let label = label.trim_matches('-');
    if label.is_empty() { "peer".to_owned() } else { label.to_owned() }
}
