//! A peer's question about the tunnel, for whoever keeps those of leases.

use std::sync::Arc;

use mercato_kubelet::TooMuch;
use mercato_net::{Held, TunnelResponder};
use mercato_protocol::id::PublicKey;
use mercato_protocol::tunnel::{Answer, Ask, RefusedReason};

use super::Handle;
use super::inbound::Limits;
use super::tunnels::LeaseTunnels;

/// A question, and the way to its answer.
pub(super) struct Question {
    pub(super) peer: PublicKey,
    pub(super) ask: Ask,
    pub(super) responder: TunnelResponder,
    pub(super) held: Held,
}

impl Question {
    /// As fast as its peer may ask, and as long as it is connected.
    pub(super) async fn pass_on(
        self,
        handle: Handle,
        limits: Arc<Limits>,
        tunnels: Option<Arc<dyn LeaseTunnels>>,
    ) {
        let Self { peer, ask, responder, held } = self;
        let connection = held.connection();
        let passing = async move {
            let _held = held;
            match (limits.request().await, tunnels) {
                (Ok(()), Some(tunnels)) => tunnels.ask(peer, ask, responder),
                (Ok(()), None) => {
                    let text = "its owner has turned no gateway on (gateway.enabled)".to_owned();
                    let reason = RefusedReason::Unavailable;
                    responder.respond(Answer::Refused { reason, text });
                }
                (Err(too_much), _) => hang_up(&handle, peer, too_much).await,
            }
        };
        connection.during(passing).await;
    }
}

/// A peer that says far more than it may, and does not wait.
pub(super) async fn hang_up(handle: &Handle, peer: PublicKey, too_much: TooMuch) {
    tracing::debug!(peer = %peer.short(), %too_much, "is hung up on");
    handle.net().disconnect(peer).await;
}
