//! The command line's end of the admin API.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

use super::api::unexpected;
use super::{Answer, Class, OperatorApi, PATH, Problem, Request};
use crate::limits;

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
        let broken = |error: &dyn std::error::Error| {
            Problem::new(Class::Unreachable, "the connection with the daemon broke")
                .todo("see in its log what happened, and ask again")
                .because(error)
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        // Ends with the sender.
        tokio::spawn(connection);
        let body = serde_json::to_vec(&request).map_err(|error| unexpected(&error))?;
        let request = http::Request::post(PATH)
            .header(HOST, "mercato")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| unexpected(&error))?;
        let answer = sender.send_request(request).await.map_err(|error| broken(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), limits::ADMIN_ANSWER_BYTES);
        let body = body.collect().await.map_err(|error| broken(&*error))?.to_bytes();
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| unexpected(&error));
        }
        Err(serde_json::from_slice(&body)
            .unwrap_or_else(|_| unexpected(&String::from_utf8_lossy(&body))))
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
            let late = |_| {
                let seconds = self.timeout.as_secs_f64();
                Problem::new(Class::TimedOut, format!("the daemon took over {seconds} s to answer"))
                    .todo("give it longer: --timeout 1m")
            };
            tokio::time::timeout(self.timeout, self.exchange(request)).await.map_err(late)?
        }
        .boxed()
    }
}
