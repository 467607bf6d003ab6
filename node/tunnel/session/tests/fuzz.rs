//! What the tunnel's fuzz targets are run with: inputs that were kept because they reach far, and
//! some by chance. Here each is run once.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use std::path::{Path, PathBuf};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

#[path = "../../../../tests/fuzz/tunnel/mod.rs"]
mod tunnel;

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_kept_corpora_are_read_without_a_finding() {
    for (name, target) in tunnel::TARGETS {
        let corpus = format!("../../../tests/fuzz/corpus/tunnel_{name}.kept");
        let mut read = 0;
        for entry in std::fs::read_dir(crate_folder().join(corpus)).unwrap() {
            target(&std::fs::read(entry.unwrap().path()).unwrap());
            read += 1;
        }
        assert!(read >= 10, "{read} inputs of {name}");
    }
}

#[test]
fn inputs_by_chance_are_read_without_a_finding() {
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    for (_, target) in tunnel::TARGETS {
        for length in 0..300 {
            let mut input = vec![0; length];
            rng.fill_bytes(&mut input);
            target(&input);
        }
    }
}

/// Each public function of the crate that takes bytes is one that a target calls.
#[test]
fn every_reader_of_bytes_is_fuzzed() {
    let mut readers = 0;
    for source in sources(&crate_folder().join("src")) {
        for declared in source.split("pub fn ").skip(1) {
            let Some((name, rest)) = declared.split_once(['(', '<']) else { continue };
            let parameters = rest.split(") ").next().unwrap();
            let is_reader = parameters.split("->").next().unwrap().contains("[u8");
            let is_secret = parameters.contains("&[u8; 32]") || parameters.contains(": [u8; ");
            if !is_reader || is_secret || is_output(name) {
                continue;
            }
            let known = tunnel::READERS.iter().find(|(reader, _)| *reader == name);
            let (_, target) = known.unwrap_or_else(|| panic!("`{name}` reads bytes: not fuzzed"));
            assert!(tunnel::TARGETS.iter().any(|(name, _)| name == target), "no target {target}");
            readers += 1;
        }
    }
    assert!(readers >= 12, "{readers} of them were found");
}

/// Whether a function writes bytes, and reads none of somebody else.
fn is_output(name: &str) -> bool {
    matches!(name, "write_next" | "finish" | "new")
}

/// The texts of a folder's Rust files, without their tests.
fn sources(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false => {
            let text = std::fs::read_to_string(path).unwrap();
            vec![text.split("#[cfg(test)]").next().unwrap().to_owned()]
        }
    };
    entries.flat_map(of).collect()
}
