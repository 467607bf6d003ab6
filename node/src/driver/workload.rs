//! Workload frames and their bodies, between the agent and the streams of a lease.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mercato_agent::{Frame, Input};
use mercato_kubelet::{Bodies, BodyError};
use mercato_net::{Net, NetError, WorkloadReceiver, WorkloadSender};
use mercato_offload::key::Item;
use mercato_offload::message::{ToGuest, ToHome};
use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::id::{ContractId, Digest, PublicKey};
use mercato_protocol::limits::OBJECT_BYTES;
use mercato_protocol::workload::{BodyHead, Message, Open};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::allowance::{Allowance, Turn};
use super::{Driver, Handle};
use crate::limits;
use crate::telemetry::{Metrics, Queue, Way};

/// As the metrics call them.
const WORKLOAD: &str = "workload";

/// Our direction of a lease: a stream that is opened with the first frame, and again
/// after it broke; and another for acknowledgements, which do not wait behind bodies. What gets
/// lost the sessions say again.
pub(super) struct Outbound {
    peer: PublicKey,
    frames: mpsc::Sender<Frame>,
    acks: mpsc::Sender<Frame>,
    metrics: Metrics,
    sending: [AbortHandle; 2],
}

impl Outbound {
    pub(super) fn start(
        net: Net,
        metrics: Metrics,
        bodies: Bodies,
        peer: PublicKey,
        contract: ContractId,
    ) -> Self {
        let sender = |acks| {
            let (net, metrics, bodies) = (net.clone(), metrics.clone(), bodies.clone());
            Sender { net, metrics, bodies, peer, open: Open { contract, acks } }
        };
        let start = |acks| {
            let (frames, queue) = mpsc::channel(limits::FRAMES);
            (frames, tokio::spawn(sender(acks).send_all(queue)).abort_handle())
        };
        let ((frames, one), (acks, other)) = (start(false), start(true));
        Self { peer, frames, acks, sending: [one, other], metrics }
    }

    /// Frames that wait.
    pub(super) fn backlog(&self) -> usize {
        [&self.frames, &self.acks].map(|queue| queue.max_capacity() - queue.capacity()).iter().sum()
    }

    pub(super) fn peer(&self) -> PublicKey {
        self.peer
    }

    /// Queues a frame; one too many is lost.
    pub(super) fn send(&self, frame: Frame) {
        let queue = if is_ack(&frame) { &self.acks } else { &self.frames };
        if queue.try_send(frame).is_err() {
            self.metrics.dropped(Queue::Frames);
            tracing::debug!(peer = %self.peer.short(), "a slow peer loses a frame");
        }
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        self.sending.iter().for_each(AbortHandle::abort);
    }
}

struct Sender {
    net: Net,
    metrics: Metrics,
    bodies: Bodies,
    peer: PublicKey,
    open: Open,
}

impl Sender {
    async fn send_all(self, mut queue: mpsc::Receiver<Frame>) {
        let mut stream: Option<WorkloadSender> = None;
        while let Some(frame) = queue.recv().await {
            if stream.is_none() {
                stream = self.open().await.ok();
            }
            let Some(open) = &mut stream else { continue };
            let Some(framed) = framed(frame, &self.bodies) else { continue };
            let bytes = framed.header.len() + framed.body.len();
            match open.send(framed).await {
                Ok(()) => self.metrics.message(Way::Out, WORKLOAD, bytes),
                Err(error) => {
                    tracing::debug!(peer = %self.peer.short(), %error, "a workload stream broke");
                    stream = None;
                }
            }
        }
    }

    async fn open(&self) -> Result<WorkloadSender, NetError> {
        let header = self.open.to_bytes().expect("an id is always a message");
        self.net.open_workload(self.peer, Bytes::from(header)).await
    }
}

/// The message, followed by the bodies that its statements name, as far as they are here
/// and fit.
fn framed(frame: Frame, bodies: &Bodies) -> Option<mercato_net::Frame> {
    let named: Vec<_> = match &frame {
        Frame::ToGuest(frame) => frame.statements.iter().filter_map(to_guest).collect(),
        Frame::ToHome(frame) => frame.statements.iter().filter_map(to_home).collect(),
    };
    let (mut heads, mut joined, mut length) = (Vec::new(), Vec::new(), 0);
    for bytes in named.iter().filter_map(|(digest, _)| bodies.bytes(digest)) {
        if length + bytes.len() > OBJECT_BYTES {
            continue;
        }
        let (head, sent) = BodyHead::pack(&bytes);
        if !heads.contains(&head) {
            length += bytes.len();
            heads.push(head);
            joined.extend_from_slice(&sent);
        }
    }
    let message = match frame {
        Frame::ToGuest(frame) => Message::ToGuest { frame, bodies: heads },
        Frame::ToHome(frame) => Message::ToHome { frame, bodies: heads },
    };
    match message.to_bytes() {
        Ok(header) => Some(mercato_net::Frame { header: header.into(), body: joined.into() }),
        Err(error) => {
            tracing::error!(%error, "a workload message that cannot be said");
            None
        }
    }
}

/// The body that a statement names, and what it is of.
fn to_guest(statement: &ToGuest) -> Option<(Digest, Item)> {
    match statement {
        ToGuest::Put { digest, item, .. } => Some((*digest, item.clone())),
        ToGuest::Delete { .. }
        | ToGuest::Drop(_)
        | ToGuest::Want(_)
        | ToGuest::Taken(_)
        | ToGuest::Forget(_) => None,
    }
}

/// What home wants no more.
fn forgotten(statement: &ToGuest) -> Option<Item> {
    match statement {
        ToGuest::Forget(pod) => Some(Item::Pod(pod.clone())),
        ToGuest::Drop(key) => Some(Item::Object(key.clone())),
        ToGuest::Put { .. } | ToGuest::Delete { .. } | ToGuest::Want(_) | ToGuest::Taken(_) => None,
    }
}

fn to_home(statement: &ToHome) -> Option<(Digest, Item)> {
    match statement {
        ToHome::Status { report, pod } => Some((report.status?, Item::Pod(pod.clone()))),
        ToHome::Have { .. }
        | ToHome::HaveEnd
        | ToHome::Refused { .. }
        | ToHome::Missing(_)
        | ToHome::Event { .. } => None,
    }
}

/// The peer's direction of a lease, until it ends or breaks the rules.
pub(super) async fn receive_all(
    handle: Handle,
    peer: PublicKey,
    header: Bytes,
    mut frames: WorkloadReceiver,
) {
    let Ok(open) = Open::from_bytes(&header) else { return };
    let contract = open.contract;
    let Some((bodies, allowance, mut turn)) = expected(&handle, peer, open).await else {
        return tracing::debug!(peer = %peer.short(), "a workload stream without a lease");
    };
    let receiving = async {
        tokio::time::sleep(allowance.debt(Instant::now())).await;
        loop {
            let frame = match frames.recv().await {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(error) => return tracing::debug!(%error, "a workload stream broke"),
            };
            handle.metrics().message(Way::In, WORKLOAD, frame.header.len() + frame.body.len());
            let (said, length) = match taken(&frame, &bodies, open.acks) {
                Ok(taken) => taken,
                Err(error) => {
                    // Once for each stream, which ends with it.
                    tracing::warn!(peer = %peer.short(), %error, "a workload message that is none");
                    return tokio::time::sleep(allowance.breach(Instant::now())).await;
                }
            };
            let wait = allowance.frame(Instant::now(), statements(&said), length);
            handle.tell(Input::Workload { peer, contract, frame: said }).await;
            tokio::time::sleep(wait).await;
        }
    };
    tokio::select! { () = receiving => {} () = turn.over() => {} }
}

/// The bodies' place, what the peer may, and its stream's turn, if there is such a lease
/// with it. The peer may know of it a moment before we do, if both are about to sign. It may still
/// speak of one that is over here, and is not listened to.
async fn expected(
    handle: &Handle,
    peer: PublicKey,
    Open { contract, acks }: Open,
) -> Option<(Bodies, Arc<Allowance>, Turn)> {
    let known = move |driver: &Driver| {
        let deal = driver.agent().broker().deal(&contract);
        let deal = deal.filter(|deal| deal.peer_key() == peer);
        let begins = deal.is_some_and(|deal| deal.is_signed_once() || deal.is_leased());
        let lease = driver.lease(&contract).filter(|lease| lease.peer() == peer);
        let lease =
            lease.map(|lease| (lease.bodies(), lease.allowance(), lease.allowance().open(acks)));
        (lease.is_some() || !begins).then_some(lease)
    };
    handle.look_until(limits::LEASE_WAIT, known).await.flatten()
}

/// A message, and the bodies that it names kept; how long these are. Of what was refused there
/// never was anything that could be seen to go: home's word is all there is.
fn taken(
    frame: &mercato_net::Frame,
    bodies: &Bodies,
    acks: bool,
) -> Result<(Frame, usize), Untaken> {
    let message = Message::from_bytes(&frame.header)?;
    let length = message.bodies().iter().map(|body| body.length as usize).sum();
    let named = match &message {
        Message::ToGuest { frame, .. } => by_digest(frame.statements.iter().filter_map(to_guest)),
        Message::ToHome { frame, .. } => by_digest(frame.statements.iter().filter_map(to_home)),
    };
    for body in message.split_bodies(&frame.body)?.values() {
        bodies.receive(body, &named)?;
    }
    if let Message::ToGuest { frame, .. } = &message {
        frame.statements.iter().filter_map(forgotten).for_each(|item| bodies.forget(&item));
    }
    let said = match message {
        Message::ToGuest { frame, .. } => Frame::ToGuest(frame),
        Message::ToHome { frame, .. } => Frame::ToHome(frame),
    };
    if acks && !(is_ack(&said) && length == 0) { Err(Untaken::NoAck) } else { Ok((said, length)) }
}

/// Whether it only says what has arrived: its order does not matter.
fn is_ack(frame: &Frame) -> bool {
    match frame {
        Frame::ToGuest(frame) => !frame.answer && frame.statements.is_empty(),
        Frame::ToHome(frame) => !frame.answer && frame.statements.is_empty(),
    }
}

fn by_digest(named: impl Iterator<Item = (Digest, Item)>) -> BTreeMap<Digest, Vec<Item>> {
    let mut by_digest = BTreeMap::<_, Vec<_>>::new();
    named.for_each(|(digest, item)| by_digest.entry(digest).or_default().push(item));
    by_digest
}

/// Why what came is no message.
#[derive(Debug, thiserror::Error)]
enum Untaken {
    #[error(transparent)]
    Message(#[from] CodecError),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("a statement on the stream for acknowledgements")]
    NoAck,
}

fn statements(frame: &Frame) -> usize {
    match frame {
        Frame::ToGuest(frame) => frame.statements.len(),
        Frame::ToHome(frame) => frame.statements.len(),
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::key::{PodId, Uid};
    use mercato_protocol::id::ClusterId;
    use mercato_protocol::workload::Route;
    use serde_json::json;

    use super::*;

    const STATEMENT: usize = 60_000;

    fn pod(name: &str) -> PodId {
        let name = name.to_owned();
        PodId { uid: Uid(name.clone()), namespace: "shop".to_owned(), name }
    }

    /// What home sends with its objects: one of `pod`'s that differs by `n`.
    fn put(home: &Bodies, pod: &PodId, n: usize) -> (Digest, ToGuest) {
        let item = Item::Pod(pod.clone());
        let object = json!({ "kind": "Pod", "n": n, "fill": "x".repeat(STATEMENT) });
        let digest = home.keep(&item, &object).unwrap();
        let origin = ClusterId([1; 32]);
        let route = Route { origin, path: vec![origin], hops: 1 };
        (digest, ToGuest::Put { item, digest, route, place: None })
    }

    /// Home says this, and the provider takes it.
    fn said(home: &Bodies, provider: &Bodies, statement: ToGuest) {
        let statements = vec![statement];
        let frame = mercato_offload::message::Frame {
            from: 1,
            to: 1,
            seq: 1,
            ack: 0,
            answer: true,
            statements,
        };
        taken(&framed(Frame::ToGuest(frame), home).unwrap(), provider, false).unwrap();
    }

    fn frame(answer: bool, statements: Vec<ToGuest>) -> Frame {
        let (from, to, seq, ack) = (1, 1, u64::from(answer), 0);
        Frame::ToGuest(mercato_offload::message::Frame { from, to, seq, ack, answer, statements })
    }

    #[tokio::test]
    async fn acknowledgements_wait_behind_no_body() {
        let (home, provider) = (Bodies::default(), Bodies::default());
        let (frames, mut said) = mpsc::channel(limits::FRAMES);
        let (acks, mut acked) = mpsc::channel(limits::FRAMES);
        let idle = || tokio::spawn(async {}).abort_handle();
        let sending = [idle(), idle()];
        let out =
            Outbound { peer: PublicKey([1; 32]), frames, acks, metrics: Metrics::new(), sending };
        let (body, question, ack) = (
            frame(true, vec![put(&home, &pod("web"), 0).1]),
            frame(true, vec![]),
            frame(false, vec![]),
        );
        [&body, &question, &ack].into_iter().for_each(|frame| out.send(frame.clone()));
        // A question is about all that was said before it, and keeps its place.
        assert_eq!((said.try_recv(), said.try_recv()), (Ok(body.clone()), Ok(question)));
        assert_eq!(acked.try_recv(), Ok(ack.clone()));
        assert!(said.try_recv().is_err() && acked.try_recv().is_err());
        // Their stream has no place for anything else.
        let taken = |frame, acks| taken(&framed(frame, &home).unwrap(), &provider, acks);
        assert!(taken(ack, true).is_ok() && taken(body.clone(), false).is_ok());
        assert!(matches!(taken(body, true), Err(Untaken::NoAck)));
    }

    #[test]
    fn the_body_of_a_pod_that_never_was_goes_when_home_forgets_it() {
        for forgets in [false, true] {
            let (home, provider) = (Bodies::default(), Bodies::default());
            let (digest, refused) = put(&home, &pod("refused"), 0);
            said(&home, &provider, refused);
            if forgets {
                said(&home, &provider, ToGuest::Forget(pod("refused")));
            }
            assert!(provider.bytes(&digest).is_some(), "a write of it may be under way");
            for n in 0..=mercato_kubelet::limits::SPARE_BODIES / STATEMENT + 1 {
                let (_, changed) = put(&home, &pod("changes"), n);
                said(&home, &provider, changed);
            }
            assert_eq!(provider.bytes(&digest).is_none(), forgets);
        }
    }
}
