//! The command line's end: the same admin API, asked of a daemon in a pod.

use std::path::PathBuf;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use hyper::body::Bytes;
use tokio::sync::Mutex;

use super::place::Place;
use super::reach::{self, Open};
use crate::admin::{Answer, Class, OperatorApi, Problem, Request, exchange};

/// Asks a daemon in its pod, over one connection as long as that lasts.
pub(crate) struct Client {
    place: Place,
    /// Where a daemon of this machine would have been asked; none: the cluster was named.
    instead_of: Option<PathBuf>,
    timeout: Duration,
    open: Mutex<Option<Open>>,
    /// Whoever asks over the connection; others wait until it is back.
    turn: Mutex<()>,
}

impl Client {
    pub(crate) fn new(place: Place, instead_of: Option<PathBuf>, timeout: Duration) -> Self {
        Self { place, instead_of, timeout, open: Mutex::default(), turn: Mutex::default() }
    }

    /// Over the connection that there is; none is opened.
    async fn over_what_is_open(&self, request: &Request) -> Result<Answer, Problem> {
        let _turn = self.turn.lock().await;
        let body = exchange::body(request)?;
        let kept = self.open.lock().await.take();
        let answer = match kept {
            Some(open) => self.again(open, body).await,
            None => None,
        };
        answer.unwrap_or_else(|| Err(ended(&self.place)))
    }

    async fn exchange(&self, request: &Request) -> Result<Answer, Problem> {
        let _turn = self.turn.lock().await;
        let body = exchange::body(request)?;
        // Held by nobody while it is used: who gives up leaves it in the middle of an answer.
        let kept = self.open.lock().await.take();
        if let Some(open) = kept
            && let Some(answer) = self.again(open, body.clone()).await
        {
            return answer;
        }
        let mut open = reach::open(&self.place).await?;
        let said = exchange::post(&mut open.sender, open.authorization.clone(), body).await;
        let (status, answer) = said.map_err(|error| exchange::broken(&*error))?;
        self.keep(open).await;
        exchange::read(status, &answer)
    }

    /// Over a connection that there was; none where that has ended, or what was shown on it has: by
    /// then nothing was asked.
    pub(super) async fn again(
        &self,
        mut open: Open,
        body: Bytes,
    ) -> Option<Result<Answer, Problem>> {
        open.sender.ready().await.ok()?;
        match exchange::post(&mut open.sender, open.authorization.clone(), body).await {
            Ok((StatusCode::UNAUTHORIZED, _)) => None,
            Ok((status, answer)) => {
                self.keep(open).await;
                Some(exchange::read(status, &answer))
            }
            Err(error) if exchange::was_not_sent(&*error) => None,
            Err(error) => Some(Err(exchange::broken(&*error))),
        }
    }

    async fn keep(&self, open: Open) {
        *self.open.lock().await = Some(open);
    }

    /// Says where nobody was asked, too: a person may have meant a daemon of this machine.
    fn beside(&self, problem: Problem) -> Problem {
        match &self.instead_of {
            Some(socket) if problem.class == Class::Unreachable => problem.todo(format!(
                "there is no daemon at {} either; to start one here: mercato run",
                socket.display()
            )),
            Some(_) | None => problem,
        }
    }
}

impl OperatorApi for Client {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        async move {
            let asked = tokio::time::timeout(self.timeout, self.exchange(&request)).await;
            let late = |_| exchange::late(self.timeout);
            asked.map_err(late)?.map_err(|problem| self.beside(problem))
        }
        .boxed()
    }

    fn ask_quietly(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        async move {
            let asked = tokio::time::timeout(self.timeout, self.over_what_is_open(&request)).await;
            asked.map_err(|_| exchange::late(self.timeout))?
        }
        .boxed()
    }
}

/// There is no connection any more, and nobody has asked for another.
fn ended(place: &Place) -> Problem {
    let what = format!("the connection with the daemon of {} has ended", place.describe());
    Problem::new(Class::Unreachable, what)
        .todo("a new one may take a login, and is opened when you ask for it")
}
