//! A peer's question about the tunnel, for whoever keeps those of leases.

use std::sync::Arc;

use mercato_kubelet::TooMuch;
use mercato_net::{Held, TunnelResponder};
use mercato_protocol::id::PublicKey;
use mercato_protocol::tunnel::{Answer, Ask, RefusedReason};

use crate::driver::Handle;
use crate::driver::peers::rate::Limits;
use crate::driver::tunnels::LeaseTunnels;

/// A question, and the way to its answer.
pub(in crate::driver) struct Question {
    pub(in crate::driver) peer: PublicKey,
    pub(in crate::driver) ask: Ask,
    pub(in crate::driver) responder: TunnelResponder,
    pub(in crate::driver) held: Held,
}

impl Question {
    /// As fast as its peer may ask, and as long as it is connected.
    pub(in crate::driver) async fn pass_on(
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
pub(in crate::driver) async fn hang_up(handle: &Handle, peer: PublicKey, too_much: TooMuch) {
    tracing::debug!(%too_much, "is hung up on");
    handle.net().disconnect(peer).await;
}
