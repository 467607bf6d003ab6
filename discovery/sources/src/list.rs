//! The owner's list: one text an entry.

use mercato_discovery::{Address, ParseAddressError, Sighting, SightingId, Source};
use mercato_protocol::id::PublicKey;
use thiserror::Error;

/// What comes before the key in the bytes of a libp2p peer id of an Ed25519 key.
const PEER_ID_PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// Why a text is not an entry of the list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{entry:?} is no address of a peer: {reason}")]
pub struct ListError {
    entry: String,
    reason: Reason,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum Reason {
    #[error(transparent)]
    Address(#[from] ParseAddressError),
    #[error("a port is missing")]
    NoPort,
    #[error("what follows /p2p/ is not the id of an Ed25519 key")]
    PeerId,
}

/// Reads `HOST:PORT`, `[IPV6]:PORT` (both transports), or a multiaddr, which may end in
/// `/p2p/PEER` to say who has to be there.
pub fn entry(text: &str) -> Result<Sighting, ListError> {
    let (addresses, peer) = parse(text.trim())
        .map_err(|reason| ListError { entry: text.chars().take(200).collect(), reason })?;
    let id = SightingId { source: Source::List, instance: text.trim().to_owned() };
    Ok(Sighting { id, peer, addresses })
}

fn parse(text: &str) -> Result<(Vec<Address>, Option<PublicKey>), Reason> {
    if !text.starts_with('/') {
        return match Address::parse_host_port(text) {
            Ok(both) => Ok((both.into(), None)),
            Err(ParseAddressError::Port(port)) if port.is_empty() => Err(Reason::NoPort),
            Err(error) => Err(error.into()),
        };
    }
    let (address, peer) = match text.split_once("/p2p/") {
        Some((address, peer)) => (address, Some(peer_key(peer).ok_or(Reason::PeerId)?)),
        None => (text, None),
    };
    Ok((vec![address.parse::<Address>()?], peer))
}

fn peer_key(text: &str) -> Option<PublicKey> {
    let bytes = bs58::decode(text).into_vec().ok()?;
    bytes.strip_prefix(&PEER_ID_PREFIX)?.try_into().ok().map(PublicKey)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<String> {
        entry(text).unwrap().addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_form_is_read() {
        let both = ["/ip4/192.0.2.1/udp/7474/quic-v1", "/ip4/192.0.2.1/tcp/7474"];
        assert_eq!(addresses(" 192.0.2.1:7474\n"), both);
        assert_eq!(addresses("[2001:db8::1]:7474")[1], "/ip6/2001:db8::1/tcp/7474");
        assert_eq!(addresses("hub.example:80")[0], "/dns/hub.example/udp/80/quic-v1");
        assert_eq!(addresses("/dns/hub.example/tcp/80"), ["/dns/hub.example/tcp/80"]);
    }

    #[test]
    fn a_multiaddr_may_name_the_peer() {
        // Of the key 0707…07, as libp2p writes it.
        let peer = bs58::encode([&PEER_ID_PREFIX[..], &[7; 32]].concat()).into_string();
        assert!(peer.starts_with("12D3KooW"));
        let sighting = entry(&format!("/ip4/192.0.2.1/tcp/7474/p2p/{peer}")).unwrap();
        assert_eq!(sighting.peer, Some(PublicKey([7; 32])));
        assert_eq!(sighting.addresses[0].to_string(), "/ip4/192.0.2.1/tcp/7474");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            ("192.0.2.1", "a port is missing"),
            ("192.0.2.1:x", "\"x\" is not a port from 1 to 65535"),
            ("2001:db8::1:7474", "\"2001:db8::1\" is not a host"),
            ("/ip4/192.0.2.1/udp/7474", "expected /ip4|ip6|dns/HOST/udp/PORT/quic-v1 or"),
            ("/ip4/192.0.2.1/tcp/1/p2p/12D3KooW", "the id of an Ed25519 key"),
            ("/ip4/192.0.2.1/tcp/1/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N", "Ed25519"),
        ] {
            let said = entry(text).unwrap_err().to_string();
            assert!(said.contains(reason), "{said}");
        }
    }
}
