//! How a record that is too large for one value of the store is kept: a first part that says how
//! many follow, and those in a tree of their own, under the record's key and their number.
//!
//! A record that fits one value is kept as it is. No CBOR begins with [`MARK`], so the two are told
//! apart by their first byte.

use std::borrow::Cow;

use crate::limits::PART_BYTES;

/// Opens a record of several parts; in CBOR it ends what is of indefinite length.
const MARK: u8 = 0xff;
/// The mark, and the number of parts that follow.
const HEAD_BYTES: usize = 3;

/// The first part of a record, and those that follow it.
pub(super) fn split(record: &[u8]) -> (Cow<'_, [u8]>, Vec<&[u8]>) {
    if record.len() <= PART_BYTES && record.first() != Some(&MARK) {
        return (Cow::Borrowed(record), Vec::new());
    }
    let (first, rest) = record.split_at(record.len().min(PART_BYTES - HEAD_BYTES));
    let parts: Vec<&[u8]> = rest.chunks(PART_BYTES).collect();
    let count = u16::try_from(parts.len()).expect("no record has two gigabytes");
    (Cow::Owned([&[MARK][..], &count.to_be_bytes(), first].concat()), parts)
}

/// How many parts follow this first one.
pub(super) fn count(first: &[u8]) -> usize {
    match first {
        [MARK, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
        _ => 0,
    }
}

/// Where a part is kept.
pub(super) fn key(record: &[u8], at: usize) -> Vec<u8> {
    let at = u16::try_from(at).unwrap_or(u16::MAX);
    [record, &at.to_be_bytes()].concat()
}

/// The record of a first part and of those that `part` finds; an error where one is missing.
pub(super) fn join<T: AsRef<[u8]>, E>(
    record: &[u8],
    first: &[u8],
    part: impl Fn(Vec<u8>) -> Result<Option<T>, E>,
) -> Result<Result<Vec<u8>, String>, E> {
    if first.first() != Some(&MARK) {
        return Ok(Ok(first.to_vec()));
    }
    let mut whole = first.get(HEAD_BYTES..).unwrap_or_default().to_vec();
    for at in 0..count(first) {
        match part(key(record, at))? {
            Some(part) => whole.extend_from_slice(part.as_ref()),
            None => return Ok(Err(format!("part {at} is missing"))),
        }
    }
    Ok(Ok(whole))
}
