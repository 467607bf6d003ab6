//! The API servers that guests are brought to: in turn, and the next one where one does not answer.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures::future::BoxFuture;
use mercato_kubelet::{Repeated, warn_once};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::limits;

/// Says where they are, the last one only for where no other answers: a host and a port each.
pub(in crate::tunnel) type AskServers =
    Arc<dyn Fn() -> BoxFuture<'static, Vec<Server>> + Send + Sync>;

/// A host, and its port.
type Server = (String, u16);

/// The API servers that are known.
pub(super) struct Servers {
    ask: AskServers,
    /// Whoever asks keeps others waiting, who then know it as well.
    known: tokio::sync::Mutex<Known>,
    tried: Mutex<Tried>,
}

#[derive(Default)]
struct Known {
    all: Vec<Server>,
    since: Option<Instant>,
}

#[derive(Default)]
struct Tried {
    turn: usize,
    /// Those that did not answer, and when that was.
    silent: BTreeMap<Server, Instant>,
    failing: Repeated,
    /// Why the last one was brought to none, if so.
    trouble: Option<String>,
}

impl Servers {
    pub(super) fn new(ask: AskServers) -> Self {
        Self { ask, known: tokio::sync::Mutex::default(), tried: Mutex::default() }
    }

    /// A connection to one of them.
    ///
    /// # Errors
    /// When none of them takes it, with what the last one said.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        let all = self.all().await;
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "no API server is known");
        let order = self.tried().order(all, Instant::now());
        for server in order {
            let dialled = TcpStream::connect((server.0.as_str(), server.1));
            let dialled = timeout(limits::API_DIAL, dialled).await;
            let dialled = dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            match dialled {
                Ok(connection) => {
                    let mut tried = self.tried();
                    tried.silent.remove(&server);
                    tried.failing.is_over();
                    tried.trouble = None;
                    return Ok(connection);
                }
                Err(error) => {
                    let (host, port) = &server;
                    failed = io::Error::new(error.kind(), format!("{host}:{port}: {error}"));
                    self.tried().silent.insert(server, Instant::now());
                }
            }
        }
        let what = "guests elsewhere do not reach this cluster's API server";
        let mut tried = self.tried();
        warn_once!(tried.failing, failed; "{what}");
        tried.trouble = Some(failed.to_string());
        drop(tried);
        Err(failed)
    }

    /// Why the last guest that called was brought to no server, if so.
    pub(super) fn trouble(&self) -> Option<String> {
        self.tried().trouble.clone()
    }

    /// As they were said last: while none answers, none says anything else.
    async fn all(&self) -> Vec<Server> {
        let mut known = self.known.lock().await;
        if known.since.is_none_or(|since| since.elapsed() >= limits::API_SERVERS_FRESH) {
            let said = (self.ask)().await;
            // One alone is what the daemon was told itself: it has heard of no other.
            if said.len() > 1 || known.all.len() <= 1 {
                known.all = said;
            }
            known.since = Some(Instant::now());
        }
        known.all.clone()
    }

    fn tried(&self) -> MutexGuard<'_, Tried> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tried {
    /// Another one first each time, and those last that did not answer lately; after all of them the
    /// one that is for where no other answers.
    fn order(&mut self, mut all: Vec<Server>, now: Instant) -> Vec<Server> {
        let rests = |since: &Instant| now.saturating_duration_since(*since) < limits::API_RESTS;
        self.silent.retain(|server, since| rests(since) && all.contains(server));
        let last = all.pop();
        let turn = self.turn.checked_rem(all.len()).unwrap_or_default();
        self.turn = self.turn.wrapping_add(1);
        all.rotate_left(turn);
        all.sort_by_key(|server| self.silent.contains_key(server));
        all.extend(last);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_silent_comes_after_the_others() {
        let server = |n: u8| (format!("192.0.2.{n}"), 6_443);
        let all = || (1..=4).map(server).collect::<Vec<_>>();
        let (mut tried, start) = (Tried::default(), Instant::now());
        let numbers = |servers: Vec<Server>| -> Vec<String> {
            servers.into_iter().map(|(host, _)| host.replace("192.0.2.", "")).collect()
        };
        assert_eq!(numbers(tried.order(all(), start)), ["1", "2", "3", "4"]);
        assert_eq!(numbers(tried.order(all(), start)), ["2", "3", "1", "4"], "in turn");
        tried.silent.insert(server(3), start);
        assert_eq!(numbers(tried.order(all(), start)), ["1", "2", "3", "4"]);
        assert_eq!(numbers(tried.order(all(), start)), ["1", "2", "3", "4"], "it rests");
        let later = start + limits::API_RESTS;
        assert_eq!(numbers(tried.order(all(), later)), ["2", "3", "1", "4"]);
        assert!(tried.silent.is_empty());
        assert_eq!(tried.order(Vec::new(), later), []);
        assert_eq!(numbers(tried.order(vec![server(4)], later)), ["4"]);
    }
}
