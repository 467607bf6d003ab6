//! What a shard has opened.

use crate::peer_index::PeerIndex;
use crate::room::Room;

/// A packet that was opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// Who sealed it.
    pub peer: PeerIndex,
    /// The packet that it carried, or completed; nothing if it was none, as in a keepalive.
    pub packet: &'a mut [u8],
    /// How large packets to whoever sealed it may be.
    pub room: Room,
}
