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
/// Packets that wait for a session, of all peers together; of more the oldest go.
pub(crate) const WAITING: usize = 64;
/// What a socket buffers, each way. With less, bursts of a super-segment are lost.
pub(crate) const SOCKET_BYTES: usize = 4 << 20;
/// What the shards saw is carried to the endpoint so often.
pub(crate) const ACTIVITY: Duration = Duration::from_millis(250);
/// Commands that wait to be taken.
pub(crate) const COMMANDS: usize = 256;
/// What stands around an inner packet on the link, over IPv4: IP, UDP, header and tag.
pub(crate) const OUTER_BYTES: usize = 20 + 8 + mercato_session::limits::SEALED_BYTES;
