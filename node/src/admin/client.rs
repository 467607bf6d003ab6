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
        let absent = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
        if error.kind() == io::ErrorKind::PermissionDenied {
            problem(format!("the daemon's socket {socket} is another user's"))
                .todo("ask as the user that the daemon runs as, for example with sudo")
        } else if absent.contains(&error.kind()) {
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
