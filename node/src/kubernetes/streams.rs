//! Kubelet streams between daemons: home asks, the provider checks the request against
//! the contract and opens the same on its own cluster.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::Side;
use mercato_kubelet::stream::{Opened, PeerStreams, Refused};
use mercato_net::KubeletAnswer;
use mercato_protocol::codec::Message as _;
use mercato_protocol::id::PublicKey;
use mercato_protocol::stream::{RefusedReason, Reply, Request};

use crate::driver::Handle;

/// The way to the providers of our leases.
#[derive(Clone)]
pub(crate) struct Streams(pub(crate) Handle);

impl PeerStreams for Streams {
    fn open(&self, request: Request) -> BoxFuture<'static, Result<Opened, Refused>> {
        let driver = self.0.clone();
        async move {
            let unavailable = |text: String| Refused::new(RefusedReason::Unavailable, text);
            let contract = request.contract;
            let peer = driver.look(move |driver| driver.lease(&contract).map(|l| l.peer())).await;
            let peer = peer.ok().flatten();
            let peer = peer.ok_or_else(|| unavailable("the lease is over".to_owned()))?;
            let bytes = request.to_bytes().map_err(|error| bad(&error.to_string()))?;
            let answer = driver.net().open_kubelet(peer, Bytes::from(bytes)).await;
            let (reply, io) = answer.map_err(|error| unavailable(error.to_string()))?;
            match Reply::from_bytes(&reply) {
                Ok(Reply::Accepted { protocol, .. }) => Ok(Opened { protocol, io: Box::new(io) }),
                Ok(Reply::Refused { reason, text }) => Err(Refused::new(reason, text)),
                Err(error) => Err(unavailable(error.to_string())),
            }
        }
        .boxed()
    }
}

/// The request makes no sense.
pub(crate) fn bad(text: &str) -> Refused {
    Refused::new(RefusedReason::BadRequest, text)
}

/// Opens what a peer asks for, if it has that lease.
pub(crate) async fn open_for_peer(
    driver: &Handle,
    peer: PublicKey,
    request: Request,
) -> Result<Opened, Refused> {
    let (contract, namespace) = (request.contract, request.namespace.clone());
    let place = driver.look(move |driver| {
        let lease = driver.lease(&contract).filter(|lease| lease.peer() == peer)?;
        let desire = lease.desire();
        let guest = desire.namespaces.get(&namespace).filter(|_| desire.side == Side::Provider)?;
        Some((guest.clone(), driver.kubernetes()?))
    });
    let Ok(Some((namespace, cluster))) = place.await else {
        return Err(Refused::new(RefusedReason::NotFound, "no such pod under this contract"));
    };
    cluster.open(namespace, request.pod.clone(), request).await
}

/// Tells the peer, and lets the bytes pass until either side has ended.
pub(crate) async fn answer(opened: Result<Opened, Refused>, answer: KubeletAnswer) {
    let reply = match &opened {
        Ok(opened) => {
            let status = if opened.protocol.is_some() { 101 } else { 200 };
            Reply::Accepted { status, protocol: opened.protocol.clone() }
        }
        Err(Refused { reason, text }) => Reply::Refused { reason: *reason, text: text.clone() },
    };
    let Ok(reply) = reply.to_bytes() else { return };
    let passed = match opened {
        Ok(mut opened) => match answer.accept(Bytes::from(reply)).await {
            Ok(mut stream) => {
                // A stream that breaks ends like any other.
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut opened.io).await;
                Ok(())
            }
            Err(error) => Err(error),
        },
        Err(_) => answer.refuse(Bytes::from(reply)).await,
    };
    if let Err(error) = passed {
        tracing::debug!(%error, "a kubelet stream broke");
    }
}
