//! The bytes of an upgraded connection: each way passes by itself. A command may end before all of its
//! input is read; what it printed, and last of all its exit status, come by the other way.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::Notify;

use crate::limits;

/// Passes what each of both says to the other, until both have ended. The end of one is told to the
/// other, which goes on for as long as it likes. After an error of one way the other has
/// [`limits::STREAM_LAST_WORDS`] for each step.
pub async fn both_ways(
    one: impl AsyncRead + AsyncWrite + Unpin,
    other: impl AsyncRead + AsyncWrite + Unpin,
    buffer: usize,
) {
    let (from_one, to_one) = split(one);
    let (from_other, to_other) = split(other);
    let pace = Pace::default();
    let both = async {
        tokio::join!(
            one_way(from_one, to_other, buffer, &pace),
            one_way(from_other, to_one, buffer, &pace)
        )
    };
    tokio::select! {
        _ = both => {}
        () = pace.stalls() => tracing::debug!("a stream is cut, of which one way had failed"),
    }
}

async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    buffer: usize,
    pace: &Pace,
) {
    let mut buffer = vec![0; buffer];
    let end = pass(&mut from, &mut to, &mut buffer, pace).await;
    match &end {
        End::Said => {}
        End::Broken(error) | End::Unheard(error) => {
            tracing::debug!(%error, "one way of a stream broke");
            pace.fail();
        }
    }
    if to.shutdown().await.is_err() {
        pace.fail();
    }
    if matches!(end, End::Unheard(_)) {
        // Whoever speaks is not held up: it may hear only afterwards that nobody listens.
        while matches!(from.read(&mut buffer).await, Ok(read) if read > 0) {}
    }
}

async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    buffer: &mut [u8],
    pace: &Pace,
) -> End {
    loop {
        let read = match from.read(buffer).await {
            Ok(0) => return End::Said,
            Ok(read) => read,
            Err(error) => return End::Broken(error),
        };
        pace.step();
        if let Err(error) = write(to, &buffer[..read], pace).await {
            return End::Unheard(error);
        }
    }
}

async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    pace: &Pace,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = to.write(bytes).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
        pace.step();
    }
    to.flush().await
}

/// How one of both ways ended.
enum End {
    /// All was said, and all was heard.
    Said,
    /// Nobody listens to it any more.
    Unheard(io::Error),
    /// Nothing more can be read of it.
    Broken(io::Error),
}

/// Whether bytes still move, once a way has failed.
#[derive(Default)]
struct Pace {
    steps: AtomicU64,
    failed: Notify,
}

impl Pace {
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn fail(&self) {
        self.failed.notify_one();
    }

    /// Waits for a failure, and then for a time in which nothing moved.
    async fn stalls(&self) {
        self.failed.notified().await;
        loop {
            let before = self.steps.load(Ordering::Relaxed);
            tokio::time::sleep(limits::STREAM_LAST_WORDS).await;
            if self.steps.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{DuplexStream, Join, duplex, join};
    use tokio::time::{Instant, timeout};

    use super::*;

    /// One end of a connection, of which each way is a pipe of its own, and the other end.
    fn connection() -> (Join<DuplexStream, DuplexStream>, Far) {
        let ((input, hears), (says, output)) = (duplex(8), duplex(8));
        (join(output, input), Far { hears, says })
    }

    struct Far {
        hears: DuplexStream,
        says: DuplexStream,
    }

    const BUFFER: usize = 16;
    const FOR_EVER: Duration = Duration::from_secs(100_000);

    /// A client that speaks without end.
    async fn speak(mut says: DuplexStream) {
        while says.write_all(&[7; 50]).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_words_of_who_reads_no_more_arrive() {
        let ((home, mut client), (guest, command)) = (connection(), connection());
        let passing = tokio::spawn(both_ways(home, guest, BUFFER));
        let speaking = tokio::spawn(speak(client.says));
        drop(command.hears);
        let mut says = command.says;
        let words = tokio::spawn(async move {
            for _ in 0..20 {
                // Longer in all than the bound, since each step has its own.
                tokio::time::sleep(limits::STREAM_LAST_WORDS / 2).await;
                says.write_all(b"got").await.unwrap();
            }
            says.write_all(b"exit 3").await.unwrap();
        });
        let mut heard = String::new();
        client.hears.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "got".repeat(20) + "exit 3");
        words.await.unwrap();
        // The client speaks yet: it has its time to hear of the end.
        assert!(!passing.is_finished() && !speaking.is_finished());
        timeout(FOR_EVER, passing).await.unwrap().unwrap();
        speaking.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_of_one_way_is_told_and_the_other_has_all_its_time() {
        let ((home, mut client), (guest, mut command)) = (connection(), connection());
        let passing = tokio::spawn(both_ways(home, guest, BUFFER));
        client.says.write_all(b"all of the input").await.unwrap();
        client.says.shutdown().await.unwrap();
        let mut heard = String::new();
        command.hears.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "all of the input");
        tokio::time::sleep(10 * limits::STREAM_LAST_WORDS).await;
        command.says.write_all(b"late").await.unwrap();
        drop(command);
        heard.clear();
        client.hears.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "late");
        passing.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_ends_after_an_error_is_cut() {
        let ((home, mut client), (guest, command)) = (connection(), connection());
        let passing = tokio::spawn(both_ways(home, guest, BUFFER));
        let began = Instant::now();
        drop(command.hears);
        client.says.write_all(b"input").await.unwrap();
        timeout(FOR_EVER, passing).await.unwrap().unwrap();
        assert!(began.elapsed() <= 2 * limits::STREAM_LAST_WORDS);
        assert_eq!(client.hears.read(&mut [0; 8]).await.unwrap(), 0);
        drop(command.says);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_both_ways_ends_it_at_once() {
        let ((home, mut client), (guest, mut command)) = (connection(), connection());
        let passing = tokio::spawn(both_ways(home, guest, BUFFER));
        let began = Instant::now();
        drop((client.hears, command.hears));
        client.says.write_all(b"input").await.unwrap();
        command.says.write_all(b"output").await.unwrap();
        drop((client.says, command.says));
        timeout(FOR_EVER, passing).await.unwrap().unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
