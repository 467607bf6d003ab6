//! What the swarm's task does about peers that were started again.

use libp2p::swarm::ConnectionId;
use mercato_protocol::id::PublicKey;
use tokio::time::sleep;

use super::Task;
use crate::limits;
use crate::link::Link;
use crate::run::Run;

impl Task {
    /// Over this connection the peer says which run of its program it is.
    pub(super) fn on_run(&mut self, peer: PublicKey, connection: ConnectionId, run: Run) {
        let Some(links) = self.links.get_mut(&peer) else { return };
        let link = links.iter_mut().find(|link| link.connection == connection);
        let Some(link) = link else { return };
        link.run = Some(run);
        self.end_other_runs(peer);
    }

    /// A peer that speaks over its latest connection as another run than over an earlier one
    /// has died and come back: the earlier one is dead, though nothing else says so yet. One
    /// that has not said which run it is may do so in a moment.
    pub(super) fn end_other_runs(&mut self, peer: PublicKey) {
        let Some(links) = self.links.get(&peer) else { return };
        let Some((at, run)) =
            links.iter().enumerate().rev().find_map(|(at, link)| link.run.map(|run| (at, run)))
        else {
            return;
        };
        let silent = |link: &Link| link.since.elapsed() >= limits::SILENT_RUN;
        let is_dead = |link: &Link| link.run.map_or(silent(link), |other| other != run);
        let (dead, rest): (Vec<_>, Vec<_>) = links[..at].iter().partition(|link| is_dead(link));
        let dead: Vec<ConnectionId> = dead.iter().map(|link| link.connection).collect();
        if rest.iter().any(|link| link.run.is_none()) {
            self.silences.spawn(async move {
                sleep(limits::SILENT_RUN).await;
                peer
            });
        }
        self.end(peer, |link| dead.contains(&link.connection));
    }
}
