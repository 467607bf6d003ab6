//! What the swarm's task does about partners that are silent.

use std::time::Instant;

use libp2p::Multiaddr;
use libp2p::swarm::ConnectionId;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use mercato_discovery::Host;
use mercato_protocol::bounded::Rank;
use mercato_protocol::id::PublicKey;

use super::Task;
use crate::error::NetError;
use crate::event::Event;
use crate::pulse::{self, Action};
use crate::{address, identity, limits};

impl Task {
    /// Whether there is anybody of whom it is to be known that it is there.
    pub(super) fn minds_pulses(&self) -> bool {
        !self.links.is_empty() || !self.pulses.is_empty()
    }

    /// Looks which of the partners are silent.
    pub(super) fn mind_pulses(&mut self) {
        let now = Instant::now();
        let partners = self.links.iter().filter(|(peer, _)| self.ranks.of(peer) == Rank::Partner);
        for (peer, links) in partners {
            let Some(link) = links.first() else { continue };
            let at = link.address.as_ref().filter(|_| link.dialled).cloned();
            let at = at.or_else(|| self.peers.listens_at(*peer));
            let at = at.and_then(|at| match at.host {
                Host::Ip(ip) => Some(address::multiaddr((ip, at.port).into(), at.transport)),
                Host::Name(_) => None,
            });
            self.pulses.keep(*peer, link.connection, at, now);
        }
        let (links, ranks) = (&self.links, &self.ranks);
        let is_partner = |peer: &PublicKey| ranks.of(peer) == Rank::Partner;
        self.pulses.retain(is_partner, |peer| links.contains_key(peer), now);
        for action in self.pulses.look(now) {
            match action {
                Action::Ask(peer) => self.ask_pulse(peer),
                Action::Silent(peer, silent) => {
                    tracing::debug!(peer = %peer.short(), ?silent, "a partner is silent");
                    self.outbox.push_back(Event::Silent { peer, silent });
                }
                Action::Heard(peer) => self.outbox.push_back(Event::Heard { peer }),
                Action::Renew(peer, at) => self.renew(peer, at),
            }
        }
    }

    fn ask_pulse(&mut self, peer: PublicKey) {
        let link = self.links.get(&peer).and_then(|links| links.first());
        let Some((link, heard)) = link.zip(self.pulses.heard(&peer)) else { return };
        let (connection, opener) = (link.connection, self.opener.clone());
        self.beats.spawn(async move { (peer, connection, pulse::ask(opener, peer, heard).await) });
    }

    /// The stream by which a partner was asked has ended.
    pub(super) fn on_pulse_ended(
        &mut self,
        peer: PublicKey,
        connection: ConnectionId,
        ended: Result<(), NetError>,
    ) {
        let is_mute = matches!(ended, Err(NetError::Unsupported(_)));
        self.pulses.ended(&peer, connection, is_mute);
    }

    /// Dials a partner beside the connection over which it is silent. Where that is only slow, the
    /// new one ends as soon as it is there.
    fn renew(&mut self, peer: PublicKey, at: Multiaddr) {
        let of_peer = self.renewals.values().filter(|other| **other == peer).count();
        let is_full = self.renewals.len() >= limits::RENEWALS || of_peer >= limits::RENEWALS_OF_ONE;
        let Some(peer_id) = identity::peer_id(peer).filter(|_| !is_full) else { return };
        let options = DialOpts::peer_id(peer_id)
            .condition(PeerCondition::Always)
            .addresses(vec![at])
            .allocate_new_port()
            .build();
        let connection = options.connection_id();
        match self.swarm.dial(options) {
            Ok(()) => drop(self.renewals.insert(connection, peer)),
            Err(error) => tracing::debug!(peer = %peer.short(), %error, "cannot dial a partner"),
        }
    }

    /// Whether this connection is one that was dialled beside another, of no use by now.
    pub(super) fn is_surplus(&mut self, peer: PublicKey, connection: ConnectionId) -> bool {
        let is_renewal = self.renewals.remove(&connection).is_some();
        is_renewal
            && self.links.contains_key(&peer)
            && !self.pulses.is_silent(&peer, Instant::now())
    }

    /// Over a new connection with it, a partner is there: those over which it is silent are dead.
    pub(super) fn end_silent(&mut self, peer: PublicKey, connection: ConnectionId) {
        let now = Instant::now();
        if self.pulses.is_silent(&peer, now) {
            let is_old = |at: Instant| now.saturating_duration_since(at) >= limits::SILENT;
            self.end(peer, |link| link.connection != connection && is_old(link.since));
        }
    }
}
