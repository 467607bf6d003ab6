//! One peer with a lease: what was agreed with it, and how its link is.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use mercato_agent::TunnelNews;
use mercato_protocol::envelope::Verified;
use mercato_protocol::tunnel::{Gateways, PairSecret};
use mercato_session::PublicKey;

use super::exchange::{Agreement, Exchange, Off};
use crate::limits;

/// One peer with a lease.
pub(super) struct Peer {
    pub(super) exchange: Exchange,
    /// The number of the connection that the exchange knows of.
    pub(super) connection: Option<u64>,
    /// Whether the exchange knows of a lease.
    pub(super) in_force: bool,
    /// Where it was met last: its gateway is looked for there first.
    pub(super) met_at: Option<IpAddr>,
    pub(super) state: State,
    /// Since when a tunnel could be there.
    pub(super) waits_since: Instant,
}

/// What has become of the tunnel with it.
pub(super) enum State {
    /// It can be there, by these.
    Agreed(Agreed),
    /// It cannot be, for now.
    Off(Off),
}

/// What the two have agreed.
pub(super) struct Agreed {
    /// The other side's gateways: the one to be preferred first.
    pub(super) gateways: Vec<Vec<SocketAddr>>,
    pub(super) keys: Vec<PublicKey>,
    pub(super) ranges: BTreeSet<IpNet>,
    pub(super) secret: Arc<PairSecret>,
    /// The link was up since these gateways were agreed on.
    pub(super) was_up: bool,
}

impl Peer {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self {
            exchange,
            connection: None,
            in_force: false,
            met_at: None,
            state: State::Off(Off::NoLease),
            waits_since: Instant::now(),
        }
    }

    /// The two have agreed, anew perhaps.
    pub(super) fn agree(&mut self, list: &Verified<Gateways>, secrets: &Agreement) {
        let key = |gateway: &mercato_protocol::tunnel::Gateway| PublicKey::new(gateway.key.0);
        let keys: Vec<_> = list.gateways.iter().map(key).collect();
        let was_up =
            matches!(&self.state, State::Agreed(before) if before.was_up && before.keys == keys);
        if !was_up {
            self.waits_since = Instant::now();
        }
        self.state = State::Agreed(Agreed {
            gateways: list.gateways.iter().map(|gateway| gateway.addresses.clone()).collect(),
            keys,
            ranges: list.ranges.iter().copied().collect(),
            secret: secrets.begin.clone(),
            was_up,
        });
    }

    /// Where one of its gateways may be, the likeliest first: among the addresses that a machine has
    /// are some by which only its own pods reach it, and another cluster may have the same.
    pub(super) fn nearest_first(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut all = addresses.to_vec();
        all.sort_by_key(|address| Some(address.ip()) != self.met_at);
        all
    }

    pub(super) fn agreed(&self) -> Option<&Agreed> {
        match &self.state {
            State::Agreed(agreed) => Some(agreed),
            State::Off(_) => None,
        }
    }

    /// The link to one of its gateways is up: by this secret.
    pub(super) fn on_up(&mut self, key: &PublicKey) -> Option<Arc<PairSecret>> {
        match &mut self.state {
            State::Agreed(agreed) if agreed.keys.contains(key) => {
                agreed.was_up = true;
                Some(agreed.secret.clone())
            }
            State::Agreed(_) | State::Off(_) => None,
        }
    }

    /// How it is with the tunnel, and why it is not there.
    pub(super) fn news(&self) -> (TunnelNews, Option<String>) {
        let early = self.waits_since.elapsed() < limits::TUNNEL_WAIT;
        match &self.state {
            State::Agreed(agreed) if agreed.was_up => (TunnelNews::Carries, None),
            State::Agreed(_)
            | State::Off(Off::NoLease | Off::Starting | Off::NotMet | Off::NoSecret)
                if early =>
            {
                (TunnelNews::Awaited, None)
            }
            State::Agreed(agreed) => {
                let addresses = agreed.gateways.iter().flatten().map(ToString::to_string);
                let addresses = addresses.collect::<Vec<_>>().join(", ");
                let text = format!(
                    "the other cluster's gateway does not answer at {addresses}: let UDP to one of \
                     the two gateways through (firewall, NAT), and say where it is reached \
                     (gateway.addresses)"
                );
                (TunnelNews::Off, Some(text))
            }
            State::Off(off) => (TunnelNews::Off, Some(off.to_string())),
        }
    }
}
