//! How tunnels are shown: a column of the peers, and a table of their own on the overview.

use mercato_kubelet::names::{GATEWAY, GATEWAY_OFF};
use mercato_protocol::text::shown;

use super::global::now_ms;
use super::table::{Table, wrapped};
use crate::admin::{Deal, NodeTrouble, OwnGateway, Peer, TunnelLink, TunnelState};
use crate::present::text::{round_trip, span};

/// The tunnels, with what keeps those that are not up from it.
pub(super) fn section(
    tunnels: &[TunnelState],
    peers: &[Peer],
    deals: &[Deal],
    wide: bool,
) -> String {
    let name = |tunnel: &TunnelState| {
        let cluster = tunnel.cluster;
        let peer = peers.iter().find(|peer| peer.cluster == Some(cluster));
        let deal = || deals.iter().find(|deal| deal.peer == cluster);
        let name = peer.and_then(|peer| peer.name.clone());
        name.or_else(|| deal()?.peer_name.clone()).unwrap_or_else(|| cluster.short())
    };
    let mut table = Table::new(["TUNNEL TO", "LINK", "SINCE", "RTT", "DROPPED", "ADDRESS"]);
    let mut reasons = String::new();
    for tunnel in tunnels {
        let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let dropped = tunnel.drops.values().fold(0, |sum: u64, more| sum.saturating_add(*more));
        table.row([
            name(tunnel),
            link(Some(tunnel)).to_owned(),
            dash(tunnel.since_ms.map(|since_ms| span(now_ms().saturating_sub(since_ms)))),
            dash(tunnel.round_trip_ms.map(|ms| round_trip(ms.saturating_mul(1_000)))),
            dropped.to_string(),
            dash(tunnel.address.map(|address| address.to_string())),
        ]);
        if let Some(reason) = tunnel.reason.as_ref().filter(|_| tunnel.link != TunnelLink::Up) {
            let text = format!("{}: {}", shown(&name(tunnel)), shown(reason));
            reasons += &format!("  {}\n", wrapped(&text, 4));
        }
    }
    if table.is_empty() { String::new() } else { format!("\n{}{reasons}", table.render(wide)) }
}

/// A word for the tunnel to a peer.
pub(super) fn link(tunnel: Option<&TunnelState>) -> &'static str {
    match tunnel.map(|tunnel| tunnel.link) {
        Some(TunnelLink::Up) => "up",
        Some(TunnelLink::Down) => "down",
        Some(TunnelLink::None) => "none",
        None => "-",
    }
}

/// This cluster's own gateway, in a line.
pub(super) fn gateway(own: &OwnGateway) -> String {
    if !own.enabled {
        let why = own.reason.as_ref().map(|why| format!(": {}", shown(why)));
        return format!("off{}", why.unwrap_or_default());
    }
    let at = own.port.map_or("no port".to_owned(), |port| format!("UDP port {port}"));
    let pool = own.pool.map(|pool| format!(", pods as {pool}"));
    let second = own.pool_v6.map(|pool| format!(" and {pool}"));
    let alone = own.reason_v6.as_ref().map(|why| format!("; by IPv4 alone: {}", shown(why)));
    let why = own.reason.as_ref().map(|why| format!("; {}", shown(why)));
    let of_nodes = own.cut_off.first().map(|NodeTrouble { node, reason }| {
        let more = more(own.cut_off.len());
        format!("; not for pods on {}{more}: {}", shown(node), shown(reason))
    });
    let left_out = own.left_out.first().map(|node| {
        let more = more(own.left_out.len());
        format!("; without {}{more}, by the label {GATEWAY}={GATEWAY_OFF}", shown(node))
    });
    let untold = own.untold.first().map(|NodeTrouble { node, reason }| {
        let more = more(own.untold.len());
        format!("; not all of leases is told to {}{more}: {}", shown(node), shown(reason))
    });
    let of_nodes = [of_nodes, untold, left_out];
    [Some(at), pool, second, why, alone].into_iter().chain(of_nodes).flatten().collect()
}

/// Whether guests are closed wherever they may run, and told names there by us, in a line.
pub(super) fn isolation(own: &OwnGateway) -> String {
    let lack = |what: &str, on: &[NodeTrouble]| {
        let NodeTrouble { node, reason } = on.first()?;
        Some(format!("{what} on {}{}: {}", shown(node), more(on.len()), shown(reason)))
    };
    let open = lack("guests are not closed", &own.open);
    let unnamed = lack("guests are told no names of their home", &own.unnamed);
    let lacks: Vec<_> = open.into_iter().chain(unnamed).collect();
    if lacks.is_empty() {
        return match own.closed {
            1 => "guests are closed on the one node: required can be sold".to_owned(),
            all => format!("guests are closed on all {all} nodes: required can be sold"),
        };
    }
    let sold = if own.isolates { "for a moment" } else { "required is not sold" };
    format!("{sold}: {}", lacks.join("; "))
}

/// Who is not named of so many.
fn more(of: usize) -> String {
    match of.saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more: mercato doctor)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_isolation_from_being_sold_is_named() {
        let open = |node: &str| NodeTrouble { node: node.into(), reason: "no hooks".into() };
        let mut own = OwnGateway { closed: 1, isolates: true, ..OwnGateway::default() };
        assert!(isolation(&own).contains("on the one node: required can be sold"));
        own.open = vec![open("n2"), open("n3")];
        assert!(isolation(&own).starts_with("for a moment: "), "{}", isolation(&own));
        own.isolates = false;
        assert_eq!(
            isolation(&own),
            "required is not sold: guests are not closed on n2 (and 1 more: mercato doctor): no hooks"
        );
        own.unnamed = vec![open("n4")];
        assert!(
            isolation(&own)
                .ends_with("no hooks; guests are told no names of their home on n4: no hooks")
        );
        own.open = vec![];
        assert_eq!(
            isolation(&own),
            "required is not sold: guests are told no names of their home on n4: no hooks"
        );
    }
}
