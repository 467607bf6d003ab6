//! How a body travels: packed, where that makes it shorter, as one block of LZ4. Each is packed by
//! itself, so that the length of one tells nothing of another.

use std::borrow::Cow;

use super::BodyHead;
use crate::codec::{CodecError, ensure};
use crate::id::Digest;

/// Bytes below which compression gains nothing.
const SHORT: usize = 128;

impl BodyHead {
    /// A body's head, and what is sent of it. At most 4 GiB.
    pub fn pack(body: &[u8]) -> (Self, Cow<'_, [u8]>) {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let head = Self { digest: Digest::of(body), length: length(body), packed: None };
        if body.len() >= SHORT {
            let packed = lz4_flex::block::compress(body);
            if packed.len() < body.len() {
                return (Self { packed: Some(length(&packed)), ..head }, Cow::Owned(packed));
            }
        }
        (head, Cow::Borrowed(body))
    }

    /// How many bytes are sent of it.
    pub fn sent(&self) -> u32 {
        self.packed.unwrap_or(self.length)
    }

    /// The body. No more is allocated than the head says, whose bound is checked as it is read.
    pub(super) fn unpack<'a>(&self, sent: &'a [u8]) -> Result<Cow<'a, [u8]>, CodecError> {
        if self.packed.is_none() {
            return Ok(Cow::Borrowed(sent));
        }
        let mut body = vec![0; self.length as usize];
        let unpacked = lz4_flex::block::decompress_into(sent, &mut body);
        ensure(unpacked.is_ok_and(|bytes| bytes == body.len()), "a body that does not unpack")?;
        Ok(Cow::Owned(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_and_what_does_not_get_shorter_stays() {
        let text = r#"{"kind":"Pod","spec":{}}"#.repeat(100).into_bytes();
        let (head, sent) = BodyHead::pack(&text);
        assert!(head.packed.is_some() && sent.len() * 10 < text.len());
        assert_eq!(*head.unpack(&sent).unwrap(), *text);
        let (head, sent) = BodyHead::pack(&text[..24]);
        assert!(head.packed.is_none() && *sent == text[..24]);
    }

    #[test]
    fn what_is_longer_or_shorter_than_was_said_is_refused() {
        let zeroes = vec![b' '; 3 << 20];
        let (head, sent) = BodyHead::pack(&zeroes);
        assert!(sent.len() < 16 << 10, "a bomb, if it were not bounded");
        for length in [1_000, head.length - 1, head.length + 1] {
            let head = BodyHead { length, ..head };
            assert!(matches!(head.unpack(&sent), Err(CodecError::Invalid(_))), "{length}");
        }
        for end in [0, 1, sent.len() - 1] {
            assert!(head.unpack(&sent[..end]).is_err());
        }
    }
}
