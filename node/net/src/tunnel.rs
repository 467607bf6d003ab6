//! What two clusters say about their tunnel: a question and its one answer, on a stream of their
//! own. A question may hold the secret of the two: its frame is erased as soon as it was written or
//! read. What passes through libp2p's own buffers is not.

use std::io;

use futures::AsyncWriteExt as _;
use libp2p::Stream;
use mercato_protocol::codec::Message as _;
use mercato_protocol::tunnel::{Answer, Ask};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::{NetError, TunnelError};
use crate::{frame, limits};

/// Answers one question about the tunnel. Dropped, the asker learns that there will be no answer.
#[derive(Debug)]
pub struct TunnelResponder(oneshot::Sender<Answer>);

impl TunnelResponder {
    /// One, and where its answer arrives.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        (Self(answer), answered)
    }

    /// Sends the answer; one that the peer would refuse is none.
    pub fn respond(self, answer: Answer) {
        // The asker has gone if this fails.
        let _ = self.0.send(answer);
    }
}

/// Asks on a stream that was opened for it.
pub(crate) async fn ask(mut stream: Stream, ask: &Ask) -> Result<Answer, TunnelError> {
    let question = ask.to_frame().map_err(TunnelError::Ask)?;
    let exchange = async {
        frame::write(&mut stream, &question).await?;
        stream.close().await?;
        frame::expect(&mut stream, limits::TUNNEL_BYTES).await
    };
    let answer = timeout(limits::REQUEST_TIMEOUT, exchange).await;
    let answer = answer.map_err(|_| NetError::TimedOut)?.map_err(NetError::Io)?;
    Answer::from_bytes(&answer).map_err(TunnelError::Answer)
}

/// Reads the question of so many bytes.
pub(crate) async fn question(stream: &mut Stream, length: usize) -> io::Result<Ask> {
    let frame = frame::erased(stream, length).await?;
    Ask::from_bytes(&frame).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Answers it, if there is an answer.
pub(crate) async fn answer(
    mut stream: Stream,
    answered: oneshot::Receiver<Answer>,
) -> Result<(), NetError> {
    let exchange = async {
        // Dropping the stream says it.
        let Ok(answer) = answered.await else { return Ok(()) };
        let answer = answer.to_bytes();
        let answer = answer.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        frame::write(&mut stream, &answer).await?;
        Ok(stream.close().await?)
    };
    timeout(limits::REQUEST_TIMEOUT, exchange).await.map_err(|_| NetError::TimedOut)?
}
