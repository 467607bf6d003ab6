//! What is told of tunnels, from what is known of them at the moment when it is asked for.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use mercato_protocol::id::ClusterId;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{Counters, Gauges, Labels, add};
use crate::admin::{OwnGateway, TunnelLink, TunnelState};

/// The metrics of tunnels. Those of a peer go with the last lease.
pub(super) struct Tunnels {
    up: Gauges<1>,
    round_trip: Family<Labels<1>, Gauge<f64, AtomicU64>>,
    drops: Counters<1>,
    closing: Gauges<1>,
    /// Without labels, and without a value where there is no gateway.
    isolates: Gauges<0>,
    api_connections: Gauges<0>,
    api_refused: Counters<0>,
    api_counted: u64,
    /// What each tunnel had dropped when that was last counted, by reason.
    counted: BTreeMap<ClusterId, BTreeMap<String, u64>>,
}

impl Tunnels {
    pub(super) fn register(all: &mut Registry) -> Self {
        let up = "1 while the tunnel to a peer with a contract in force is up, by its fingerprint";
        let drops = "Packets that passed no tunnel, by reason";
        let nodes = "Nodes by whether guests are closed there: closed, open";
        let isolates = "1 while guests are closed wherever they may run, and may be sold so";
        let api = "Connections of guests elsewhere to this cluster's API server";
        let refused = "Connections to this cluster's API server that were refused at the gateway";
        let trip = "Last round trip of tunnels, by the fingerprint of the peer";
        Self {
            up: add(all, "tunnel_up", up, Family::default()),
            round_trip: add(all, "tunnel_round_trip_seconds", trip, Family::default()),
            drops: add(all, "tunnel_dropped_packets", drops, Family::default()),
            closing: add(all, "isolation_nodes", nodes, Family::default()),
            isolates: add(all, "isolation_proven", isolates, Family::default()),
            api_connections: add(all, "home_api_connections", api, Family::default()),
            api_refused: add(all, "home_api_refused_connections", refused, Family::default()),
            api_counted: 0,
            counted: BTreeMap::new(),
        }
    }

    /// Sets what is told of this cluster's own nodes; without a gateway nothing is.
    pub(super) fn set_own(&mut self, own: Option<&OwnGateway>) {
        self.closing.clear();
        self.isolates.clear();
        self.api_connections.clear();
        let Some(own) = own else { return };
        for (state, nodes) in [("closed", own.closed), ("open", own.open.len())] {
            let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
            self.closing.get_or_create(&[("state", state.to_owned())]).set(nodes);
        }
        self.isolates.get_or_create(&[]).set(i64::from(own.isolates));
        let connections = i64::try_from(own.api.connections).unwrap_or(i64::MAX);
        self.api_connections.get_or_create(&[]).set(connections);
        let refused = own.api.refused;
        self.api_refused.get_or_create(&[]).inc_by(refused.saturating_sub(self.api_counted));
        self.api_counted = refused;
    }

    /// Sets them; without tunnels what is known of them was not told.
    pub(super) fn set(&mut self, tunnels: Option<&[TunnelState]>) {
        self.up.clear();
        self.round_trip.clear();
        let Some(tunnels) = tunnels else { return };
        for tunnel in tunnels {
            let peer = [("peer", tunnel.cluster.to_string())];
            let is_up = tunnel.link == TunnelLink::Up;
            self.up.get_or_create(&peer).set(i64::from(is_up));
            if let Some(ms) = tunnel.round_trip_ms.filter(|_| is_up) {
                let seconds = std::time::Duration::from_millis(ms).as_secs_f64();
                self.round_trip.get_or_create(&peer).set(seconds);
            }
            let before = self.counted.insert(tunnel.cluster, tunnel.drops.clone());
            let before = before.unwrap_or_default();
            for (reason, count) in &tunnel.drops {
                // A tunnel that begins anew counts from zero.
                let counted = before.get(reason).copied().filter(|before| before <= count);
                let more = count - counted.unwrap_or(0);
                self.drops.get_or_create(&[("reason", reason.clone())]).inc_by(more);
            }
        }
        self.counted.retain(|peer, _| tunnels.iter().any(|tunnel| tunnel.cluster == *peer));
    }
}
