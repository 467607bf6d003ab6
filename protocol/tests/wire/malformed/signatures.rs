//! Signatures and their headers that are not what they should be.

use super::*;

/// Envelopes whose header is not exactly what it must be.
pub(super) fn headers() -> Vec<Case> {
    let payload = samples::ad_header(&samples::small_body()).to_bytes().unwrap();
    let key_id = samples::provider().public().0.to_vec();
    let header =
        |algorithm, key_id| HeaderBuilder::new().algorithm(algorithm).key_id(key_id).build();
    let good = header(iana::Algorithm::EdDSA, key_id.clone());
    let make = |protected, unprotected| {
        let lan = FederationId::lan();
        envelope(lan, &samples::PROVIDER_SEED, "ad-lease", &payload, protected, unprotected)
    };
    let more = HeaderBuilder::new()
        .algorithm(iana::Algorithm::EdDSA)
        .content_format(iana::CoapContentFormat::Cbor)
        .key_id(key_id.clone())
        .build();
    let plain = Header::default();
    let detached = {
        let mut bytes = samples::signed_header().as_bytes()[..41].to_vec();
        bytes.extend([0xa0, 0xf6, 0x58, 0x40]);
        bytes.extend([0; 64]);
        bytes
    };
    let longer = [samples::signed_header().as_bytes(), &[0]].concat();
    let tagged = [&[0xd2], samples::signed_header().as_bytes()].concat();
    [
        (
            "another algorithm",
            make(header(iana::Algorithm::ES256, key_id.clone()), plain.clone()),
            "Header",
        ),
        (
            "a key id one byte short",
            make(header(iana::Algorithm::EdDSA, key_id[1..].to_vec()), plain.clone()),
            "Header",
        ),
        ("no protected header", make(plain.clone(), good.clone()), "Header"),
        ("one more protected header", make(more, plain), "Header"),
        ("an unprotected header", make(good.clone(), good), "Header"),
        ("a tagged envelope", tagged, "Unsupported"),
        ("a byte after the envelope", longer, "Trailing"),
        ("a payload elsewhere", detached, "Unsupported"),
        ("no envelope", payload, "Expected"),
    ]
    .map(|(name, bytes, error)| ("ad-lease", name, bytes, error))
    .into()
}

/// Signatures that do not hold, and signers that may not.
pub(super) fn signatures() -> Vec<Case> {
    let lan = FederationId::lan();
    let header = samples::ad_header(&samples::small_body());
    let good = samples::signed_header().as_bytes().to_vec();
    let changed = |at: usize| {
        let mut bytes = good.clone();
        let at = bytes.len() - at;
        bytes[at] ^= 1;
        bytes
    };
    let short = [&good[..good.len() - 66], &[0x58, 63], &good[good.len() - 63..]].concat();
    let elsewhere = samples::provider().sign(FederationId([9; 32]), &header).unwrap();
    let withdraw = samples::provider().sign(lan, &samples::withdraw()).unwrap();
    let (_, request) = samples::negotiation().swap_remove(0);
    let stranger = KeyPair::from_seed(&[3; 32]).sign(lan, &request).unwrap();
    let seller: Signed<_> = samples::provider().sign(lan, &request).unwrap();
    let receipt = KeyPair::from_seed(&[3; 32]).sign(lan, &samples::receipt(0)).unwrap();
    let identity = {
        let mut other = samples::consumer_identity().open_identity(samples::NOW).unwrap();
        other.key = samples::consumer().public();
        mercato_protocol::identity::Identity {
            key: other.key,
            name: other.name,
            issued_ms: samples::NOW.wall_ms,
            previous: None,
        }
    };
    let identity = samples::provider().sign(FederationId::NONE, &identity).unwrap();
    vec![
        ("ad-lease", "a bit of the signature changed", changed(1), "Signature"),
        ("ad-lease", "a bit of the payload changed", changed(70), "Signature"),
        ("ad-lease", "a signature one byte short", short, "Signature"),
        ("ad-lease", "s not reduced", unreduced(&good), "Signature"),
        ("ad-lease", "a key of small order", small_order(), "Signature"),
        ("ad-lease", "for another federation", elsewhere.as_bytes().to_vec(), "Signature"),
        ("ad-lease", "of another type", withdraw.as_bytes().to_vec(), "Signature"),
        ("negotiation", "by a stranger", stranger.as_bytes().to_vec(), "UnknownSigner"),
        ("negotiation", "by the other side", seller.as_bytes().to_vec(), "WrongSigner"),
        ("receipt", "by a stranger", receipt.as_bytes().to_vec(), "UnknownSigner"),
        ("identity", "a key signed by another", identity.as_bytes().to_vec(), "WrongSigner"),
    ]
}

/// The same signature with the group's order added to its second half: it holds under
/// the equation, and is refused since it would give one message two encodings.
fn unreduced(good: &[u8]) -> Vec<u8> {
    const ORDER: &str = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";
    let mut bytes = good.to_vec();
    let start = bytes.len() - 32;
    let mut carry = 0;
    for (byte, add) in bytes[start..].iter_mut().zip(hex::decode(ORDER).unwrap()) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
    bytes
}

/// The neutral point as key and commitment, zero as response: the plain equation holds
/// for every message.
fn small_order() -> Vec<u8> {
    let neutral = [&[1][..], &[0; 31]].concat();
    let header = HeaderBuilder::new().algorithm(iana::Algorithm::EdDSA).key_id(neutral.clone());
    let payload = samples::ad_header(&samples::small_body()).to_bytes().unwrap();
    CoseSign1Builder::new()
        .protected(header.build())
        .payload(payload)
        .create_signature(&[], |_| [neutral.clone(), vec![0; 32]].concat())
        .build()
        .to_vec()
        .unwrap()
}
