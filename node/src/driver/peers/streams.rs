//! Kubelet streams between daemons: home asks, the provider checks it against the
//! contract and opens the same on its own cluster, or looks what the guests use.

use std::io::Cursor;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::Side;
use mercato_kubelet::both_ways;
use mercato_kubelet::guest::stream::{Opened, PeerStreams, Refused};
use mercato_kubelet::limits::PEER_STREAM_BUFFER;
use mercato_net::{Held, KubeletAnswer, NetError, RequestLength};
use mercato_protocol::codec::{CodecError, Message};
use mercato_protocol::id::PublicKey;
use mercato_protocol::kubelet_stream::{Ask, RefusedReason, Reply};
use mercato_protocol::limits::{SHORT_COMMAND_BYTES, SHORT_COMMAND_WORDS, TEXT_BYTES};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use crate::driver::Handle;
use crate::telemetry::{Counted, Metrics, Way};

/// The way to the providers of our leases.
#[derive(Clone)]
pub(crate) struct Streams(pub(crate) Handle);

impl PeerStreams for Streams {
    fn open(&self, ask: Ask) -> BoxFuture<'static, Result<Opened, Refused>> {
        let driver = self.0.clone();
        async move {
            let opened = open_at_peer(&driver, ask).await;
            driver.metrics().stream(Way::Out, opened.is_ok());
            opened
        }
        .boxed()
    }
}

async fn open_at_peer(driver: &Handle, ask: Ask) -> Result<Opened, Refused> {
    let unavailable = |text: String| Refused::new(RefusedReason::Unavailable, text);
    let contract = ask.contract();
    let peer = driver.look(move |driver| driver.lease(&contract).map(|l| l.peer())).await;
    let peer = peer.ok().flatten();
    let peer = peer.ok_or_else(|| unavailable("the lease is over".to_owned()))?;
    let bytes = ask.to_bytes().map_err(|error| bad(&error.to_string()))?;
    let length = if ask.is_long() { RequestLength::Long } else { RequestLength::Short };
    let answer = driver.net().open_kubelet(peer, Bytes::from(bytes), length).await;
    let (reply, io) = answer.map_err(|error| match (error, length) {
        (NetError::Unsupported(_), RequestLength::Long) => bad(&too_long_there()),
        (error, _) => unavailable(error.to_string()),
    })?;
    let io = Counted::new(io, Way::Out, driver.metrics().clone());
    match Reply::from_bytes(&reply) {
        Ok(Reply::Accepted { protocol }) if upgrades(&ask) => {
            Ok(Opened::Upgraded { protocol, io: Box::new(io) })
        }
        Ok(Reply::Accepted { .. }) => Ok(Opened::Body(Box::new(io))),
        Ok(Reply::Refused { reason, text }) => Err(Refused::new(reason, text)),
        Err(error) => Err(unavailable(error.to_string())),
    }
}

/// The request makes no sense.
pub(crate) fn bad(text: &str) -> Refused {
    Refused::new(RefusedReason::BadRequest, text)
}

/// What a person is told whose command is too long for a provider of an earlier release.
fn too_long_there() -> String {
    format!(
        "the provider's release of mercato takes commands of {SHORT_COMMAND_WORDS} words and \
         {SHORT_COMMAND_BYTES} bytes at most: give the script on standard input (kubectl exec -i POD \
         -- sh < script), copy it into the pod, or have mercato updated over there"
    )
}

fn upgrades(ask: &Ask) -> bool {
    matches!(ask, Ask::Open(request) if request.upgrade.is_some())
}

/// Serves what a peer asks for to its end.
pub(in crate::driver) async fn serve(
    handle: Handle,
    peer: PublicKey,
    request: Bytes,
    held: Held,
    asker: KubeletAnswer,
) {
    let opened = match Ask::from_bytes(&request) {
        Ok(ask) => open_for_peer(&handle, peer, ask).await,
        Err(error) => Err(bad(&error.to_string())),
    };
    drop((request, held));
    handle.metrics().stream(Way::In, opened.is_ok());
    answer(opened, asker, handle.metrics().clone()).await;
}

/// Opens what a peer asks for, if it has that lease.
async fn open_for_peer(driver: &Handle, peer: PublicKey, ask: Ask) -> Result<Opened, Refused> {
    let contract = ask.contract();
    let place = driver.look(move |driver| {
        let lease = driver.lease(&contract).filter(|lease| lease.peer() == peer)?;
        let desire = lease.desire();
        let namespaces = (desire.side == Side::Provider).then(|| desire.namespaces.clone())?;
        let terms = desire.contract.terms.clone();
        Some((namespaces, terms, driver.kubernetes()?, lease.allowance()))
    });
    let none = || Refused::new(RefusedReason::NotFound, "no such pod under this contract");
    let Ok(Some((mut namespaces, terms, cluster, allowance))) = place.await else {
        return Err(none());
    };
    if !allowance.ask(Instant::now()) {
        let text = "the contract's consumer asks for too much: try again in a moment";
        return Err(Refused::new(RefusedReason::Unavailable, text));
    }
    match ask {
        Ask::Open(request) => {
            let namespace = namespaces.remove(&request.namespace).ok_or_else(none)?;
            cluster.open(namespace, request.pod.clone(), request).await
        }
        Ask::Usage { contract, after } => {
            let namespaces = namespaces.into_values().collect();
            said(&cluster.usage(contract, namespaces, after).await?)
        }
        Ask::Node { .. } => said(&cluster.node_facts(&terms)?),
    }
}

/// One message, and nothing after it.
fn said(message: &impl Message) -> Result<Opened, Refused> {
    let unavailable =
        |error: CodecError| Refused::new(RefusedReason::Unavailable, error.to_string());
    Ok(Opened::Body(Box::new(Cursor::new(message.to_bytes().map_err(unavailable)?))))
}

/// Tells the peer, and lets the bytes pass until they have ended.
async fn answer(opened: Result<Opened, Refused>, answer: KubeletAnswer, metrics: Metrics) {
    let reply = match &opened {
        Ok(Opened::Upgraded { protocol, .. }) => Reply::Accepted { protocol: protocol.clone() },
        Ok(Opened::Body(_)) => Reply::Accepted { protocol: None },
        // As much of the text as a message may hold.
        Err(Refused { reason, text }) => {
            Reply::Refused { reason: *reason, text: text.chars().take(TEXT_BYTES / 4).collect() }
        }
    };
    let reply = match reply.to_bytes() {
        Ok(reply) => Bytes::from(reply),
        // Once for each stream.
        Err(error) => return tracing::warn!(%error, "an answer that cannot be said"),
    };
    let told = match opened {
        Ok(opened) => answer.accept(reply).await.map(|peer| Some((opened, peer))),
        Err(_) => answer.refuse(reply).await.map(|()| None),
    };
    match told {
        Ok(Some((opened, peer))) => pass(opened, Counted::new(peer, Way::In, metrics)).await,
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "a kubelet stream broke"),
    }
}

/// One that breaks ends like any other.
async fn pass(opened: Opened, peer: impl AsyncRead + AsyncWrite + Unpin) {
    match opened {
        Opened::Upgraded { io, .. } => both_ways(peer, io, PEER_STREAM_BUFFER).await,
        Opened::Body(mut body) => {
            let (mut from, mut to) = tokio::io::split(peer);
            let all = async {
                let _ = tokio::io::copy(&mut body, &mut to).await;
                let _ = to.shutdown().await;
            };
            // The asker says nothing more: the end of its way is that of the whole, also
            // of logs that are silent.
            let mut nowhere = tokio::io::sink();
            tokio::select! {
                () = all => {}
                _ = tokio::io::copy(&mut from, &mut nowhere) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn silent_logs_end_with_their_reader() {
        let (mut logs, body) = tokio::io::duplex(64);
        let (reader, peer) = tokio::io::duplex(64);
        let passing = tokio::spawn(pass(Opened::Body(Box::new(body)), peer));
        drop(reader);
        passing.await.unwrap();
        // Nobody follows at the API server either.
        assert_eq!(logs.read(&mut [0; 1]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn what_a_command_says_arrives_where_its_input_does_not() {
        let (mut reader, peer) = tokio::io::duplex(64);
        let ((input, hears), (mut says, output)) = (tokio::io::duplex(64), tokio::io::duplex(64));
        let io = Box::new(tokio::io::join(output, input));
        tokio::spawn(pass(Opened::Upgraded { protocol: None, io }, peer));
        drop(hears);
        reader.write_all(&[7; 1_000]).await.unwrap();
        says.write_all(b"exit 3").await.unwrap();
        drop(says);
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "exit 3");
    }

    #[tokio::test]
    async fn a_body_is_passed_to_its_end() {
        let (mut reader, peer) = tokio::io::duplex(64);
        let body = Opened::Body(Box::new(&b"all of it"[..]));
        tokio::spawn(pass(body, peer));
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "all of it");
    }
}
