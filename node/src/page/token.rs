//! What a browser shows to see anything: random, of this run of the program alone, and dead after a
//! time in which nobody has looked.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tokio::time::Instant;

/// The bytes of a token.
const BYTES: usize = 32;

/// The one token of a run of the program.
pub(super) struct Token {
    text: String,
    idle: Duration,
    /// When it was shown last; it was made then, if it never was.
    seen: Mutex<Instant>,
}

/// Why nothing is shown to somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// No token came with the request.
    Missing,
    /// It is another one, as of an earlier run.
    Wrong,
    /// It is the right one, and nobody has looked for too long.
    Over,
}

impl Token {
    /// A new one, that lasts until nobody has looked for so long.
    pub(super) fn new(idle: Duration) -> Self {
        let bytes: [u8; BYTES] = rand::random();
        let text = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        Self { text, idle, seen: Mutex::new(Instant::now()) }
    }

    /// The token, for the person who has started the program.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether this is the token. How long that takes to say tells nothing of it.
    pub(super) fn check(&self, shown: Option<&[u8]>) -> Result<(), Denied> {
        let shown = shown.ok_or(Denied::Missing)?;
        verify_slices_are_equal(shown, self.text.as_bytes()).map_err(|_| Denied::Wrong)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.elapsed() >= self.idle {
            return Err(Denied::Over);
        }
        *seen = Instant::now();
        Ok(())
    }
}

impl Denied {
    /// What it is, and what to do, for a person.
    pub(super) fn words(self) -> [&'static str; 2] {
        match self {
            Self::Missing => [
                "This browser has not been given the page's token.",
                "Open the whole address that mercato page has printed, with all that stands behind the #.",
            ],
            Self::Wrong => [
                "The token of this browser is of an earlier run of mercato page.",
                "Open the address that the program which runs now has printed.",
            ],
            Self::Over => [
                "Nobody has looked for so long that the page was closed.",
                "End mercato page by Ctrl-C, start it again, and open the address that it prints.",
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_lives_as_long_as_somebody_looks() {
        let token = Token::new(Duration::from_secs(60));
        let text = token.text().to_owned();
        let shown = Some(text.as_bytes());
        assert_eq!(token.check(None), Err(Denied::Missing));
        assert_eq!(token.check(Some(b"")), Err(Denied::Wrong));
        assert_eq!(
            token.check(Token::new(Duration::ZERO).text().as_bytes().into()),
            Err(Denied::Wrong)
        );
        for _ in 0..4 {
            tokio::time::advance(Duration::from_secs(59)).await;
            assert_eq!(token.check(shown), Ok(()));
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(token.check(shown), Err(Denied::Over));
        assert_eq!(token.check(shown), Err(Denied::Over), "a look does not bring it back");
        assert_eq!(text.len(), 43);
    }
}
