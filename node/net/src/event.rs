//! What peers did, for the driver.

use std::time::Duration;

use bytes::Bytes;
use mercato_discovery::Address;
use mercato_protocol::id::PublicKey;
use mercato_protocol::tunnel::Ask;

use crate::held::Held;
use crate::kubelet::KubeletAnswer;
use crate::requests::Responder;
use crate::session::Session;
use crate::tunnel::TunnelResponder;
use crate::workload::WorkloadReceiver;

/// See the module. While events wait, peers wait: take them in a task that never waits
/// for an answer of [`Net`](crate::Net)'s. What a stream had brought may still come after
/// [`Event::Disconnected`].
#[derive(Debug)]
pub enum Event {
    /// The first connection with a peer is up, and its key proven. Of two connections the
    /// second becomes the first when that closes: the peer is disconnected and connected.
    Connected {
        /// Who.
        peer: PublicKey,
        /// Until it is disconnected.
        session: Session,
        /// The other end, if it has an address of ours' kind; of an inbound TCP
        /// connection the port is not one to dial.
        address: Option<Address>,
        /// Whether we dialled.
        dialled: bool,
    },
    /// The last connection with a peer is gone.
    Disconnected {
        /// Who.
        peer: PublicKey,
        /// The peer has closed it, or its process has ended: it did not break.
        by_peer: bool,
    },
    /// A partner has not answered for some time, though it is connected.
    Silent {
        /// The partner, by its key.
        peer: PublicKey,
        /// How long ago it answered last.
        silent: Duration,
    },
    /// A partner that was silent answers again, over the same connection.
    Heard {
        /// The partner, by its key.
        peer: PublicKey,
    },
    /// A round trip was measured; every few seconds.
    Rtt {
        /// With whom.
        peer: PublicKey,
        /// How long it took.
        rtt: Duration,
    },
    /// A peer says where it can be dialled: its own word, a hint.
    Addresses {
        /// Who.
        peer: PublicKey,
        /// Where; perhaps nowhere.
        addresses: Vec<Address>,
    },
    /// A gossip frame.
    Gossip {
        /// From whom.
        peer: PublicKey,
        /// The bytes, at most [`limits::GOSSIP_BYTES`](crate::limits::GOSSIP_BYTES).
        frame: Bytes,
        /// To be kept until it is dealt with.
        held: Held,
    },
    /// A request to be answered within 30 s.
    Request {
        /// Whose.
        peer: PublicKey,
        /// The bytes, at most [`limits::REQUEST_BYTES`](crate::limits::REQUEST_BYTES).
        request: Bytes,
        /// To be kept until it is dealt with.
        held: Held,
        /// Takes the answer.
        responder: Responder,
    },
    /// A peer opened its direction of a lease.
    Workload {
        /// Who.
        peer: PublicKey,
        /// Which lease, in the rooms' words.
        header: Bytes,
        /// To be kept until the header is dealt with.
        held: Held,
        /// Its frames.
        frames: WorkloadReceiver,
    },
    /// A peer asks for a kubelet stream.
    Kubelet {
        /// Who.
        peer: PublicKey,
        /// What for.
        request: Bytes,
        /// To be kept until the request is dealt with.
        held: Held,
        /// Takes the reply and gives the stream.
        answer: KubeletAnswer,
    },
    /// A question about the tunnel, to be answered within 30 s.
    Tunnel {
        /// Whose it is, by its connection.
        peer: PublicKey,
        /// The question; of a list in it nothing was checked.
        ask: Ask,
        /// To be kept until it is dealt with.
        held: Held,
        /// Takes the answer to it.
        responder: TunnelResponder,
    },
    /// We can be reached here; one for each local address.
    Listening {
        /// Where.
        address: Address,
    },
    /// We can no longer be reached here.
    NotListening {
        /// Where.
        address: Address,
    },
    /// The port is another program's; [`Event::Listening`] tells the free one that was
    /// taken instead.
    PortTaken {
        /// Where we wanted to listen.
        address: Address,
    },
    /// We cannot listen here.
    ListenFailed {
        /// Where we wanted to.
        address: Address,
        /// Why not.
        reason: String,
    },
}
