//! The examples of `tests/vectors/tunnel.json`: messages with all keys, for whoever writes another
//! gateway (docs/wire.md). `SHOW_VECTORS=1 cargo test -p mercato-session the_vectors -- --nocapture`
//! prints them anew, and the difference shows what changed on the wire.

use std::net::SocketAddr;

use chacha20poly1305::aead::Aead as _;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit as _};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha20Rng;
use serde_json::{Value, json};

use crate::control::{Control, HalfKind, Ping, Probe};
use crate::cookie::{Checker, Stamper};
use crate::erasing_rng::Seed;
use crate::handshake::{Choice, Established, Initiator, Offer, Responder, Timestamp};
use crate::keys::{KeyPair, SharedSecret};
use crate::message::{self, DATA_HEADER_BYTES, Message, TAG_BYTES};
use crate::seal::{Opener, Sealer, shard_key};
use crate::start::Start;
use crate::suite::{Suite, Suites};

const START_MS: u64 = 1_800_000_000_123;
const INITIATOR_INDEX: u32 = 0x1122_3340;
const RESPONDER_INDEX: u32 = 0x5566_7780;
const SHARED_SECRET: [u8; 32] = [3; 32];
const SEEDS: [[u8; 32]; 2] = [[4; 32], [5; 32]];
const COOKIE_SEED: [u8; 32] = [6; 32];
const INITIATOR_ADDRESS: &str = "192.0.2.1:7475";

fn pairs() -> [KeyPair; 2] {
    [KeyPair::from_secret(&[1; 32]), KeyPair::from_secret(&[2; 32])]
}

/// The ephemeral secret key of one end.
fn ephemeral(seed: [u8; 32]) -> [u8; 32] {
    first_bytes(&mut ChaCha20Rng::from_seed(seed))
}

/// The bytes that a generator gives first.
fn first_bytes<const N: usize>(rng: &mut ChaCha20Rng) -> [u8; N] {
    let mut bytes = [0; N];
    rng.fill_bytes(&mut bytes);
    bytes
}

struct Handshake {
    initiation: Vec<u8>,
    response: Vec<u8>,
    initiator: Established,
    responder: Established,
}

fn handshake(suite: Suite) -> Handshake {
    let [initiating, responding] = pairs();
    let secret = SharedSecret::new(SHARED_SECRET);
    let suites = if suite == Suite::Aes256Gcm { Suites::new(Suite::ALL) } else { Suites::new([]) };
    let timestamp = Timestamp::of(Start::from_ms(START_MS));
    let offer = Offer { timestamp, suites, shards: 2 };
    let begun = Initiator::begin(
        &initiating,
        &responding.public(),
        &secret,
        offer,
        Seed::new(ephemeral(SEEDS[0])),
    );
    let (mut initiator, noise) = begun.unwrap();
    let mut initiation = message::initiation(INITIATOR_INDEX, &noise);
    Stamper::new(&responding.public()).stamp(&mut initiation, 0);
    let (responder, peer, heard) =
        Responder::read(&responding, &noise, Seed::new(ephemeral(SEEDS[1]))).unwrap();
    assert_eq!((peer, heard), (initiating.public(), offer));
    let choice = Choice { suite, shards: 1 };
    let (noise, of_responder) = responder.respond(&secret, choice, heard.shards).unwrap();
    let mut response = message::response(RESPONDER_INDEX, INITIATOR_INDEX, &noise);
    Stamper::new(&initiating.public()).stamp(&mut response, 0);
    let of_initiator = initiator.finish(&noise).unwrap();
    Handshake { initiation, response, initiator: of_initiator, responder: of_responder }
}

/// Contents of the packets of a session, in their order, and what they are.
fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let probe = Probe { id: 7, outer_bytes: 1_340 };
    let control = |control: Control, bytes: usize| {
        let mut content = vec![0; bytes];
        control.write(&mut content);
        content
    };
    let packet = [
        &[0x45, 0, 0, 30, 0, 1, 0x40, 0, 64, 17, 0x26, 0xcc, 10, 0, 0, 1, 10, 0, 0, 2][..],
        &[0, 53, 0, 53, 0, 10, 0, 0, 0x68, 0x69],
    ]
    .concat();
    let partial = [&[packet[0] | 0x80], &packet[1..26], &[0x14, 0x1e], &packet[28..]].concat();
    let ping = |heard| Control::Ping(Ping { number: 0x0102_0304_0506_0708, heard });
    let half = |kind: HalfKind, half: &[u8]| [&[kind.to_byte()], half].concat();
    vec![
        ("keepalive", Vec::new()),
        ("packet", packet.clone()),
        ("packet with a partial checksum", partial),
        ("probe of 1,340 bytes over IPv4", control(Control::Probe(probe), 1_340 - 28 - 32)),
        ("echo", control(Control::Echo(probe), 8)),
        ("challenge", control(Control::Challenge(0x0102_0304_0506_0708), 12)),
        ("answer to a challenge", control(Control::Answer(0x0102_0304_0506_0708), 12)),
        ("ping that says nothing else", control(ping(None), 12)),
        ("ping that comes back", control(Control::PingBack(0x0102_0304_0506_0708), 12)),
        ("first half of a packet", half(HalfKind::First, &packet[..15])),
        ("second half of a packet", half(HalfKind::Second, &packet[15..])),
        ("ping", control(ping(Some(0x1112_1314_1516_1718)), 20)),
    ]
}

fn sealed(sealer: &mut Sealer, content: &[u8]) -> Vec<u8> {
    let mut datagram = [&[0; DATA_HEADER_BYTES], content, &[0; TAG_BYTES]].concat();
    sealer.seal(&mut datagram).unwrap();
    datagram
}

/// Opens by the receiver's half of the code, and where the suite is ChaCha20-Poly1305 by an
/// implementation that others wrote.
fn assert_opens(split: &[u8; 32], suite: Suite, shard: u8, datagram: &[u8], content: &[u8]) {
    let Ok(Message::Data(data)) = Message::parse(datagram) else { panic!("{datagram:?}") };
    let mut opener = Opener::new(split, suite, shard);
    let mut rest = data.sealed.to_vec();
    assert_eq!(opener.open(data.counter, &mut rest).unwrap(), content);
    if suite == Suite::ChaCha20Poly1305 {
        let key = shard_key(split, shard);
        let nonce = [&[0; 4][..], &data.counter.to_le_bytes()].concat();
        let opened = ChaCha20Poly1305::new(key.as_slice().into())
            .decrypt(nonce.as_slice().into(), data.sealed);
        assert_eq!(opened.unwrap(), content);
    }
}

fn session(suite: Suite) -> Value {
    let Handshake { initiation, response, initiator, responder } = handshake(suite);
    assert_eq!((&initiator.send, &initiator.receive), (&responder.receive, &responder.send));
    let (from_initiator, from_responder) = (&initiator.send, &responder.send);
    let mut shard_keys = Vec::new();
    let mut packets = Vec::new();
    for (from, split, shards, receiver) in [
        ("initiator", from_initiator, 2, RESPONDER_INDEX),
        ("responder", from_responder, 1, INITIATOR_INDEX),
    ] {
        for shard in 0..shards {
            let key = shard_key(split, shard);
            shard_keys.push(json!({"from": from, "shard": shard, "key": hex::encode(*key)}));
            let mut sealer = Sealer::new(split, suite, receiver | u32::from(shard), shard);
            for (counter, (what, content)) in contents().into_iter().enumerate() {
                let datagram = sealed(&mut sealer, &content);
                assert_opens(split, suite, shard, &datagram, &content);
                packets.push(json!({
                    "from": from,
                    "shard": shard,
                    "counter": counter,
                    "what": what,
                    "content": hex::encode(content),
                    "datagram": hex::encode(datagram),
                }));
            }
        }
    }
    json!({
        "suite": format!("{suite:?}"),
        "initiation": hex::encode(initiation),
        "response": hex::encode(response),
        "initiatorSeals": hex::encode(***from_initiator),
        "responderSeals": hex::encode(***from_responder),
        "shardKeys": shard_keys,
        "packets": packets,
    })
}

fn cookie() -> Value {
    let [_, responding] = pairs();
    let from: SocketAddr = INITIATOR_ADDRESS.parse().unwrap();
    let (mut checker, mut stamper) =
        (Checker::new(&responding.public()), Stamper::new(&responding.public()));
    let stamped = |stamper: &mut Stamper| {
        let mut initiation = handshake(Suite::Aes256Gcm).initiation;
        initiation[118..].fill(0);
        stamper.stamp(&mut initiation, 0);
        initiation
    };
    let initiation = stamped(&mut stamper);
    let Ok(Message::Initiation(parsed)) = Message::parse(&initiation) else { panic!() };
    let mut rng = ChaCha20Rng::from_seed(COOKIE_SEED);
    let given = checker.give(&mut rng.clone(), &parsed.macs, from, 0);
    let reply = message::cookie(parsed.sender, &given.0, &given.1);
    let Ok(Message::Cookie(read)) = Message::parse(&reply) else { panic!() };
    assert!(stamper.take(&read, 0));
    let again = stamped(&mut stamper);
    let Ok(Message::Initiation(parsed)) = Message::parse(&again) else { panic!() };
    assert!(checker.is_second_right(&again, &parsed.macs, from, 0));
    json!({
        "initiatorAddress": INITIATOR_ADDRESS,
        "responderSecret": hex::encode(first_bytes::<32>(&mut rng)),
        "nonce": hex::encode(first_bytes::<24>(&mut rng)),
        "initiation": hex::encode(initiation),
        "reply": hex::encode(reply),
        "initiationWithCookie": hex::encode(again),
    })
}

fn all() -> Value {
    let [initiating, responding] = pairs();
    json!({
        "prologue": "mercato tunnel 4",
        "initiator": {
            "secret": hex::encode([1; 32]),
            "public": hex::encode(initiating.public().as_bytes()),
            "ephemeralSecret": hex::encode(ephemeral(SEEDS[0])),
            "index": INITIATOR_INDEX,
            "shards": 2,
        },
        "responder": {
            "secret": hex::encode([2; 32]),
            "public": hex::encode(responding.public().as_bytes()),
            "ephemeralSecret": hex::encode(ephemeral(SEEDS[1])),
            "index": RESPONDER_INDEX,
            "shards": 1,
        },
        "sharedSecret": hex::encode(SHARED_SECRET),
        "startMs": START_MS,
        "sessions": Suite::ALL.map(session),
        "cookie": cookie(),
    })
}

#[test]
fn the_vectors_are_what_the_code_says() {
    let kept: Value = serde_json::from_str(include_str!("../tests/vectors/tunnel.json")).unwrap();
    let all = all();
    if std::env::var_os("SHOW_VECTORS").is_some() {
        println!("{}", serde_json::to_string_pretty(&all).unwrap());
    }
    assert!(kept == all, "what is on the wire has changed; see the top of this file");
}

#[test]
fn an_ephemeral_key_is_what_its_secret_makes() {
    let initiation = handshake(Suite::Aes256Gcm).initiation;
    let secret = ephemeral(SEEDS[0]);
    assert_eq!(initiation[8..40], KeyPair::from_secret(&secret).public().as_bytes()[..]);
}
