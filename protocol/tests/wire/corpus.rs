//! What the fuzz targets are run with: the vectors, and the inputs that were kept because
//! they reach further. Here each is run once.

use std::path::{Path, PathBuf};

use mercato_protocol::codec::Message as _;
use mercato_protocol::workload::BodyHead;
use serde_json::Value;

use crate::samples;
use decoders::Decoder;

#[path = "../../../tests/fuzz/decoders.rs"]
pub(crate) mod decoders;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Kind and bytes of each vector.
fn vectors() -> Vec<(String, Vec<u8>)> {
    let read = |name: &str| {
        let path = root().join("protocol/tests/vectors").join(name);
        serde_json::from_slice::<Vec<Value>>(&std::fs::read(path).unwrap()).unwrap()
    };
    let text = |vector: &Value, key: &str| vector[key].as_str().unwrap().to_owned();
    let all = ["good.json", "malformed.json"].into_iter().flat_map(read);
    all.map(|v| (text(&v, "kind"), hex::decode(text(&v, "bytes")).unwrap())).collect()
}

/// The input that has the decoder of this kind read `bytes`.
fn input(decoders: &[Decoder], kind: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let nth = decoders.iter().position(|(name, _)| *name == kind)?;
    Some([&[u8::try_from(nth).unwrap()], bytes].concat())
}

#[test]
fn every_vector_is_an_input_of_a_fuzz_target() {
    let mut targets = Vec::new();
    for (kind, bytes) in vectors() {
        decoders::codec(&bytes);
        if let Some(input) = input(&decoders::PLAIN, &kind, &bytes) {
            decoders::plain(&input);
            targets.push(("plain", input));
        } else {
            let input = input(&decoders::SIGNED, &kind, &bytes);
            let input = input.unwrap_or_else(|| panic!("{kind} is not fuzzed"));
            decoders::signed(&input);
            targets.push(("signed", input));
            if let Some(payload) = payload(&bytes) {
                let input = self::input(&decoders::PAYLOADS, &kind, &payload).unwrap();
                decoders::payload(&input);
                targets.push(("payload", input));
                targets.push(("codec", payload));
            }
        }
        targets.push(("codec", bytes));
    }
    for body in [samples::body(), samples::long_body(), vec![b' '; 70_000]] {
        for input in of_bodies(&body) {
            decoders::bodies(&input);
            targets.push(("bodies", input));
        }
    }
    for text in
        [&samples::token().to_string(), "gpu.h100", "EUR", "1.5Gi", "0.5", "1e3", "u-1\n", "open\n"]
    {
        decoders::text(text.as_bytes());
        targets.push(("text", text.as_bytes().to_vec()));
    }
    // `WRITE_SEEDS=1` lays them out for the fuzzer.
    if std::env::var_os("WRITE_SEEDS").is_some() {
        for (nth, (target, input)) in targets.iter().enumerate() {
            let folder = root().join("tests/fuzz/corpus").join(target);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("seed-{nth}")), input).unwrap();
        }
    }
}

/// What an envelope carries: the third item of its list, whose length takes two bytes or less.
fn payload(signed: &[u8]) -> Option<Vec<u8>> {
    let envelope = dcbor::CBOR::try_from_data(signed).ok()?;
    let items = envelope.try_into_array().ok()?;
    items.get(2)?.clone().try_into_byte_string().ok()
}

/// Inputs of the target `bodies`: a message with this body behind it, the body packed, and the
/// body itself.
fn of_bodies(body: &[u8]) -> Vec<Vec<u8>> {
    let (head, sent) = BodyHead::pack(body);
    let message = samples::to_guest(vec![samples::put()], vec![head]).to_bytes().unwrap();
    let length = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).to_be_bytes();
    let joined = [&length(message.len()), &message[..], &*sent].concat();
    let packed = [&length(body.len()), &*sent].concat();
    let named = [("joined", joined), ("packed", packed), ("to-pack", body.to_vec())];
    let named = named.into_iter().map(|(name, bytes)| input(&decoders::BODIES, name, &bytes));
    named.map(Option::unwrap).collect()
}

/// Whatever is a message, or is read from text, is read by a fuzz target; and each choice within
/// a message stands in a vector, so that the fuzzer begins there.
#[test]
fn every_kind_of_message_is_fuzzed() {
    let good = std::fs::read_to_string(root().join("protocol/tests/vectors/good.json")).unwrap();
    let (mut messages, mut signed, mut texts) = (0, 0, 0);
    for source in sources(&root().join("protocol/src")) {
        messages += source.matches("Message for ").count();
        signed += source.matches("impl Payload for ").count();
        for named in source.split("impl FromStr for ").skip(1) {
            let name = named.split([' ', '<']).next().unwrap();
            let known = name == "$name" || decoders::TEXTS.iter().any(|(text, _)| *text == name);
            assert!(known, "text is read as {name}, which is not fuzzed");
            texts += 1;
        }
        for union in source.split("\nwire_union!(").skip(1) {
            for choice in union.split("});").next().unwrap().split("=> ").skip(1) {
                let name: String = choice.chars().take_while(char::is_ascii_alphanumeric).collect();
                let (head, rest) = name.split_at(1);
                // Fields are in lower case. JSON has the earlier name of a header.
                let earlier = if name == "Header" { "lease" } else { &name };
                let written = [earlier.to_owned(), head.to_ascii_lowercase() + rest];
                let stands = written.iter().any(|name| good.contains(&format!("\"{name}\"")));
                let is_field = head.chars().all(char::is_lowercase);
                assert!(is_field || stands, "{name} is in no vector");
            }
        }
    }
    assert_eq!(signed, decoders::PAYLOADS.len(), "a signed message is not fuzzed");
    assert_eq!(signed, decoders::SIGNED.len(), "a signed message is not fuzzed");
    assert_eq!(messages, decoders::PLAIN.len() + signed, "a message is not fuzzed");
    assert!(texts >= 5, "{texts}");
}

/// The texts of a folder's Rust files.
pub(crate) fn sources(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![std::fs::read_to_string(path).unwrap()],
    };
    entries.flat_map(of).collect()
}

#[test]
fn the_kept_corpora_are_read_without_a_finding() {
    let mut read = 0;
    let targets: [Decoder; 6] = [
        ("bodies", decoders::bodies),
        ("codec", decoders::codec),
        ("plain", decoders::plain),
        ("payload", decoders::payload),
        ("signed", decoders::signed),
        ("text", decoders::text),
    ];
    for (name, target) in targets {
        let folder = root().join("tests/fuzz/corpus").join(format!("{name}.kept"));
        for entry in std::fs::read_dir(folder).unwrap() {
            target(&std::fs::read(entry.unwrap().path()).unwrap());
            read += 1;
        }
    }
    assert!(read >= 200, "{read}");
}
