//! One peer with a lease: what was agreed with it, and how its link is.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use mercato_agent::TunnelNews;
use mercato_protocol::envelope::Verified;
use mercato_protocol::tunnel::{Gateways, PairSecret};
use mercato_session::limits::LINK_DOWN_MS;
use mercato_session::{Lost, PeerState, PublicKey};

use super::exchange::{Agreement, Exchange, Off};
use super::loss::Loss;
use super::words::SaidPeer;
use crate::limits;

/// One peer with a lease.
pub(super) struct Peer {
    pub(super) exchange: Exchange,
    /// The connection that the exchange knows of.
    pub(super) connection: Option<SaidPeer>,
    /// Whether the exchange knows of a lease.
    pub(super) in_force: bool,
    /// Where it was met last: its gateway is looked for there first.
    pub(super) met_at: Option<IpAddr>,
    pub(super) state: State,
    /// Since when a tunnel could be there.
    pub(super) waits_since: Instant,
    /// Which way packets are lost, if none of its gateways is reached.
    loss: Option<Loss>,
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
    /// A link was up since these gateways were agreed on.
    pub(super) was_up: bool,
    /// To which of them one is up.
    up: BTreeSet<PublicKey>,
    /// Since when none is up any more, if so.
    down_since: Option<Instant>,
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
            loss: None,
        }
    }

    /// The two have agreed, anew perhaps.
    pub(super) fn agree(&mut self, list: &Verified<Gateways>, secrets: &Agreement) {
        let key = |gateway: &mercato_protocol::tunnel::Gateway| PublicKey::new(gateway.key.0);
        let keys: Vec<_> = list.gateways.iter().map(key).collect();
        let before = self.agreed().filter(|before| before.keys == keys);
        let was_up = before.is_some_and(|before| before.was_up);
        let up = before.map(|before| before.up.clone()).unwrap_or_default();
        let down_since = before.and_then(|before| before.down_since);
        if !was_up {
            self.waits_since = Instant::now();
        }
        self.state = State::Agreed(Agreed {
            gateways: list.gateways.iter().map(|gateway| gateway.addresses.clone()).collect(),
            keys,
            ranges: list.ranges.iter().copied().collect(),
            secret: secrets.begin.clone(),
            was_up,
            up,
            down_since,
        });
    }

    /// One that has agreed on gateways of these keys.
    #[cfg(test)]
    pub(super) fn with_keys(keys: &[PublicKey]) -> Self {
        let exchange = Exchange::new(tests::OWN, tests::OTHER, super::exchange::Pair::default());
        let agreed = Agreed { keys: keys.to_vec(), ..tests::agreed(false) };
        Self { state: State::Agreed(agreed), ..Self::new(exchange) }
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

    /// The link to one of its gateways is up: by this secret. None if it names that one no more.
    pub(super) fn on_up(&mut self, key: &PublicKey) -> Option<Arc<PairSecret>> {
        match &mut self.state {
            State::Agreed(agreed) if agreed.keys.contains(key) => {
                (agreed.was_up, agreed.down_since) = (true, None);
                agreed.up.insert(*key);
                Some(agreed.secret.clone())
            }
            State::Agreed(_) | State::Off(_) => None,
        }
    }

    /// The link to one of its gateways is up no longer.
    pub(super) fn on_down(&mut self, key: &PublicKey) {
        match &mut self.state {
            State::Agreed(agreed) if agreed.keys.contains(key) => {
                agreed.up.remove(key);
                if agreed.up.is_empty() {
                    agreed.down_since.get_or_insert_with(Instant::now);
                }
            }
            State::Agreed(_) | State::Off(_) => {}
        }
    }

    /// Whether the links to its gateways are down, as far as there are any.
    pub(super) fn is_apart(&self) -> bool {
        self.agreed().is_some_and(|agreed| agreed.up.is_empty())
    }

    /// What is known of all gateways, if something is; this cluster's own is at this port.
    pub(super) fn learn(&mut self, known: &[PeerState], own_port: u16) {
        self.loss = self.agreed().and_then(|agreed| Loss::of(&agreed.keys, known, own_port));
    }

    /// Why no packets pass now, though they may again at any time: sooner than that is
    /// [news](Self::news).
    pub(super) fn why(&self) -> Option<String> {
        let agreed = self.agreed().filter(|agreed| agreed.was_up && agreed.down_since.is_some())?;
        Some(agreed.apart(self.loss))
    }

    /// How long ago a packet is known to have arrived at one of its gateways, if the links to them
    /// are down.
    pub(super) fn silent(&self) -> Option<Duration> {
        let down = self.agreed().filter(|agreed| agreed.was_up)?.down_since?.elapsed();
        Some(down + Duration::from_millis(LINK_DOWN_MS))
    }

    /// How it is with the tunnel, and why packets do not pass.
    pub(super) fn news(&self) -> (TunnelNews, Option<String>) {
        let early = self.waits_since.elapsed() < limits::TUNNEL_WAIT;
        match &self.state {
            State::Agreed(agreed) if agreed.was_up => {
                let is_long = |silent| silent >= limits::TUNNEL_DOWN;
                let is_down = self.silent().is_some_and(is_long);
                (TunnelNews::Carries, is_down.then(|| agreed.apart(self.loss)))
            }
            State::Agreed(_)
            | State::Off(Off::NoLease | Off::Starting | Off::NotMet | Off::NoSecret)
                if early =>
            {
                (TunnelNews::Awaited, None)
            }
            State::Agreed(agreed) => (TunnelNews::Off, Some(agreed.apart(self.loss))),
            State::Off(off) => (TunnelNews::Off, Some(off.to_string())),
        }
    }
}

impl Agreed {
    /// Which way packets are lost, where that is known. A gateway that is not the one that is called
    /// says nothing, so that nobody can tell the one cause from the other before a link was up.
    fn apart(&self, loss: Option<Loss>) -> String {
        let addresses: Vec<_> = self.gateways.iter().flatten().copied().collect();
        if let Some(loss) = loss.filter(|loss| self.was_up || loss.lost == Lost::ToPeer) {
            return loss.text(&addresses);
        }
        let addresses = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        format!(
            "the other cluster's gateway does not answer at {addresses}: UDP is dropped on the way, \
             or another gateway is there; let UDP to one of the two gateways through (firewall, \
             NAT), and have its owner say where it is reached (gateway.addresses)"
        )
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ClusterId;
    use zeroize::Zeroizing;

    use super::*;

    const KEY: PublicKey = PublicKey::new([9; 32]);

    pub(super) const OWN: ClusterId = ClusterId([1; 32]);
    pub(super) const OTHER: ClusterId = ClusterId([2; 32]);

    pub(super) fn agreed(was_up: bool) -> Agreed {
        Agreed {
            gateways: vec![vec!["192.0.2.7:7475".parse().unwrap()]],
            keys: vec![KEY],
            ranges: BTreeSet::new(),
            secret: Arc::new(PairSecret::new(Zeroizing::new([3; 32]))),
            was_up,
            up: BTreeSet::new(),
            down_since: None,
        }
    }

    fn peer(was_up: bool) -> Peer {
        Peer { state: State::Agreed(agreed(was_up)), ..Peer::with_keys(&[KEY]) }
    }

    /// As if so much time had passed.
    fn passes(peer: &mut Peer, time: Duration) {
        peer.waits_since = peer.waits_since.checked_sub(time).unwrap();
        if let State::Agreed(agreed) = &mut peer.state {
            agreed.down_since = agreed.down_since.map(|at| at.checked_sub(time).unwrap());
        }
    }

    #[test]
    fn a_gateway_that_never_answers_is_waited_for_no_longer_than_that() {
        let mut peer = peer(false);
        assert_eq!(peer.news(), (TunnelNews::Awaited, None));
        passes(&mut peer, limits::TUNNEL_WAIT);
        let (news, why) = peer.news();
        let why = why.unwrap();
        assert_eq!(news, TunnelNews::Off);
        for part in ["at 192.0.2.7:7475", "another gateway", "firewall", "gateway.addresses"] {
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn a_link_that_is_down_for_long_is_told_and_takes_no_address() {
        let mut peer = peer(true);
        passes(&mut peer, limits::TUNNEL_WAIT);
        assert_eq!(peer.news(), (TunnelNews::Carries, None));
        peer.on_down(&PublicKey::new([8; 32]));
        peer.on_down(&KEY);
        assert_eq!(peer.news(), (TunnelNews::Carries, None), "it may be back at once");
        assert!(peer.why().is_some(), "who asks is told at once");
        passes(&mut peer, limits::TUNNEL_DOWN - Duration::from_millis(LINK_DOWN_MS));
        peer.on_down(&KEY);
        assert!(matches!(peer.news(), (TunnelNews::Carries, Some(_))));
        peer.on_up(&KEY);
        assert_eq!((peer.news(), peer.why()), ((TunnelNews::Carries, None), None));
    }

    #[test]
    fn which_way_packets_are_lost_is_told_as_far_as_it_is_known() {
        // Whether there was a link, which way is known, and what is told of it.
        for (was_up, lost, part) in [
            (true, None, "does not answer"),
            (true, Some(Lost::FromPeer), "nothing comes from"),
            (true, Some(Lost::ToPeer), "though that one is heard"),
            (false, Some(Lost::FromPeer), "another gateway is there"),
            (false, Some(Lost::ToPeer), "though that one is heard"),
        ] {
            let mut peer = peer(was_up);
            peer.loss = lost.map(|lost| Loss { lost, own_port: 7475 });
            peer.on_down(&KEY);
            passes(&mut peer, limits::TUNNEL_DOWN);
            assert!(peer.is_apart());
            let why = peer.news().1.unwrap();
            assert!(why.contains(part), "{why}");
            peer.learn(&[], 7475);
            assert_eq!(peer.loss, None, "nothing is known any more");
        }
    }

    #[test]
    fn as_long_as_one_gateway_is_there_the_peer_is_not_silent() {
        let mut peer = peer(false);
        let other = PublicKey::new([8; 32]);
        let State::Agreed(agreed) = &mut peer.state else { unreachable!() };
        agreed.keys.push(other);
        peer.on_down(&KEY);
        assert_eq!(peer.silent(), None, "it was never there");
        for key in [KEY, other] {
            peer.on_up(&key);
        }
        peer.on_down(&KEY);
        assert_eq!(peer.silent(), None);
        peer.on_down(&other);
        assert!(peer.silent().unwrap() >= Duration::from_millis(LINK_DOWN_MS));
        peer.on_up(&KEY);
        assert_eq!(peer.silent(), None);
    }
}
