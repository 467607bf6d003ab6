//! What the fuzz targets are run with: the vectors, and the inputs that were kept because
//! they reach further. Here each is run once.

use std::path::{Path, PathBuf};

use serde_json::Value;

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
        let of = [("plain", &decoders::PLAIN[..]), ("signed", &decoders::SIGNED[..])];
        let found = of.into_iter().find_map(|(target, decoders)| {
            input(decoders, &kind, &bytes).map(|input| (target, input))
        });
        let (target, input) = found.unwrap_or_else(|| panic!("{kind} is not fuzzed"));
        decoders::codec(&input[1..]);
        match target {
            "plain" => decoders::plain(&input),
            _ => decoders::signed(&input),
        }
        targets.push((target, input));
    }
    // `WRITE_SEEDS=1` lays them out for cargo-fuzz.
    if std::env::var_os("WRITE_SEEDS").is_some() {
        for (nth, (target, input)) in targets.iter().enumerate() {
            let folder = root().join("tests/fuzz/corpus").join(target);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("seed-{nth}")), input).unwrap();
        }
    }
}

#[test]
fn the_kept_corpora_are_read_without_a_finding() {
    let mut read = 0;
    let targets: [Decoder; 5] = [
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
