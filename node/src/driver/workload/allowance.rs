//! What the other party of a lease may ask of us in a time. It is slowed down rather than
//! refused, so that nothing of what an honest one says is lost.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mercato_kubelet::{Bucket, TooMuch};
use mercato_protocol::id::Digest;
use tokio::sync::watch;

use crate::limits;

/// That of one lease. It outlives the streams, so that another stream wins nothing.
pub(crate) struct Allowance {
    statements: Bucket,
    bytes: Bucket,
    asks: Bucket,
    /// The last message that was not taken, and why; a second time at least if it is `again`.
    untaken: Mutex<Option<Untaken>>,
    /// Counts the streams that were opened, those for acknowledgements apart: the latest is the
    /// one that is listened to.
    streams: [watch::Sender<u64>; 2],
}

impl Allowance {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            statements: Bucket::new(now, limits::STATEMENTS, limits::STATEMENTS_EACH_S),
            bytes: Bucket::new(now, limits::BODY_BYTES, limits::BODY_BYTES_EACH_S),
            asks: Bucket::new(now, limits::ASKS, limits::ASKS_EACH_S),
            untaken: Mutex::default(),
            streams: [watch::Sender::new(0), watch::Sender::new(0)],
        }
    }

    /// A stream has been opened: that of before is done, and this one when the next comes.
    pub(crate) fn open(&self, acks: bool) -> Turn {
        let streams = &self.streams[usize::from(acks)];
        streams.send_modify(|count| *count += 1);
        Turn(streams.subscribe())
    }

    /// The lease's part here is over: so are its streams, of which others are to be opened.
    pub(crate) fn end(&self) {
        [false, true].into_iter().for_each(|acks| drop(self.open(acks)));
    }

    /// What to wait after a frame. Who does not wait so long is not listened to any more.
    pub(crate) fn frame(
        &self,
        now: Instant,
        statements: usize,
        bytes: usize,
    ) -> Result<Duration, TooMuch> {
        let statements = self.statements.take(now, statements as u64 + 1, limits::LEASE_DEBT)?;
        Ok(statements.max(self.bytes.take(now, bytes as u64, limits::LEASE_DEBT)?))
    }

    /// What is still to be waited, by whatever stream.
    pub(crate) fn debt(&self, now: Instant) -> Duration {
        self.statements.debt(now).max(self.bytes.debt(now))
    }

    /// What to wait after a breach of the rules: none is worth a line in the log for long.
    pub(crate) fn breach(&self, now: Instant) -> Result<Duration, TooMuch> {
        self.statements.take(now, limits::STATEMENTS / limits::BREACHES, limits::LEASE_DEBT)
    }

    /// A message came that is none; true for the first time that one has come again.
    pub(crate) fn note_untaken(&self, message: Digest, why: String) -> bool {
        let mut untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner);
        let before = untaken.take().filter(|before| before.message == message);
        let news = before.as_ref().is_some_and(|before| !before.again);
        *untaken = Some(Untaken { message, why, again: before.is_some() });
        news
    }

    /// A message with statements came, and was taken.
    pub(crate) fn note_taken(&self) {
        *self.untaken.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Why a message that comes again and again is not taken; none if that is not so.
    pub(crate) fn stuck(&self) -> Option<String> {
        let untaken = self.untaken.lock().unwrap_or_else(PoisonError::into_inner);
        untaken.as_ref().filter(|untaken| untaken.again).map(|untaken| untaken.why.clone())
    }

    /// Whether one more kubelet stream may be asked for now.
    pub(crate) fn ask(&self, now: Instant) -> bool {
        self.asks.has_one(now)
    }
}

/// A message of the other party that is none.
struct Untaken {
    message: Digest,
    why: String,
    again: bool,
}

/// The time of one stream, until another takes its place.
pub(crate) struct Turn(watch::Receiver<u64>);

impl Turn {
    /// Ends when it is over.
    pub(crate) async fn over(&mut self) {
        // An error says that nobody listens any more.
        let _ = self.0.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_latest_stream_is_the_one_that_counts() {
        let allowance = Allowance::new(Instant::now());
        let mut first = allowance.open(false);
        let mut second = allowance.open(false);
        let mut of_acks = allowance.open(true);
        first.over().await;
        tokio::select! {
            biased;
            () = second.over() => panic!("nothing came after it"),
            () = std::future::ready(()) => {}
        }
        allowance.end();
        second.over().await;
        of_acks.over().await;
    }

    #[test]
    fn floods_are_slowed_down_and_bursts_are_not() {
        let now = Instant::now();
        let of_statements = Allowance::new(now);
        for _ in 0..limits::STATEMENTS / 65 {
            assert_eq!(of_statements.frame(now, 64, 0), Ok(Duration::ZERO));
        }
        assert!(of_statements.frame(now, 1_000, 0).unwrap() > Duration::from_secs(1));
        let of_bytes = Allowance::new(now);
        for _ in 0..limits::BODY_BYTES / (3 << 20) {
            assert_eq!(of_bytes.frame(now, 0, 3 << 20), Ok(Duration::ZERO));
        }
        assert!(of_bytes.frame(now, 0, 3 << 20).unwrap() > Duration::from_secs(1));
        assert!(of_bytes.debt(now) > Duration::from_secs(1), "another stream waits, too");
        let most = (0..).map_while(|_| of_bytes.frame(now, 0, 3 << 20).ok()).last();
        assert!(most.unwrap() <= limits::LEASE_DEBT, "who does not wait is not listened to");
    }

    #[test]
    fn a_message_that_comes_again_is_told_of_once_until_one_is_taken() {
        let allowance = Allowance::new(Instant::now());
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let note = |message| allowance.note_untaken(message, "no message".to_owned());
        assert!(!note(one) && !note(other), "a stream may break off anywhere");
        assert_eq!(allowance.stuck(), None);
        assert!(note(other) && !note(other));
        assert_eq!(allowance.stuck().as_deref(), Some("no message"));
        allowance.note_taken();
        assert_eq!(allowance.stuck(), None);
        assert!(!note(other) && note(other));
    }

    #[test]
    fn breaches_and_questions_have_their_bounds() {
        let now = Instant::now();
        let allowance = Allowance::new(now);
        assert!((0..limits::BREACHES).all(|_| allowance.breach(now) == Ok(Duration::ZERO)));
        assert!(allowance.breach(now).unwrap() > Duration::from_secs(3));
        let asks = (0..).take_while(|_| allowance.ask(now)).count() as u64;
        assert_eq!(asks, limits::ASKS);
        assert!(allowance.ask(now + Duration::from_secs(1)));
    }
}
