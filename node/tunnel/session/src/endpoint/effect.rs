//! What an endpoint wants to be done.

use mercato_protocol::id::ClusterId;

use crate::control::Control;
use crate::path_mtu::Path;
use crate::peer_index::PeerIndex;
use crate::session_keys::SessionKeys;
use crate::via::Via;

/// What is to be done, in this order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Send this datagram.
    Send(Via, Vec<u8>),
    /// Give each shard these keys.
    Install(PeerIndex, SessionKeys),
    /// Let each shard seal by the session of this index of ours.
    SealWith(PeerIndex, u32),
    /// Let one shard seal this, and send it where packets to this peer go.
    Control(PeerIndex, Control),
    /// Let one shard seal this challenge, and send it there.
    Challenge(PeerIndex, Via, u64),
    /// Tell each shard what is known of the way to this peer.
    Path(PeerIndex, Path),
    /// Let each shard forget the session of this index of ours.
    RemoveSession(u32),
    /// Let each shard send there.
    Address(PeerIndex, Via),
    /// The link to this peer has come up, or gone down, by the secret of this cluster.
    Link(PeerIndex, Link, ClusterId),
}

/// Whether packets reach a peer, as far as this gateway can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// They do.
    Up,
    /// They do not; what the peer does meanwhile is not known.
    Down,
}
