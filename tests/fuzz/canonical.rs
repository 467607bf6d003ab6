//! A second opinion on what is canonical: dcbor, a reader that others wrote, of the same form
//! of CBOR. What ours accepts, dcbor accepts and writes again byte for byte; what ours refuses,
//! dcbor refuses too, but for what ours leaves out on purpose: [`left_out`].

use dcbor::{CBOR, CBORCase, Simple};
use mercato_protocol::codec::{self, CodecError};
use mercato_protocol::limits;

/// Panics where the two readers disagree on `bytes`.
pub(super) fn compare(bytes: &[u8]) {
    let ours = codec::check(bytes);
    if ours.is_err() && may_nest(bytes) > DCBOR_DEPTH {
        return;
    }
    match (ours, CBOR::try_from_data(bytes)) {
        (Ok(()), Ok(theirs)) => {
            assert_eq!(theirs.to_cbor_data(), bytes, "dcbor writes it otherwise");
            assert_eq!(left_out(&theirs, 0), None, "accepted, though it is left out");
        }
        (Err(_), Err(_)) => {}
        (Ok(()), Err(theirs)) => panic!("only dcbor refuses it: {theirs}"),
        // It reads some floats as the whole numbers that they are, above 2^31, against its own
        // rules; it does not write them so.
        (Err(CodecError::Float), Ok(theirs)) if theirs.to_cbor_data() != bytes => {}
        (Err(ours), Ok(theirs)) => {
            let why = left_out(&theirs, 0);
            assert!(why.is_some(), "only ours refuses it: {ours}: {}", theirs.diagnostic());
        }
    }
}

/// Why our reader refuses a value that dcbor reads, if it should.
fn left_out(value: &CBOR, depth: usize) -> Option<&'static str> {
    let of = |value| left_out(value, depth + 1);
    let deeper = (depth >= limits::DEPTH).then_some("nested deeper than a small stack allows");
    match value.as_case() {
        CBORCase::Unsigned(_)
        | CBORCase::Negative(_)
        | CBORCase::ByteString(_)
        | CBORCase::Text(_)
        | CBORCase::Simple(Simple::False | Simple::True) => None,
        CBORCase::Array(items) => deeper.or_else(|| items.iter().find_map(of)),
        CBORCase::Map(map) => {
            deeper.or_else(|| map.iter().find_map(|(key, value)| of(key).or_else(|| of(value))))
        }
        CBORCase::Tagged(..) => Some("a tag: a field's number says what it is"),
        CBORCase::Simple(Simple::Null) => Some("null: what is absent is left out"),
        CBORCase::Simple(Simple::Float(_)) => Some("a float: amounts are whole numbers"),
    }
}

/// As deep as the bytes can nest at most: each byte may be the head of a list, a map or a tag.
fn may_nest(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| matches!(**byte >> 5, 4..=6)).count()
}

/// dcbor calls itself for each level, without a bound; a test's thread has 2 MiB.
const DCBOR_DEPTH: usize = 512;
