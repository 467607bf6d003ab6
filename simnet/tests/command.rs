//! What `simnet` refuses to try, before it takes any time or memory.

#![allow(missing_docs, reason = "a test")]

use std::process::Command;

#[test]
fn numbers_out_of_range_are_usage_errors_that_name_the_range() {
    for (words, range) in [
        ("run national --clusters 99999999", "2 to 2000 clusters"),
        ("run national --clusters 0", "2 to 2000 clusters"),
        ("run national --clusters 1", "2 to 2000 clusters"),
        ("run national --clusters x", "2 to 2000 clusters"),
        ("compare ring star --clusters 2001", "2 to 2000 clusters"),
        ("replay ring --clusters 0", "2 to 2000 clusters"),
        ("run pair --for 0s", "at least one"),
        ("check --seeds 0", "1..=1000000"),
        ("check --seeds 18446744073709551615", "1..=1000000"),
    ] {
        let command = Command::new(env!("CARGO_BIN_EXE_simnet")).args(words.split(' ')).output();
        let output = command.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(range), "{words}: {said}");
    }
}
