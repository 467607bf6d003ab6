//! Workload frames and their bodies, from the agent to the streams of a lease.

use std::time::Duration;

use bytes::Bytes;
use mercato_agent::{Frame, Input, LeaseInput};
use mercato_kubelet::Bodies;
use mercato_net::{Net, NetError, WorkloadSender};
use mercato_offload::body::Found;
use mercato_offload::home;
use mercato_offload::key::Item;
use mercato_offload::message::{ToGuest, ToHome};
use mercato_protocol::codec::Message as _;
use mercato_protocol::id::{ContractId, Digest, PublicKey};
use mercato_protocol::limits::OBJECT_BYTES;
use mercato_protocol::workload::{BodyHead, Message, Open};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::kubernetes::Report;
use crate::limits;
use crate::telemetry::spans;
use crate::telemetry::{Metrics, Queue, Way};

/// As the metrics call them.
pub(in crate::driver) const WORKLOAD: &str = "workload";

/// Our direction of a lease: a stream that is opened with the first frame, and again
/// after it broke; and another for acknowledgements, which do not wait behind bodies. What gets
/// lost the sessions say again.
pub(in crate::driver) struct Outbound {
    peer: PublicKey,
    frames: mpsc::Sender<Frame>,
    acks: mpsc::Sender<Frame>,
    metrics: Metrics,
    sending: [AbortHandle; 2],
}

impl Outbound {
    /// With the bodies of a lease that is in this cluster. One of which nothing is left here, and
    /// which therefore has none, is seldom spoken of: its streams end where they rest.
    pub(in crate::driver) fn start(
        out: Out,
        bodies: Option<Bodies>,
        peer: PublicKey,
        contract: ContractId,
    ) -> Self {
        let rests = bodies.is_none().then_some(limits::OVER_RESTS);
        let (bodies, metrics) = (bodies.unwrap_or_default(), out.metrics.clone());
        let sender = |acks| {
            let (out, bodies) = (out.clone(), bodies.clone());
            let open = Open { contract, acks, refuses_bodies: true };
            Sender { out, bodies, peer, open, rests }
        };
        let start = |acks| {
            let (frames, queue) = mpsc::channel(limits::FRAMES);
            let sending = sender(acks).send_all(queue).instrument(spans::of_connection(&peer));
            (frames, tokio::spawn(sending).abort_handle())
        };
        let ((frames, one), (acks, other)) = (start(false), start(true));
        Self { peer, frames, acks, sending: [one, other], metrics }
    }

    /// Whether a stream of it has ended, as it had nothing to say.
    pub(in crate::driver) fn has_ended(&self) -> bool {
        self.frames.is_closed() || self.acks.is_closed()
    }

    /// How many frames wait to be sent.
    pub(in crate::driver) fn backlog(&self) -> usize {
        [&self.frames, &self.acks].map(|queue| queue.max_capacity() - queue.capacity()).iter().sum()
    }

    pub(in crate::driver) fn peer(&self) -> PublicKey {
        self.peer
    }

    /// Queues a frame; one too many is lost.
    pub(in crate::driver) fn send(&self, frame: Frame) {
        let queue = if is_ack(&frame) { &self.acks } else { &self.frames };
        if queue.try_send(frame).is_err() {
            self.metrics.dropped(Queue::Frames);
            tracing::debug!(peer = %self.peer.short(), "a slow peer loses a frame");
        }
    }
}

#[cfg(test)]
impl Outbound {
    /// One that sends nothing: what is queued can be read.
    pub(in crate::driver) fn queued(
        frames: mpsc::Sender<Frame>,
        acks: mpsc::Sender<Frame>,
    ) -> Self {
        let sending = [(); 2].map(|()| tokio::spawn(async {}).abort_handle());
        Self { peer: PublicKey([1; 32]), frames, acks, metrics: Metrics::new(), sending }
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        self.sending.iter().for_each(AbortHandle::abort);
    }
}

/// Where frames go, and what is told of that.
#[derive(Clone)]
pub(in crate::driver) struct Out {
    pub(in crate::driver) net: Net,
    pub(in crate::driver) metrics: Metrics,
    /// Takes what the session is to hear.
    pub(in crate::driver) report: Report,
}

struct Sender {
    out: Out,
    bodies: Bodies,
    peer: PublicKey,
    open: Open,
    /// It ends after so long without a frame.
    rests: Option<Duration>,
}

impl Sender {
    async fn next(&self, queue: &mut mpsc::Receiver<Frame>) -> Option<Frame> {
        match self.rests {
            Some(rests) => timeout(rests, queue.recv()).await.ok()?,
            None => queue.recv().await,
        }
    }

    async fn send_all(self, mut queue: mpsc::Receiver<Frame>) {
        let mut stream: Option<WorkloadSender> = None;
        while let Some(frame) = self.next(&mut queue).await {
            if stream.is_none() {
                stream = self.open().await.ok();
            }
            let Some(open) = &mut stream else { continue };
            let Some(Framed { framed, withheld }) = framed(frame, &self.bodies) else { continue };
            for withheld in withheld {
                let input = LeaseInput::Home(withheld);
                (self.out.report)(Input::Lease(self.open.contract, input)).await;
            }
            let bytes = framed.header.len() + framed.body.len();
            match open.send(framed).await {
                Ok(()) => self.out.metrics.message(Way::Out, WORKLOAD, bytes),
                Err(error) => {
                    tracing::debug!(%error, "a workload stream broke");
                    stream = None;
                }
            }
        }
    }

    async fn open(&self) -> Result<WorkloadSender, NetError> {
        let header = self.open.to_bytes().expect("an id is always a message");
        self.out.net.open_workload(self.peer, Bytes::from(header)).await
    }
}

/// A message with its bodies, and what the session is told of those that do not go with it.
pub(in crate::driver) struct Framed {
    pub(in crate::driver) framed: mercato_net::Frame,
    pub(in crate::driver) withheld: Vec<home::Input>,
}

/// The message, followed by the bodies that its statements name, as far as they are here, fit, and
/// may go to this peer.
pub(in crate::driver) fn framed(frame: Frame, bodies: &Bodies) -> Option<Framed> {
    let way = frame.way();
    let named: Vec<_> = match &frame {
        Frame::ToGuest(frame) => frame.statements.iter().filter_map(to_guest).collect(),
        Frame::ToHome(frame) => frame.statements.iter().filter_map(to_home).collect(),
    };
    let (mut heads, mut joined, mut length, mut withheld) = (Vec::new(), Vec::new(), 0, Vec::new());
    for (digest, item) in named {
        let bytes = match bodies.to_send(way, &digest, &item) {
            Found::Here(bytes) if length + bytes.len() <= OBJECT_BYTES => bytes,
            Found::Refused(refusal) => {
                withheld.push(home::Input::Withheld { item, digest, refusal });
                continue;
            }
            Found::Here(_) | Found::Missing => continue,
        };
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
        Ok(header) => {
            let framed = mercato_net::Frame { header: header.into(), body: joined.into() };
            Some(Framed { framed, withheld })
        }
        Err(error) => {
            tracing::error!(%error, "a workload message that cannot be said");
            None
        }
    }
}

/// The body that a statement names, and what it is of.
pub(in crate::driver) fn to_guest(statement: &ToGuest) -> Option<(Digest, Item)> {
    match statement {
        ToGuest::Put { digest, item, .. } => Some((*digest, item.clone())),
        ToGuest::Delete { .. }
        | ToGuest::Drop(_)
        | ToGuest::Discard(_)
        | ToGuest::Want(_)
        | ToGuest::Taken(_)
        | ToGuest::Forget(_)
        | ToGuest::Address { .. } => None,
    }
}

pub(in crate::driver) fn to_home(statement: &ToHome) -> Option<(Digest, Item)> {
    match statement {
        ToHome::Status { report, pod } => Some((report.status?, Item::Pod(pod.clone()))),
        ToHome::Have { .. }
        | ToHome::HaveEnd
        | ToHome::Refused { .. }
        | ToHome::Missing(_)
        | ToHome::Event { .. }
        | ToHome::InForce { .. } => None,
    }
}

/// Whether it only says what has arrived: its order does not matter.
pub(in crate::driver) fn is_ack(frame: &Frame) -> bool {
    match frame {
        Frame::ToGuest(frame) => !frame.answer && frame.statements.is_empty(),
        Frame::ToHome(frame) => !frame.answer && frame.statements.is_empty(),
    }
}
