#![no_main]

#[path = "../tunnel/mod.rs"]
mod tunnel;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tunnel::segments(bytes));
