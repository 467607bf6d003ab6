//! What people see of the tunnels.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_session::{DropReason, Link, PeerState, PublicKey};
use mercato_tunnel::{GatewayHandle, Traffic};

use crate::admin::{OwnGateway, TunnelLink, TunnelState, Tunnels};
use crate::driver::clock::wall_ms;
use crate::limits;

/// What people see of the tunnels, as the gateway's task knows it.
pub(crate) struct Seen {
    own: OwnGateway,
    now: Mutex<Now>,
}

/// What they see of them now.
#[derive(Clone, Default)]
pub(super) struct Now {
    pub(super) peers: Vec<PeerSeen>,
    pub(super) gateway: Option<GatewayHandle>,
}

/// A peer with a lease.
#[derive(Clone)]
pub(super) struct PeerSeen {
    pub(super) cluster: ClusterId,
    pub(super) keys: Vec<PublicKey>,
    pub(super) leases: Vec<ContractId>,
    /// Why there is no tunnel, if so.
    pub(super) reason: Option<String>,
}

impl Seen {
    pub(super) fn new(own: OwnGateway) -> Self {
        Self { own, now: Mutex::default() }
    }

    /// It is so from now on.
    pub(super) fn set(&self, now: Now) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl Tunnels for Seen {
    fn states(&self) -> BoxFuture<'static, Vec<TunnelState>> {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if now.peers.is_empty() {
            return ready(Vec::new()).boxed();
        }
        // A gateway answers within milliseconds, but waiting for it is waiting.
        async move { tokio::task::spawn_blocking(move || states(now)).await.unwrap_or_default() }
            .boxed()
    }

    fn own(&self) -> OwnGateway {
        self.own.clone()
    }
}

fn states(now: Now) -> Vec<TunnelState> {
    let Now { peers, gateway } = now;
    let known = gateway.as_ref().and_then(|gateway| gateway.peers(limits::TUNNEL_ANSWER).ok());
    let traffic = gateway.as_ref().and_then(|gateway| gateway.traffic().ok());
    let (known, traffic) = (known.unwrap_or_default(), traffic.unwrap_or_default());
    peers.into_iter().map(|peer| state(peer, &known, &traffic)).collect()
}

fn state(peer: PeerSeen, known: &[PeerState], traffic: &Traffic) -> TunnelState {
    let PeerSeen { cluster, keys, leases, reason } = peer;
    let known = known.iter().find(|known| keys.contains(&known.key));
    let link = known.map_or(TunnelLink::None, |known| match known.link {
        Link::Up => TunnelLink::Up,
        Link::Down => TunnelLink::Down,
    });
    let millis = |duration: std::time::Duration| duration.as_millis() as u64;
    let since = known.and_then(|known| known.since);
    let mut drops = BTreeMap::new();
    for counters in leases.iter().filter_map(|lease| traffic.leases.get(lease)) {
        for why in DropReason::ALL {
            let packets =
                counters.outbound.dropped(why).packets + counters.inbound.dropped(why).packets;
            if packets > 0 {
                *drops.entry(why.to_string()).or_default() += packets;
            }
        }
    }
    TunnelState {
        cluster,
        link,
        since_ms: since.map(|since| wall_ms().saturating_sub(millis(since))),
        address: known.and_then(|known| known.address),
        round_trip_ms: known.and_then(|known| known.round_trip).map(millis),
        reason,
        drops,
    }
}
