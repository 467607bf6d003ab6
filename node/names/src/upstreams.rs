//! Which name server elsewhere is asked when: the first one first, the next one also where that says
//! nothing for a moment, and one that was silent last. Whoever answers first is heard. What a lease's guests
//! have seen of a server holds for them alone: whose zone is slow makes it slow for nobody else.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hickory_proto::rr::{Name, RecordType};
use mercato_protocol::id::ContractId;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::reply::Said;
use crate::{forward, limits};

/// What is known of the name servers elsewhere.
#[derive(Default)]
pub(crate) struct Upstreams {
    /// Those that were silent to guests of a lease, and until when these ask them last.
    silent: Mutex<BTreeMap<(ContractId, SocketAddr), Instant>>,
}

/// What a server was asked: how many were before it.
type Turn = usize;

impl Upstreams {
    /// Forgets the servers that are asked no more, and the leases that have ended.
    pub(crate) fn retain(&self, is_lease: impl Fn(&ContractId) -> bool, servers: &[SocketAddr]) {
        self.silent().retain(|(lease, server), _| is_lease(lease) && servers.contains(server));
    }

    /// What the first of the servers answers a guest of the lease; that nobody does, after a while.
    pub(crate) async fn ask(
        &self,
        lease: ContractId,
        servers: &[SocketAddr],
        name: &Name,
        of: RecordType,
    ) -> Said {
        let order = self.order(lease, servers, Instant::now());
        let tries = limits::FORWARD_TRIES.min(2 * order.len());
        let mut all = order.iter().copied().cycle().take(tries);
        let (mut asked, mut asks) = (Vec::new(), JoinSet::<(Turn, io::Result<Said>)>::new());
        let end = sleep(limits::FORWARD_WAIT);
        tokio::pin!(end);
        loop {
            let next = all.next();
            if let Some(server) = next {
                let (turn, name) = (asked.len(), name.clone());
                asked.push(server);
                asks.spawn(async move { (turn, forward::ask(server, &name, of).await) });
            }
            let done = tokio::select! {
                done = asks.join_next() => done,
                () = sleep(limits::FORWARD_NEXT), if next.is_some() => continue,
                () = &mut end => None,
            };
            match done {
                Some(Ok((turn, Ok(said)))) => {
                    self.answered(lease, &asked, turn, Instant::now());
                    return said;
                }
                Some(Ok((turn, Err(error)))) => {
                    let server = asked[turn];
                    tracing::debug!(%server, %error, "a name server gives no answer");
                    if error.kind() == io::ErrorKind::ConnectionRefused {
                        self.was_silent(lease, server, Instant::now());
                    }
                }
                Some(Err(error)) => tracing::debug!(%error, "a question has ended"),
                None => {
                    tracing::debug!(servers = ?asked, "no name server answers");
                    return Said::failed();
                }
            }
        }
    }

    /// In which order they are asked now. One that was silent long enough has its turn again in one
    /// question, and in the others when it has answered.
    fn order(&self, lease: ContractId, servers: &[SocketAddr], now: Instant) -> Vec<SocketAddr> {
        let mut silent = self.silent();
        let mut is_last = |server: &SocketAddr| {
            let Some(until) = silent.get_mut(&(lease, *server)) else { return false };
            let is_over = *until <= now;
            if is_over {
                *until = now + limits::FORWARD_SILENT;
            }
            !is_over
        };
        let (last, first): (Vec<_>, Vec<_>) = servers.iter().partition(|it| is_last(it));
        [first, last].concat()
    }

    /// One has answered: those that were asked before it, and have not, are asked last from now on.
    fn answered(&self, lease: ContractId, asked: &[SocketAddr], turn: Turn, now: Instant) {
        for server in asked[..turn].iter().filter(|server| **server != asked[turn]) {
            self.was_silent(lease, *server, now);
        }
        self.silent().remove(&(lease, asked[turn]));
    }

    fn was_silent(&self, lease: ContractId, server: SocketAddr, now: Instant) {
        self.silent().insert((lease, server), now + limits::FORWARD_SILENT);
    }

    fn silent(&self) -> MutexGuard<'_, BTreeMap<(ContractId, SocketAddr), Instant>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ContractId = ContractId([1; 16]);
    const OTHER: ContractId = ContractId([2; 16]);

    #[test]
    fn a_server_that_was_silent_is_asked_last_and_tried_again_by_one_question() {
        let [a, b, c] = [1, 2, 3].map(|n| SocketAddr::from(([192, 0, 2, n], 53)));
        let (upstreams, start) = (Upstreams::default(), Instant::now());
        let order = |at| upstreams.order(ONE, &[a, b, c], at);
        assert_eq!(order(start), [a, b, c]);
        upstreams.answered(ONE, &[a, b], 1, start);
        assert_eq!(order(start), [b, c, a]);
        assert_eq!(
            upstreams.order(OTHER, &[a, b, c], start),
            [a, b, c],
            "nobody else is concerned"
        );
        let later = start + limits::FORWARD_SILENT;
        assert_eq!(order(later), [a, b, c], "one question tries it");
        assert_eq!(order(later), [b, c, a], "and no other meanwhile");
        upstreams.answered(ONE, &[a], 0, later);
        assert_eq!(order(later), [a, b, c]);
        // A second question to the same server says nothing against it.
        upstreams.answered(ONE, &[a, b, a], 2, later);
        assert_eq!(order(later), [a, c, b]);
        for all in [[a, b], [b, c], [c, a]] {
            upstreams.answered(ONE, &all, 1, later);
        }
        upstreams.answered(OTHER, &[b, c], 1, later);
        upstreams.retain(|lease| *lease == ONE, &[b]);
        assert_eq!(upstreams.silent().keys().copied().collect::<Vec<_>>(), [(ONE, b)]);
    }
}
