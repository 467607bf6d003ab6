//! What people see of the tunnels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_session::{DropReason, Link, Lost, PeerState, PublicKey};
use mercato_tunnel::{GatewayHandle, Traffic};

use crate::admin::{OwnGateway, TunnelLink, TunnelLost, TunnelState, Tunnels};
use crate::driver::clock::wall_ms;
use crate::limits;

/// What people see of the tunnels, as the gateway's task knows it.
pub(crate) struct Seen {
    now: Mutex<Now>,
    /// Since when each tunnel is as it is, as it was told: of a duration and a clock it would be
    /// another millisecond each time.
    since: Arc<Mutex<BTreeMap<ClusterId, u64>>>,
}

/// What they see of them now.
#[derive(Clone, Default)]
pub(super) struct Now {
    /// This cluster's end of them.
    pub(super) own: OwnGateway,
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
        let now = Now { own, ..Now::default() };
        Self { now: Mutex::new(now), since: Arc::default() }
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
        let since = self.since.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let mut states = states(now);
            steady(&mut states, &mut since.lock().unwrap_or_else(PoisonError::into_inner));
            states
        });
        async move { asked.await.unwrap_or_default() }.boxed()
    }

    fn own(&self) -> OwnGateway {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).own.clone()
    }
}

/// Times that differ by less than a link takes to come up and go are one.
fn steady(states: &mut [TunnelState], told: &mut BTreeMap<ClusterId, u64>) {
    let now: BTreeMap<ClusterId, u64> = states
        .iter_mut()
        .filter_map(|state| {
            let since = state.since_ms.as_mut()?;
            let before = told.get(&state.cluster).copied();
            *since = before.filter(|it| it.abs_diff(*since) < 500).unwrap_or(*since);
            Some((state.cluster, *since))
        })
        .collect();
    *told = now;
}

fn states(now: Now) -> Vec<TunnelState> {
    let Now { peers, gateway, .. } = now;
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
    let lost = known.and_then(|known| known.lost).map(|lost| match lost {
        Lost::FromPeer => TunnelLost::FromPeer,
        Lost::ToPeer => TunnelLost::ToPeer,
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
        lost,
        since_ms: since.map(|since| wall_ms().saturating_sub(millis(since))),
        address: known.and_then(|known| known.address),
        round_trip_ms: known.and_then(|known| known.round_trip).map(millis),
        reason,
        drops,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_stays_as_it_was_told_until_it_is_another() {
        let of = |since_ms| TunnelState {
            cluster: ClusterId([1; 32]),
            link: TunnelLink::Up,
            lost: None,
            since_ms: Some(since_ms),
            address: None,
            round_trip_ms: None,
            reason: None,
            drops: BTreeMap::new(),
        };
        let mut told = BTreeMap::new();
        let shown = [10_000, 10_001, 9_999, 40_000].map(|since_ms| {
            let mut states = [of(since_ms)];
            steady(&mut states, &mut told);
            states[0].since_ms
        });
        assert_eq!(shown, [10_000, 10_000, 10_000, 40_000].map(Some));
    }
}
