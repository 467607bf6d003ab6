//! Every bound of this crate. Those without a source are guesses.

use std::time::Duration;

/// The largest datagram that can be received, or batch of datagrams that the kernel has put
/// together.
pub(crate) const RECEIVE_BYTES: usize = 65_535;
/// Datagrams that the kernel cuts out of one send (`UDP_MAX_SEGMENTS` before Linux 6.9).
pub(crate) const SEND_SEGMENTS: usize = 64;
/// Bytes of one send: what one UDP packet may have.
pub(crate) const SEND_BYTES: usize = 65_507;
/// A packet of a device with its header: IP's largest.
pub(crate) const DEVICE_BYTES: usize = 65_535 + 10;
/// Packets read from one side before the other is looked at.
pub(crate) const BATCH: usize = 32;
/// Datagrams that are no sealed packets, of one sender at one time, that are looked at. A guess: a
/// gateway sends one in seconds.
pub(crate) const HANDSHAKES_AT_ONCE: usize = 4;
/// What a socket keeps until it is read. With less, bursts of super-segments are lost.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// What the socket of handshakes keeps until it is read: some 800 of them, with the kernel's own
/// bookkeeping.
pub(crate) const HANDSHAKE_BUFFER_BYTES: usize = 1 << 20;
/// Datagrams of handshakes that are read in a millisecond. A guess: a hundred thousand in a second
/// are read, of which the endpoint looks at few; what is more the kernel drops.
pub(crate) const HANDSHAKES_A_MS: usize = 128;
/// The largest datagram of a handshake: what is longer is none.
pub(crate) const HANDSHAKE_BYTES: usize = 2_048;
/// What a socket keeps at most until it is on its way. What is more waits in the queues of leases,
/// where they share evenly.
pub(crate) const SEND_BUFFER_BYTES: usize = 1 << 20;
/// What it keeps before anything is known of the link. A guess: 10 ms at 100 Mbit/s.
pub(crate) const SEND_BUFFER_FIRST_BYTES: usize = 128 << 10;
/// What it keeps at least: with its own bookkeeping, one large send.
pub(crate) const SEND_BUFFER_LEAST_BYTES: usize = 32 << 10;
/// In between: what leaves in so many ms. A guess: less than a delay that TCP minds, and more than
/// a processor is busy with other things.
pub(crate) const SEND_BUFFER_MS: u64 = 5;
/// What the shards saw is carried to the endpoint so often.
pub(crate) const ACTIVITY: Duration = Duration::from_millis(250);
/// Room for datagrams that were sealed and not sent yet: four sends, and more than the pieces of
/// one packet ever need that are not tiny.
pub(crate) const SEALED_ROOM: usize = 4 * 65_536;
/// Commands that wait to be taken.
pub(crate) const COMMANDS: usize = 256;
/// What stands around an inner packet on the link, over IPv4: IP, UDP, header and tag.
pub(crate) const OUTER_BYTES: usize = 20 + 8 + mercato_session::limits::SEALED_BYTES;
/// Orders that wait for one shard. A guess: whoever gives more waits.
pub(crate) const ORDERS: usize = 1_024;
/// Batches of sealed packets that wait for their shard after another has received them. A guess:
/// what is more is lost.
pub(crate) const ASTRAY: usize = 64;
/// What the shards have to tell, before it is taken. A guess: what is more waits, or is lost.
pub(crate) const NOTICES: usize = 1_024;
/// Shards of a gateway, at most.
pub(crate) const SHARDS: usize = mercato_session::limits::SHARDS;
/// Packets of TCP have so many bytes at most until it is known what the way to a peer takes, and from
/// one guest here to another: a path of 1,500 bytes takes them whole over IPv6, and so does what a
/// cluster's own nodes have between them.
pub(crate) const UNSETTLED_BYTES: usize = 1_400;
