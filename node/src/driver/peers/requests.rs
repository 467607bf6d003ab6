//! What is asked of peers: who they are, to be let in, and the words of a negotiation. What they
//! ask in turn is `inbound`.

use bytes::Bytes;
use mercato_agent::{FederationInput, Input};
use mercato_discovery::Address;
use mercato_net::Session;
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::Signed;
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::id::{FederationId, PublicKey};
use mercato_protocol::join::{JoinReply, JoinRequest};
use mercato_protocol::negotiation;
use tracing::Instrument as _;

use crate::driver::{Driver, Handle};
use crate::limits;
use crate::telemetry::Way;
use crate::telemetry::spans;

/// Asks a registrar to let us in.
pub(in crate::driver) fn join(
    handle: Handle,
    federation: FederationId,
    registrar: PublicKey,
    addresses: Vec<Address>,
    request: JoinRequest,
) {
    let joining = async move {
        let reply = ask_registrar(&handle, registrar, addresses, request).await;
        handle
            .tell(Input::Federation(FederationInput::Joined(federation, reply.map(Box::new))))
            .await;
    };
    tokio::spawn(joining.instrument(spans::of_connection(&registrar)));
}

async fn ask_registrar(
    handle: &Handle,
    registrar: PublicKey,
    mut addresses: Vec<Address>,
    request: JoinRequest,
) -> Option<JoinReply> {
    let known = move |driver: &Driver| {
        let mut known = driver.agent().directory().known();
        known.find(|known| known.peer == Some(registrar)).map(|known| known.addresses)
    };
    addresses.extend(handle.look(known).await.ok()?.unwrap_or_default());
    let request = FirstFrame::Join(request);
    let failed = |reason: &str| {
        tracing::info!(reason, "the registrar does not answer");
    };
    // It hears us once it has heard our hello. Two dials at one moment cost a connection.
    for left in (0..limits::JOIN_TRIES).rev() {
        if let Err(error) = handle.net().dial(Some(registrar), addresses.clone()).await {
            failed(&error.to_string());
            return None;
        }
        match ask(handle, registrar, &request).await {
            Some(reply) => return JoinReply::from_bytes(&reply).ok(),
            None if left == 0 => failed("it is connected, and takes no request"),
            None => tokio::time::sleep(limits::JOIN_PAUSE).await,
        }
    }
    None
}

/// Says something in a negotiation until the peer has taken it, or the session with it is over:
/// then the agent says it in the next one. A peer that takes nothing, though it is there,
/// is given up on after a while: what wants an answer the broker says again.
pub(in crate::driver) fn say(
    handle: Handle,
    peer: PublicKey,
    session: Option<Session>,
    message: Signed<negotiation::Message>,
    once: bool,
) {
    let saying = async move {
        let request = FirstFrame::Negotiation(message.clone());
        let mut pause = limits::SAY_AGAIN;
        for _ in 0..limits::SAYINGS {
            if ask(&handle, peer, &request).await.is_some() {
                return;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
            let lasts = move |driver: &Driver| session.is_some_and(|it| driver.lasts(&peer, it));
            match handle.look(lasts).await {
                Ok(true) => {}
                Ok(false) if once => return handle.tell(Input::Unsaid { peer, message }).await,
                Ok(false) | Err(_) => return,
            }
        }
    };
    tokio::spawn(saying.instrument(spans::of_message(&peer)));
}

/// What a peer answers to a request; none if it cannot be reached, or does not.
pub(super) async fn ask(handle: &Handle, peer: PublicKey, request: &FirstFrame) -> Option<Bytes> {
    let bytes = match request.to_bytes() {
        Ok(bytes) => bytes,
        // The bounds leave none that cannot be said.
        Err(error) => {
            tracing::error!(kind = kind(request), %error, "a request that cannot be said");
            return None;
        }
    };
    handle.metrics().message(Way::Out, kind(request), bytes.len());
    let answer = handle.net().request(peer, Bytes::from(bytes)).await;
    answer
        .inspect_err(|error| {
            tracing::debug!(kind = kind(request), %error, "no answer");
        })
        .ok()
}

/// What it is called in metrics and logs.
pub(super) fn kind(request: &FirstFrame) -> &'static str {
    match request {
        FirstFrame::Hello(_) => "hello",
        FirstFrame::Join(_) => "join",
        FirstFrame::Negotiation(_) => "negotiation",
    }
}
