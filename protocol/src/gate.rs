//! What the gate of a guest asks the node that it runs on, and what that answers: a line each, in
//! the clear, inside one machine.
//!
//! The gate is the first container of a guest whose contract requires isolation. It asks until the
//! node's process has closed in *its* pod's network, and ends then; nothing else of the guest starts
//! before. What is asked is no secret and proves nothing: the answer alone counts, and only as far
//! as it is about the pod whose network the question came from, which the node has to check.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use crate::limits::{GATE_ANSWER_BYTES, GATE_QUESTION_BYTES, GATE_UID_BYTES};

/// Where the process on each node answers gates, by TCP, unless the owner says otherwise.
pub const PORT: NonZeroU16 = NonZeroU16::new(7479).expect("it is not zero");
/// The variable of the environment with the uid of the gate's own pod.
pub const POD_VARIABLE: &str = "MERCATO_POD";
/// The variable of the environment with the IP address of the node.
pub const NODE_VARIABLE: &str = "MERCATO_NODE";

/// The uid of a guest pod, as the provider's API server gave it: 1 to 64 of `[a-z0-9-]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestUid(String);

/// What is no line of this exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct Malformed(&'static str);

/// What a node says to a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod's network is closed in: the gate ends, and the guest begins.
    Open,
    /// It is not, as yet.
    Wait,
}

impl GuestUid {
    /// As it stands in the pod's metadata.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole question of this pod's gate.
    pub fn question(&self) -> String {
        format!("{}\n", self.0)
    }

    /// Reads what has come of a question; none while its line is not whole.
    ///
    /// # Errors
    /// It is no question, and never becomes one, whatever follows.
    pub fn read_question(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        match line(bytes, GATE_QUESTION_BYTES) {
            Line::Whole(uid) => std::str::from_utf8(uid).map_err(|_| UID)?.parse().map(Some),
            Line::Begun if bytes.iter().copied().all(is_of_uid) => Ok(None),
            Line::Begun | Line::Wrong => Err(UID),
        }
    }
}

impl FromStr for GuestUid {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let fits = (1..=GATE_UID_BYTES).contains(&text.len()) && text.bytes().all(is_of_uid);
        if fits { Ok(Self(text.to_owned())) } else { Err(UID) }
    }
}

impl fmt::Display for GuestUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Answer {
    /// The whole answer.
    pub fn line(self) -> &'static str {
        match self {
            Self::Open => "open\n",
            Self::Wait => "wait\n",
        }
    }

    /// Reads what has come of an answer; none while its line is not whole.
    ///
    /// # Errors
    /// It is no answer, and never becomes one, whatever follows.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let known = [Self::Open, Self::Wait];
        if let Some(answer) = known.into_iter().find(|answer| answer.line().as_bytes() == bytes) {
            return Ok(Some(answer));
        }
        match line(bytes, GATE_ANSWER_BYTES) {
            Line::Begun => Ok(None),
            Line::Whole(_) | Line::Wrong => Err(ANSWER),
        }
    }
}

/// What has come of a line that is the only one.
enum Line<'a> {
    Begun,
    /// Without its end.
    Whole(&'a [u8]),
    /// It is too long, or something stands behind it.
    Wrong,
}

/// With its end it has `most` bytes at most.
fn line(bytes: &[u8], most: usize) -> Line<'_> {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) if end + 1 == bytes.len() && bytes.len() <= most => Line::Whole(&bytes[..end]),
        None if bytes.len() < most => Line::Begun,
        Some(_) | None => Line::Wrong,
    }
}

fn is_of_uid(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
}

const UID: Malformed = Malformed("the uid of a pod, 1 to 64 of a-z, 0-9 and '-', and a new line");
const ANSWER: Malformed = Malformed("\"open\" or \"wait\", and a new line");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_question_comes_in_pieces() {
        let uid: GuestUid = "7d1a33f4-7f1c-4a7e-9b6e-0d4c7f1c2a90".parse().unwrap();
        let whole = uid.question();
        for cut in 0..whole.len() {
            assert_eq!(GuestUid::read_question(&whole.as_bytes()[..cut]), Ok(None), "{cut} bytes");
        }
        assert_eq!(GuestUid::read_question(whole.as_bytes()), Ok(Some(uid)));
        let (longest, longer) = ("a".repeat(64), "a".repeat(65));
        let read = |text: String| GuestUid::read_question(text.as_bytes());
        assert_eq!(read(format!("{longest}\n")), Ok(Some(GuestUid(longest.clone()))));
        assert_eq!(read(longest), Ok(None));
        for wrong in [
            longer,
            "\n".into(),
            "a\n\n".into(),
            "a\nb".into(),
            "a b".into(),
            "A".into(),
            "\r".into(),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong:?}");
        }
        assert!(GuestUid::read_question(b"\xff").is_err());
    }

    #[test]
    fn nothing_else_opens() {
        for answer in [Answer::Open, Answer::Wait] {
            assert_eq!(Answer::read(answer.line().as_bytes()), Ok(Some(answer)));
        }
        for begun in ["", "o", "open"] {
            assert_eq!(Answer::read(begun.as_bytes()), Ok(None), "{begun:?}");
        }
        for wrong in ["Open\n", "open \n", "open\r\n", "open\nopen\n", "\nopen", "openopen", "\n"] {
            assert!(Answer::read(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let question = GuestUid::read_question(&bytes);
            prop_assert!(question != Ok(None) || bytes.len() < GATE_QUESTION_BYTES);
            prop_assert!(Answer::read(&bytes) != Ok(None) || bytes.len() < GATE_ANSWER_BYTES);
            if let Ok(Some(uid)) = question {
                prop_assert_eq!(uid.question().into_bytes(), bytes);
            }
        }
    }
}
