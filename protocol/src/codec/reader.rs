//! Reads CBOR items strictly: what is not canonical is an error, and nothing is
//! allocated on the word of a length.

use super::error::{CodecError, at_most};
use crate::limits;

/// The bytes not yet read.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// The first half of an item: its major type and its number or length.
struct Head {
    major: u8,
    n: u64,
}

const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;

const FALSE: u64 = 20;
const TRUE: u64 = 21;

/// Whether `bytes` are exactly one canonical item.
pub fn check(bytes: &[u8]) -> Result<(), CodecError> {
    let mut reader = Reader::new(bytes);
    reader.skip(limits::DEPTH)?;
    if reader.rest.is_empty() { Ok(()) } else { Err(CodecError::Trailing) }
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads an unsigned whole number.
    pub fn uint(&mut self) -> Result<u64, CodecError> {
        self.expect(0, "a whole number")
    }

    /// Reads a truth value, one byte.
    pub fn bool(&mut self) -> Result<bool, CodecError> {
        self.expect(SIMPLE, "true or false").map(|n| n == TRUE)
    }

    /// A byte string of at most `limit` bytes.
    pub fn bytes(&mut self, limit: usize) -> Result<&'a [u8], CodecError> {
        let length = self.expect(BYTES, "a byte string")?;
        self.string(length, limit)
    }

    /// A text string of at most `limit` bytes.
    pub fn text(&mut self, limit: usize) -> Result<&'a str, CodecError> {
        let length = self.expect(TEXT, "a text string")?;
        let bytes = self.string(length, limit)?;
        std::str::from_utf8(bytes).map_err(|_| CodecError::NotUtf8)
    }

    /// The head of a list: how many items follow.
    pub fn array(&mut self) -> Result<usize, CodecError> {
        let count = self.expect(ARRAY, "a list")?;
        self.at_hand(count)
    }

    /// The head of a map: how many entries follow.
    pub fn map(&mut self) -> Result<usize, CodecError> {
        let count = self.expect(MAP, "a map")?;
        self.at_hand(count)
    }

    /// Whether the next item is a text string.
    pub fn is_text(&self) -> bool {
        self.rest.first().is_some_and(|byte| byte >> 5 == TEXT)
    }

    fn expect(&mut self, major: u8, what: &'static str) -> Result<u64, CodecError> {
        let head = self.head()?;
        if head.major == major { Ok(head.n) } else { Err(CodecError::Expected(what)) }
    }

    fn string(&mut self, length: u64, limit: usize) -> Result<&'a [u8], CodecError> {
        let length = self.at_hand(length)?;
        at_most("string bytes", length, limit)?;
        self.take(length)
    }

    /// Each item and each byte takes at least one byte: what promises more is cut off.
    fn at_hand(&self, count: u64) -> Result<usize, CodecError> {
        let count = usize::try_from(count).map_err(|_| CodecError::Truncated)?;
        if count > self.rest.len() { Err(CodecError::Truncated) } else { Ok(count) }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn head(&mut self) -> Result<Head, CodecError> {
        let first = self.take(1)?[0];
        let (major, info) = (first >> 5, first & 0x1f);
        if major == TAG {
            return Err(CodecError::Unsupported);
        }
        if major == SIMPLE {
            return match u64::from(info) {
                n @ (FALSE | TRUE) => Ok(Head { major, n }),
                25..=27 => Err(CodecError::Float),
                31 => Err(CodecError::Indefinite),
                _ => Err(CodecError::Unsupported),
            };
        }
        let (n, least) = match info {
            0..=23 => (u64::from(info), 0),
            24 => (self.number(1)?, 24),
            25 => (self.number(2)?, 1 << 8),
            26 => (self.number(4)?, 1 << 16),
            27 => (self.number(8)?, 1 << 32),
            31 if (BYTES..=MAP).contains(&major) => return Err(CodecError::Indefinite),
            _ => return Err(CodecError::Unsupported),
        };
        if n < least { Err(CodecError::NonMinimal) } else { Ok(Head { major, n }) }
    }

    fn number(&mut self, length: usize) -> Result<u64, CodecError> {
        let bytes = self.take(length)?;
        Ok(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    /// Passes over one item and all within it.
    fn skip(&mut self, depth: usize) -> Result<(), CodecError> {
        let Head { major, n } = self.head()?;
        match major {
            BYTES => self.string(n, usize::MAX).map(|_| ()),
            TEXT => {
                let bytes = self.string(n, usize::MAX)?;
                let text = std::str::from_utf8(bytes).map_err(|_| CodecError::NotUtf8)?;
                let normal = unicode_normalization::is_nfc(text);
                if normal { Ok(()) } else { Err(CodecError::NotNormalised) }
            }
            ARRAY => {
                let depth = depth.checked_sub(1).ok_or(CodecError::TooDeep)?;
                (0..self.at_hand(n)?).try_for_each(|_| self.skip(depth))
            }
            MAP => self.skip_entries(n, depth.checked_sub(1).ok_or(CodecError::TooDeep)?),
            0 | NEGATIVE | SIMPLE => Ok(()),
            _ => Err(CodecError::Unsupported),
        }
    }

    fn skip_entries(&mut self, count: u64, depth: usize) -> Result<(), CodecError> {
        let mut before: Option<&[u8]> = None;
        for _ in 0..self.at_hand(count)? {
            let start = self.rest;
            self.skip(depth)?;
            let key = &start[..start.len() - self.rest.len()];
            match before.map(|before| before.cmp(key)) {
                Some(std::cmp::Ordering::Equal) => return Err(CodecError::DuplicateKey),
                Some(std::cmp::Ordering::Greater) => return Err(CodecError::UnsortedKeys),
                Some(std::cmp::Ordering::Less) | None => before = Some(key),
            }
            self.skip(depth)?;
        }
        Ok(())
    }
}
