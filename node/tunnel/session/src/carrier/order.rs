//! What a carrier wants of the shards.

use std::sync::Arc;

use crate::address_table::AddressTable;
use crate::control::Control;
use crate::path_mtu::Path;
use crate::peer_index::PeerIndex;
use crate::session_keys::SessionKeys;
use crate::via::Via;

/// What each shard is to do.
#[derive(Clone, Debug)]
pub enum Order {
    /// Take the keys of a session with this peer: open by it.
    Install(PeerIndex, SessionKeys),
    /// Seal by the session of this index of ours, and first what waits for one.
    SealWith(PeerIndex, u32),
    /// Forget the session of this index of ours, and erase its keys.
    RemoveSession(u32),
    /// Send what is for this peer there.
    Address(PeerIndex, Via),
    /// Send this peer packets that fit this path.
    Path(PeerIndex, Path),
    /// Forget this peer, and all sessions with it.
    RemovePeer(PeerIndex),
    /// Look addresses up here from now on, and drop what waits of leases that are not there.
    Table(Arc<AddressTable>),
}

/// What one shard is to say.
#[derive(Clone, Debug)]
pub enum Say {
    /// A datagram that is not sealed, as it is.
    Datagram(Via, Vec<u8>),
    /// What is no packet of a pod, sealed, where packets to this peer go.
    Control(PeerIndex, Control),
    /// A challenge, sealed, to where this peer may be.
    Challenge(PeerIndex, Via, u64),
}
