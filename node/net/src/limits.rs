//! Every bound of this crate. Those without a source are guesses.

use std::time::Duration;

use mercato_protocol::bounded::Room;
use mercato_protocol::limits as wire;

/// How many connections and streams are granted.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Inbound connections in their handshake, and some more from where those who are known have
    /// come before.
    pub pending_inbound: usize,
    /// Outbound connections in their handshake.
    pub pending_outbound: u32,
    /// Established inbound connections. Strangers leave for members, and both for partners.
    pub inbound: usize,
    /// Of those, strangers': the first to come stay.
    pub strangers: usize,
    /// Established outbound connections. The directory dials few of its own choice; the others
    /// are those that contracts need.
    pub outbound: u32,
    /// Connections with one peer: one, one more when both dial at one moment, and the same for
    /// one that has just come back, until those of before have ended.
    pub per_peer: u32,
    /// Inbound streams of one peer: for requests and gossip; and as many for leases, until
    /// [`Net::grant_streams`](crate::Net::grant_streams).
    pub streams_per_peer: usize,
    /// Memory of this process beyond which no stranger is let in any more,
    pub strangers_memory_bytes: usize,
    /// and beyond which no member is. Partners are never refused for memory.
    pub members_memory_bytes: usize,
    /// The body of a gossip frame that does not come within this time, once its length has, ends
    /// its stream.
    pub body_timeout: Duration,
    /// Between two pings of one connection.
    pub ping_interval: Duration,
    /// A ping without an answer so long has failed; after the second the peer is gone.
    pub ping_timeout: Duration,
}

impl Default for Limits {
    /// What docs/security.md says under "Who leaves first".
    fn default() -> Self {
        Self {
            pending_inbound: 64,
            pending_outbound: 32,
            inbound: 1_000,
            strangers: 64,
            outbound: 1_000,
            per_peer: 4,
            streams_per_peer: 16,
            strangers_memory_bytes: 1 << 30,
            members_memory_bytes: 2 << 30,
            // As long as the other side tries to write it.
            body_timeout: STALLED,
            ping_interval: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(15),
        }
    }
}

/// Inbound connections of strangers from one public IPv4 address, from its /24, and from one IPv6
/// /56. Those who are known are not counted: they may be behind the same address.
pub const PER_IPV4: usize = 3;
/// See [`PER_IPV4`].
pub const PER_IPV4_24: usize = 8;
/// See [`PER_IPV4`].
pub const PER_IPV6_56: usize = 4;
/// The same from one private, link-local or loopback address: many clusters may be behind one,
/// by NAT or on one machine, but no single address takes all places of strangers.
pub const PER_PRIVATE: usize = 32;
/// Handshakes at a time with one public address, or IPv6 /56,
pub(crate) const PUBLIC_HANDSHAKES: usize = 4;
/// and with one private address.
pub(crate) const PRIVATE_HANDSHAKES: usize = 16;
/// Handshakes that one address begins at once, after a quiet time,
pub(crate) const HANDSHAKE_BURST: u32 = 64;
/// and then one in such a time: each costs some signatures.
pub(crate) const PUBLIC_PACE: Duration = Duration::from_millis(500);
/// The same of a private address.
pub(crate) const PRIVATE_PACE: Duration = Duration::from_millis(50);
/// Handshakes that are left to addresses from which those who are known have come.
pub(crate) const FAMILIAR_HANDSHAKES: usize = 16;
/// Addresses whose handshakes are counted, and from which those who are known have come: the
/// oldest leaves.
pub(crate) const ORIGINS: Room = Room { all: 4_096, strangers: 0, leave: 64 };
/// Peers that are refused for a while: the oldest leaves.
pub(crate) const REFUSED: Room = Room::of(1_024);

/// Streams of one TCP connection, both ways (yamux' own default).
pub(crate) const MUXED_STREAMS: usize = 512;
/// Inbound streams of one connection that negotiate their protocol.
pub(crate) const NEGOTIATING_STREAMS: usize = 16;
/// Unread bytes of one QUIC connection, whoever it is with: a window cannot be chosen by the peer.
/// With [`Limits::strangers`] that is 32 MiB of strangers, and at a round trip of 100 ms still
/// 5 MiB a second.
pub(crate) const QUIC_CONNECTION_BYTES: u32 = 512 << 10;
/// The same of one stream: several that wait do not stop the others.
pub(crate) const QUIC_STREAM_BYTES: u32 = 128 << 10;
/// The same with a stranger. Of 1 GiB (yamux' own default) each of so many has its first window of
/// 256 KiB, and nothing is left by which a window could grow: one stream that is not read never
/// reaches [`UNREAD_OF_STRANGER`] by itself, and so stops no other.
pub(crate) const MUXED_STREAMS_OF_STRANGER: usize = 4_096;
/// Unread bytes of one stranger's TCP connection, beyond which no more is read of it: those of one
/// stream whose window is full (yamux: 256 KiB), and some more for all others. With
/// [`Limits::strangers`] that is 20 MiB.
pub(crate) const UNREAD_OF_STRANGER: usize = 320 << 10;
/// Bytes that a stranger may put into one frame of yamux, for which memory is taken before they
/// come. Ours puts 16 KiB into one.
pub(crate) const MUXED_FRAME_OF_STRANGER: usize = 64 << 10;

/// One gossip frame.
pub const GOSSIP_BYTES: usize = wire::GOSSIP_BYTES;
/// Gossip that waits for one slow neighbour; the oldest gives way.
pub const GOSSIP_QUEUE_BYTES: usize = 1 << 20;
/// The same for a stranger. With [`Limits::strangers`] that is 16 MiB.
pub const GOSSIP_QUEUE_OF_STRANGER: usize = GOSSIP_BYTES;
/// A request.
pub const REQUEST_BYTES: usize = wire::REQUEST_BYTES;
/// The answer to a request.
pub const RESPONSE_BYTES: usize = wire::RESPONSE_BYTES;
/// What opens a workload stream.
pub const WORKLOAD_OPEN_BYTES: usize = wire::OPEN_BYTES;
/// The header of a workload frame.
pub const WORKLOAD_HEADER_BYTES: usize = wire::WORKLOAD_BYTES;
/// The body of a workload frame.
pub const WORKLOAD_BODY_BYTES: usize = wire::OBJECT_BYTES;
/// A kubelet stream's request, and its reply.
pub const KUBELET_BYTES: usize = wire::STREAM_BYTES;
/// A request that is longer, of a peer that takes it; a stranger's is no longer than
/// what one may make us hold of words.
pub const LONG_KUBELET_BYTES: usize = wire::LONG_STREAM_BYTES;
/// A question about the tunnel, and its answer.
pub const TUNNEL_BYTES: usize = wire::TUNNEL_BYTES;

/// What one peer who is known may make us hold at a time, over all its connections: gossip, two of
/// the largest frames,
pub(crate) const GOSSIP_OF_KNOWN: usize = 2 * GOSSIP_BYTES;
/// and requests, with what opens streams of leases.
pub(crate) const WORDS_OF_KNOWN: usize = 1 << 20;
/// The same of a stranger: one of the largest frames,
pub(crate) const GOSSIP_OF_STRANGER: usize = GOSSIP_BYTES;
/// and three of the largest requests with their answers.
pub(crate) const WORDS_OF_STRANGER: usize = 128 << 10;
/// What all strangers together may make us hold at a time. Those who can be connected do not wait
/// for each other; this also holds for keys that come and go.
pub(crate) const GOSSIP_OF_STRANGERS: usize = 64 * GOSSIP_OF_STRANGER;
/// See [`GOSSIP_OF_STRANGERS`].
pub(crate) const WORDS_OF_STRANGERS: usize = 64 * WORDS_OF_STRANGER;
/// What the answer to a request counts, besides the request. What it says is ours to choose: few
/// are as large. A guess.
pub(crate) const ANSWER_BYTES: usize = 16 << 10;
/// Peers of which it is known what they make us hold, also for a while after they have gone: more
/// than can be connected. Those of which nothing is held leave first.
pub(crate) const HOLDERS: Room = Room { all: 4_096, strangers: 0, leave: 64 };
/// Events that wait for the driver: with the largest gossip frames, 16 MiB.
pub(crate) const EVENTS: usize = 64;
/// Calls that wait for the swarm.
pub(crate) const COMMANDS: usize = 64;
/// Addresses of a peer's own word, or of one DNS name.
pub(crate) const ADDRESSES: usize = 8;

/// A connection without streams closes after this time; the market's stream keeps that
/// of a neighbour.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// Two connections between the same two that come within this time: both have dialled.
pub(crate) const BOTH_DIAL: Duration = Duration::from_secs(5);
/// Connections that a peer opens within this time: one of several that it dialled at once, beside
/// one over which it was silent.
pub(crate) const SAME_MOMENT: Duration = Duration::from_secs(2);
/// A connection over which the peer has not said so long which run it is, though it did over a
/// later one, is dead: identification takes a round trip.
pub(crate) const SILENT_RUN: Duration = Duration::from_secs(1);
/// A partner is asked so often whether it is there: a cut of nine seconds is none yet, and one of
/// ten is (`mercato_offload::limits::SILENCE_S`), with what it takes to meet again.
pub(crate) const PULSE: Duration = Duration::from_millis(400);
/// Bytes that are read of its answers, or its questions, at once.
pub(crate) const PULSE_BYTES: usize = 16;
/// It is looked so often who is silent.
pub(crate) const PULSE_LOOK: Duration = Duration::from_millis(200);
/// Who has not answered for so long is silent: that is told, and it is dialled beside the connection
/// that there is. TCP and QUIC say again what was lost after twice as long each time, which after
/// ten seconds is another ten.
pub(crate) const SILENT: Duration = Duration::from_millis(1_500);
/// It is dialled so often, at first,
pub(crate) const RENEW: Duration = Duration::from_millis(400);
/// for so long after its last answer,
pub(crate) const RENEW_SOON: Duration = Duration::from_secs(20);
/// and then once in so long,
pub(crate) const RENEW_LATER: Duration = Duration::from_secs(1);
/// until nothing has been heard for so long.
pub(crate) const RENEW_FOR: Duration = Duration::from_secs(600);
/// So many of these dials are under way at once, of those that may be in all
/// ([`Limits::pending_outbound`]),
pub(crate) const RENEWALS: usize = 24;
/// and so many to one partner.
pub(crate) const RENEWALS_OF_ONE: usize = 6;
/// One key may connect to us so often at once: more than a daemon that crashes as it starts,
pub(crate) const CONNECTS: u32 = 10;
/// and then once in so long.
pub(crate) const CONNECT_EACH: Duration = Duration::from_secs(1);
/// Keys of which that is remembered: more than connect in ten seconds.
pub(crate) const PACED: usize = 1_024;
/// To open a stream, and to read the first frame of one.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// From a request to its answer.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A neighbour that takes no gossip for so long is dropped.
pub(crate) const STALLED: Duration = Duration::from_secs(30);
/// What was said over a connection, and is not dealt with so long after its end, is dropped.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(2);
/// A look at the memory of the process holds for so long.
pub(crate) const MEMORY_LOOK: Duration = Duration::from_millis(100);
/// To send what is queued before the end.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);
