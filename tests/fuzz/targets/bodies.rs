#![no_main]

#[path = "../decoders.rs"]
mod decoders;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| decoders::bodies(bytes));
