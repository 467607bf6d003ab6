//! The command line's end of the admin API.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use super::{Answer, Class, OperatorApi, Problem, Request, exchange};

/// Asks a daemon by its socket, one connection a request.
pub(crate) struct Client {
    socket: PathBuf,
    timeout: Duration,
}

impl Client {
    pub(crate) fn new(socket: PathBuf, timeout: Duration) -> Self {
        Self { socket, timeout }
    }

    /// Whether somebody listens at the socket, who may answer or not.
    ///
    /// # Errors
    /// When that is not to be known, as where the socket is another user's.
    pub(crate) async fn is_there(&self) -> Result<bool, Problem> {
        match UnixStream::connect(&self.socket).await {
            Ok(_) => Ok(true),
            Err(error) if ABSENT.contains(&error.kind()) => Ok(false),
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    async fn exchange(&self, request: Request) -> Result<Answer, Problem> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| self.unreachable(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| exchange::broken(&error))?;
        // Ends with the sender.
        tokio::spawn(connection);
        let answered = exchange::post(&mut sender, None, exchange::body(&request)?).await;
        let (status, answer) = answered.map_err(|error| exchange::broken(&*error))?;
        exchange::read(status, &answer)
    }

    fn unreachable(&self, error: &io::Error) -> Problem {
        let socket = self.socket.display();
        let problem = |what: String| Problem::new(Class::Unreachable, what).because(error);
        if error.kind() == io::ErrorKind::PermissionDenied {
            problem(format!("the daemon's socket {socket} is another user's"))
                .todo("ask as the user that the daemon runs as, for example with sudo")
        } else if ABSENT.contains(&error.kind()) {
            problem(format!("no daemon answers at {socket}"))
                .todo("start one: mercato run")
                .todo("or say where it is: --data-dir DIR, or --socket PATH")
        } else {
            problem(format!("the daemon's socket {socket} cannot be opened: {error}"))
                .todo("say where it is: --data-dir DIR, or --socket PATH")
        }
    }
}

impl OperatorApi for Client {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        async move {
            let late = |_| exchange::late(self.timeout);
            tokio::time::timeout(self.timeout, self.exchange(request)).await.map_err(late)?
        }
        .boxed()
    }
}

/// How it looks where no daemon is: no socket, or one that nobody listens at.
const ABSENT: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
