//! What peers do, as inputs. Signatures are opened here before the agent hears of anything, as
//! far as what they are on is worth it; how many, and whose, is in `rate`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mercato_agent::{Answer, Ask, BrokerInput, FederationInput, Input};
use mercato_gossip::Opened;
use mercato_net::{Event, Responder, Session};
use mercato_protocol::certificate::Certificate;
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::{Signed, Signers, Trust};
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::gossip;
use mercato_protocol::hello::Hello;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::identity::ClusterIdentity;
use mercato_protocol::join::JoinRequest;
use mercato_protocol::negotiation;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::requests::{ask, kind};
use super::streams;
use crate::driver::clock;
use crate::driver::peers::question::{Question, hang_up};
use crate::driver::peers::rate::{Inbound, Limits};
use crate::driver::tunnels::LeaseTunnels;
use crate::driver::{Driver, Handle, workload};
use crate::limits;
use crate::telemetry::spans;
use crate::telemetry::{Queue, Way};

/// Takes the network's events for as long as it lives.
pub(crate) async fn listen(
    handle: Handle,
    mut events: mpsc::Receiver<Event>,
    tunnels: Option<Arc<dyn LeaseTunnels>>,
) {
    let mut inbound = Inbound::new();
    while let Some(event) = events.recv().await {
        let handle = handle.clone();
        match event {
            Event::Connected { peer, session, dialled, .. } => {
                handle.meet(peer, session).await;
                let greeting = greet(handle, peer, session, dialled);
                tokio::spawn(greeting.instrument(spans::of_connection(&peer)));
            }
            Event::Disconnected { peer, by_peer } => lost(&handle, peer, by_peer).await,
            Event::Silent { peer, silent } => handle.tell(silence(peer, silent)).await,
            Event::Heard { peer } => handle.tell(Input::Silent(peer, None)).await,
            Event::Rtt { .. } | Event::Addresses { .. } => {}
            Event::Gossip { peer, frame, held } => {
                let limits = inbound.of(peer, handle.net().rank(&peer));
                handle.metrics().message(Way::In, "gossip", frame.len());
                let heard = held.connection().during(async move {
                    let _held = held;
                    match limits.gossip(frame.len()).await {
                        Ok(_frame) => on_gossip(handle, peer, frame, &limits).await,
                        Err(too_much) => hang_up(&handle, peer, too_much).await,
                    }
                });
                tokio::spawn(heard.instrument(spans::of_message(&peer)));
            }
            Event::Request { peer, request, held, responder } => {
                let limits = inbound.of(peer, handle.net().rank(&peer));
                let answered = held.connection().during(async move {
                    let _held = held;
                    match limits.request().await {
                        Ok(()) => on_request(&handle, peer, &request, responder, &limits).await,
                        Err(too_much) => hang_up(&handle, peer, too_much).await,
                    }
                });
                tokio::spawn(answered.instrument(spans::of_message(&peer)));
            }
            Event::Workload { peer, header, held, frames } => {
                let connection = held.connection();
                let received = workload::receive_all(handle, peer, header, held, frames);
                tokio::spawn(connection.during(received).instrument(spans::of_connection(&peer)));
            }
            Event::Kubelet { peer, request, held, answer } => {
                let connection = held.connection();
                let served = streams::serve(handle, peer, request, held, answer);
                tokio::spawn(connection.during(served).instrument(spans::of_connection(&peer)));
            }
            Event::Tunnel { peer, ask, held, responder } => {
                let limits = inbound.of(peer, handle.net().rank(&peer));
                let asked = Question { peer, ask, responder, held };
                let passed_on = asked.pass_on(handle, limits, tunnels.clone());
                tokio::spawn(passed_on.instrument(spans::of_message(&peer)));
            }
            Event::Listening { address } => {
                tracing::info!(%address, "listening");
                tell_addresses(&handle).await;
            }
            Event::NotListening { .. } => tell_addresses(&handle).await,
            Event::PortTaken { address } => {
                // Once at the start.
                tracing::warn!(%address, "the port is taken; a free one is used instead");
            }
            Event::ListenFailed { address, reason } => {
                // Once at the start.
                tracing::warn!(%address, reason, "cannot listen");
            }
        }
    }
}

/// Who closed the connection is said before it is gone.
async fn lost(handle: &Handle, peer: PublicKey, by_peer: bool) {
    handle.note_clock(peer, None);
    if by_peer {
        handle.tell(Input::HungUp(peer)).await;
    }
    handle.tell(Input::Disconnected(peer)).await;
}

fn silence(peer: PublicKey, silent: Duration) -> Input {
    Input::Silent(peer, Some(u64::try_from(silent.as_millis()).unwrap_or(u64::MAX)))
}

/// Others are told to connect there from now on.
pub(crate) async fn tell_addresses(handle: &Handle) {
    let addresses = handle.net().published_addresses().iter().map(ToString::to_string).collect();
    handle.tell(Input::Broker(BrokerInput::Addresses(addresses))).await;
}

/// Says hello; who answers so is connected.
async fn greet(handle: Handle, peer: PublicKey, session: Session, dialled: bool) {
    let shown = handle.hello().await.certificates;
    match hello(&handle, peer).await {
        Some((owner, certificates)) => {
            let connected = Input::Connected { peer: owner, dialled };
            handle.tell_in(peer, session, connected).await;
            if !certificates.is_empty() {
                handle
                    .tell_in(
                        peer,
                        session,
                        Input::Federation(FederationInput::Papers { peer, certificates }),
                    )
                    .await;
            }
            // Who is connected is told of other certificates: not of those that came meanwhile.
            if handle.hello().await.certificates != shown {
                introduce(handle, peer).await;
            }
        }
        None => {
            tracing::debug!("does not say who it is");
            handle.net().end(peer, session).await;
        }
    }
}

/// Says hello again to a peer that is connected.
pub(in crate::driver) async fn introduce(handle: Handle, peer: PublicKey) {
    if let Some((_, certificates)) = hello(&handle, peer).await {
        handle.tell(Input::Federation(FederationInput::Papers { peer, certificates })).await;
    }
}

async fn hello(
    handle: &Handle,
    peer: PublicKey,
) -> Option<(ClusterIdentity, Vec<Signed<Certificate>>)> {
    let answer = ask(handle, peer, &FirstFrame::Hello(handle.hello().await)).await?;
    owner(handle, peer, &answer)
}

/// Whose the peer's key is, by its own documents, and the certificates that it shows.
fn owner(
    handle: &Handle,
    peer: PublicKey,
    hello: &[u8],
) -> Option<(ClusterIdentity, Vec<Signed<Certificate>>)> {
    let hello = Hello::from_bytes(hello).ok()?;
    let owner = hello.owner(clock::wall()).ok()?;
    let good = owner.key == peer && hello.federation == handle.federation();
    if good {
        handle.note_clock(peer, hello.time_ms);
    }
    good.then_some((owner, hello.certificates))
}

/// First who says it, and whether it is worth anything, then the signatures.
async fn on_gossip(handle: Handle, peer: PublicKey, frame: Bytes, limits: &Limits) {
    let message = match gossip::Message::from_bytes(&frame) {
        Ok(message) => message,
        Err(error) => {
            tracing::debug!(%error, "gossip that is none");
            return handle.net().disconnect(peer).await;
        }
    };
    if introduced(&handle, peer, limits).await.is_none() {
        return;
    }
    let screen =
        move |driver: &Driver| driver.agent().gossip().screen(driver.now(), &peer, message);
    // None: it is connected, and no neighbour.
    let Ok(Some(screened)) = handle.look(screen).await else { return };
    let message = {
        let Some(_permit) = limits.open().await else { return };
        Opened::open_screened(screened, handle.federation(), clock::wall())
    };
    for error in message.refused() {
        handle.metrics().refused(error);
        tracing::debug!(%error, "a publication that is not valid");
    }
    // It is held until the agent has it: what waits for the agent is bounded by what peers may
    // make us hold.
    handle.take(Input::Gossip { peer, message }).await;
}

/// Who a peer is, once it has said hello. What comes before the hello waits a moment; more of it
/// is dropped.
async fn introduced(handle: &Handle, peer: PublicKey, limits: &Limits) -> Option<ClusterIdentity> {
    let known = move |driver: &Driver| driver.agent().connected().get(&peer).cloned();
    if let Some(owner) = handle.look(known).await.ok()? {
        return Some(owner);
    }
    let Some(_waits) = limits.early() else {
        handle.metrics().dropped(Queue::Early);
        return None;
    };
    handle.look_until(limits::HELLO_WAIT, known).await
}

/// Before a peer has said who it is, it may say no more than that.
async fn on_request(
    handle: &Handle,
    peer: PublicKey,
    bytes: &[u8],
    responder: Responder,
    limits: &Limits,
) {
    let request = match FirstFrame::from_bytes(bytes) {
        Ok(request) => request,
        Err(error) => {
            tracing::debug!(%error, "a request that is none");
            return;
        }
    };
    handle.metrics().message(Way::In, kind(&request), bytes.len());
    match request {
        FirstFrame::Hello(hello) => on_hello(handle, peer, hello, responder).await,
        FirstFrame::Join(request) => {
            if introduced(handle, peer, limits).await.is_some() {
                on_join(handle, peer, request, responder).await;
            }
        }
        FirstFrame::Negotiation(message) => {
            if let Some(speaker) = introduced(handle, peer, limits).await {
                on_word(handle, speaker, message, responder, limits).await;
            }
        }
    }
}

/// A hello is answered with ours. Of one who is connected it may show other certificates.
async fn on_hello(handle: &Handle, peer: PublicKey, hello: Hello, responder: Responder) {
    if !hello.certificates.is_empty() {
        handle
            .tell(Input::Federation(FederationInput::Papers {
                peer,
                certificates: hello.certificates,
            }))
            .await;
    }
    match handle.hello().await.to_bytes() {
        Ok(hello) => responder.respond(Bytes::from(hello)),
        Err(error) => tracing::error!(%error, "a hello that cannot be said"),
    }
}

/// A signed word in a negotiation. Its answer, an empty frame, says that it is kept. Who
/// changed its key says again what it had signed with the one before.
async fn on_word(
    handle: &Handle,
    speaker: ClusterIdentity,
    signed: Signed<negotiation::Message>,
    responder: Responder,
    limits: &Limits,
) {
    let keys = speaker.replaced().iter().map(|replaced| replaced.key).chain([speaker.key]);
    let known: BTreeMap<PublicKey, ClusterId> =
        keys.map(|key| (key, speaker.cluster_id())).collect();
    let trust = Trust { federation: handle.federation(), signers: Signers::Known(&known) };
    let opened = {
        let Some(_permit) = limits.open().await else { return };
        signed.open(trust, clock::wall())
    };
    match opened {
        Ok(message) => {
            if handle.take(Input::Broker(BrokerInput::Message(Box::new(message)))).await {
                responder.respond(Bytes::new());
            }
        }
        Err(error) => {
            tracing::debug!(%error, "a message that is none");
        }
    }
}

/// One that wants to join our federation, or to stay in it.
async fn on_join(handle: &Handle, peer: PublicKey, request: JoinRequest, responder: Responder) {
    let ask = Ask::Admit { peer, request: Box::new(request) };
    let Ok(Answer::Join(reply)) = handle.ask(ask).await else { return };
    match reply.to_bytes() {
        Ok(reply) => responder.respond(Bytes::from(reply)),
        Err(error) => tracing::error!(%error, "an answer that cannot be said"),
    }
}
