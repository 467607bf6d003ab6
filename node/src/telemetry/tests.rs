//! The metrics are those that the operator's page names, and the reverse.

use std::collections::BTreeMap;
use std::path::Path;

use mercato_broker::Side;
use mercato_offload::placement::{Stored, StoredBy};
use mercato_protocol::id::ClusterId;
use mercato_protocol::negotiation::State;

use super::scrape::{Facts, Others};
use super::*;
use crate::admin::{NodeTrouble, OwnGateway, TunnelLink, TunnelState};

const PEER: ClusterId = ClusterId([0x4f; 32]);
const BEGIN: &str = "<!-- metrics -->\n";
const END: &str = "<!-- /metrics -->";

fn facts() -> Facts {
    Facts {
        contracts: BTreeMap::from([((Side::Provider, State::Active), 2)]),
        pods: (3, 0),
        offers: 1,
        peers: [("known", 4), ("connected", 1), ("trusted", 0)],
        depth: [(Queue::Inputs, 0), (Queue::LeaseWork, 0), (Queue::Frames, 5)],
        records: BTreeMap::from([("guest", 9)]),
        guest_namespaces: 6,
        waiting: [("commands", 0), ("federation", 1)],
        degraded: true,
    }
}

fn others() -> Others {
    let open = NodeTrouble { node: "n3".to_owned(), reason: "no hooks".to_owned() };
    let gateway = OwnGateway { closed: 2, open: vec![open], ..OwnGateway::default() };
    let tunnels = Some(vec![tunnel(7, Some(12))]);
    let of = Stored { used: 5, bound: 7 };
    let stored = Some(StoredBy { all: Stored { bound: 9, ..of }, buyers: [(PEER, of)].into() });
    Others { kubernetes: Some(true), held: 2, stored, tunnels, gateway: Some(gateway) }
}

fn tunnel(dropped: u64, round_trip_ms: Option<u64>) -> TunnelState {
    TunnelState {
        cluster: PEER,
        link: if round_trip_ms.is_some() { TunnelLink::Up } else { TunnelLink::Down },
        lost: None,
        since_ms: None,
        address: None,
        round_trip_ms,
        reason: None,
        drops: BTreeMap::from([("source".to_owned(), dropped)]),
    }
}

/// One of each.
fn all() -> (Metrics, String) {
    let metrics = Metrics::new();
    metrics.handled(Duration::from_millis(1));
    metrics.committed(true, Duration::from_millis(1));
    metrics.requested("get", "200".to_owned());
    metrics.message(Way::Out, "gossip", 7);
    metrics.dropped(Queue::Frames);
    metrics.refused(&EnvelopeError::Signature);
    metrics.stream(Way::In, true);
    drop(Counted::new((), Way::In, metrics.clone()));
    let text = metrics.text(&facts(), &others()).unwrap();
    (metrics, text)
}

/// What a sample's name has behind the metric's.
fn suffix(kind: &str) -> &'static str {
    match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    }
}

/// The table of the operator's page, made of what is served.
fn table(text: &str) -> String {
    let mut rows: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            rows.entry(name).or_default().1 = help.trim_end_matches('.');
        }
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            rows.entry(name).or_default().0 = kind;
        }
    }
    let row = |(name, (kind, help)): (&str, (&str, &str))| {
        format!("| `{name}{}` | {kind} | {help} |\n", suffix(kind))
    };
    "| metric | kind | what |\n|---|---|---|\n".to_owned()
        + &rows.into_iter().map(row).collect::<String>()
}

#[test]
fn the_operators_page_names_every_metric_and_no_other() {
    let (metrics, text) = all();
    let known = format!("{:?}", metrics.0.registry).matches("Descriptor {").count();
    assert_eq!(text.matches("# TYPE ").count(), known, "this test must count one of each: {text}");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let written = page.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let written = written.map(|(written, _)| written).unwrap_or_default();
    assert_eq!(written, table(&text), "docs/operations.md, between its two marks");
}

#[test]
fn what_happens_is_counted() {
    let (metrics, text) = all();
    for line in [
        "mercato_agent_handle_seconds_count 1",
        "mercato_store_commits_total{result=\"ok\"} 1",
        "mercato_kubernetes_requests_total{verb=\"get\",code=\"200\"} 1",
        "mercato_peer_bytes_total{kind=\"gossip\",direction=\"out\"} 7",
        "mercato_dropped_total{queue=\"frames\"} 1",
        "mercato_publications_refused_total{reason=\"signature\"} 1",
        "mercato_kubelet_streams_open{direction=\"in\"} 0",
        "mercato_contracts{side=\"provider\",state=\"active\"} 2",
        "mercato_contracts{side=\"consumer\",state=\"active\"} 0",
        "mercato_pods{side=\"home\"} 3",
        "mercato_queue_depth{queue=\"frames\"} 5",
        "mercato_store_records{kind=\"guest\"} 9",
        "mercato_guest_namespaces 6",
        "mercato_guest_objects_bound_bytes{} 9",
        "mercato_waiting{of=\"federation\"} 1",
        "mercato_degraded 1",
        "mercato_kubernetes_up{} 1",
        "mercato_isolation_nodes{state=\"closed\"} 2",
        "mercato_isolation_nodes{state=\"open\"} 1",
        "mercato_isolation_proven{} 0",
        "# EOF",
    ] {
        assert!(text.lines().any(|written| written == line), "{line}: {text}");
    }
    for (name, bytes) in [("bytes", 5), ("bound_bytes", 7)] {
        let line = format!("mercato_guest_object_{name}{{buyer=\"{PEER}\"}} {bytes}");
        assert!(text.lines().any(|written| written == line), "{line}: {text}");
    }
    let resident =
        text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    assert!(resident.and_then(|bytes| bytes.parse().ok()).unwrap_or(0) > 1_000_000, "{text}");
    let without = Metrics::new().text(&facts(), &Others::default()).unwrap();
    let of_others = ["kubernetes_up", "bytes{", "isolation_proven{", "isolation_nodes{"];
    assert!(!of_others.iter().any(|of| without.contains(of)), "{without}");
    let _open = Counted::new((), Way::In, metrics.clone());
    let text = metrics.text(&facts(), &Others::default()).unwrap();
    assert!(text.contains("mercato_kubelet_streams_open{direction=\"in\"} 1"), "{text}");
}

#[test]
fn what_tunnels_drop_is_counted_once() {
    let metrics = Metrics::new();
    let text = |tunnels: &[TunnelState]| {
        let others = Others { tunnels: Some(tunnels.to_vec()), ..Others::default() };
        metrics.text(&facts(), &others).unwrap()
    };
    let has = |text: &str, line: String| text.lines().any(|written| written == line);
    let dropped = |n: u64| format!("mercato_tunnel_dropped_packets_total{{reason=\"source\"}} {n}");
    let first = text(&[tunnel(7, Some(12))]);
    assert!(has(&first, dropped(7)), "{first}");
    assert!(has(&first, format!("mercato_tunnel_up{{peer=\"{PEER}\"}} 1")), "{first}");
    let trip = format!("mercato_tunnel_round_trip_seconds{{peer=\"{PEER}\"}} 0.012");
    assert!(has(&first, trip), "{first}");
    let down = text(&[tunnel(9, None)]);
    assert!(has(&down, dropped(9)) && !down.contains("round_trip_seconds{"), "{down}");
    assert!(has(&down, format!("mercato_tunnel_up{{peer=\"{PEER}\"}} 0")), "{down}");
    let unknown = metrics.text(&facts(), &Others::default()).unwrap();
    assert!(has(&unknown, dropped(9)) && !unknown.contains("tunnel_up{"), "{unknown}");
    assert!(has(&text(&[tunnel(9, None)]), dropped(9)), "it is not counted again");
    // Begun anew.
    assert!(has(&text(&[tunnel(2, None)]), dropped(11)));
    let gone = text(&[]);
    assert!(has(&gone, dropped(11)) && !gone.contains("tunnel_up{"), "{gone}");
    assert!(has(&text(&[tunnel(1, None)]), dropped(12)));
}
