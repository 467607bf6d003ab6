//! Which way packets are lost, asked of the gateway as long as a peer is not reached.

use std::time::Instant;

use tokio::task::block_in_place;

use super::super::end::End;
use super::super::ground::Ground;
use super::super::peers::Peers;
use crate::limits;

/// When the gateway was asked last.
#[derive(Default)]
pub(super) struct Losses {
    asked: Option<Instant>,
}

impl Losses {
    /// Tells the peers what their gateways are heard to hear. A gateway answers within milliseconds; one
    /// that does not is asked again later.
    pub(super) fn look(&mut self, peers: &mut Peers, end: &End, ground: &Ground) {
        let is_early = |at: Instant| at.elapsed() < limits::TUNNEL_LOOK;
        if !peers.are_apart() || self.asked.is_some_and(is_early) {
            return;
        }
        self.asked = Some(Instant::now());
        let (Some(gateway), Ok(settings)) = (end.handle(), ground.gateway()) else { return };
        if let Ok(known) = block_in_place(|| gateway.peers(limits::TUNNEL_ANSWER)) {
            peers.learn(&known, settings.port);
        }
    }
}
