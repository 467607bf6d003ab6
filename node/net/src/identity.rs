//! Our keys and libp2p's names for them: an Ed25519 peer id holds the key itself.

use libp2p::PeerId;
use libp2p::identity::{self, ed25519};
use mercato_protocol::id::PublicKey;

/// What comes before the key in the bytes of an Ed25519 peer id: an identity multihash
/// of 36 bytes, which are a protobuf of the key's type and 32 bytes.
const PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// The peer id of a key; `None` if it is no point of the curve.
pub(crate) fn peer_id(key: PublicKey) -> Option<PeerId> {
    let key = ed25519::PublicKey::try_from_bytes(key.as_bytes()).ok()?;
    Some(identity::PublicKey::from(key).to_peer_id())
}

/// The key of a peer id; `None` if it is of another type.
pub(crate) fn public_key(peer: &PeerId) -> Option<PublicKey> {
    let bytes = peer.to_bytes();
    bytes.strip_prefix(&PREFIX)?.try_into().ok().map(PublicKey)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_id_holds_the_key() {
        let keypair = identity::Keypair::ed25519_from_bytes([7; 32]).unwrap();
        let key = PublicKey(keypair.clone().try_into_ed25519().unwrap().public().to_bytes());
        let peer = keypair.public().to_peer_id();
        assert_eq!(public_key(&peer), Some(key));
        assert_eq!(peer_id(key), Some(peer));
    }

    #[test]
    fn what_is_no_key_has_no_peer_id() {
        assert_eq!(peer_id(PublicKey([2; 32])), None);
        let other = PeerId::from_multihash(multihash([0x12, 32])).unwrap();
        assert_eq!(public_key(&other), None);
    }

    /// A SHA-256 multihash, as keys of other types have.
    fn multihash(head: [u8; 2]) -> libp2p::multihash::Multihash<64> {
        let bytes = [&head[..], &[0; 32]].concat();
        libp2p::multihash::Multihash::from_bytes(&bytes).unwrap()
    }
}
