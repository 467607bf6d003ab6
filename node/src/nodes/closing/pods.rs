//! Whose question is heard: that of a pod of this machine, by the address that it comes from. All
//! namespaces are looked into for that, and not more than so often, whoever asks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::sandboxes::Sandboxes;
use crate::limits;

/// The addresses of the pods of this machine, as they were seen last.
pub(super) struct Pods<S> {
    sandboxes: Arc<S>,
    seen: Arc<Mutex<Seen>>,
    /// When the last look began; one looks at a time.
    looked: tokio::sync::Mutex<Option<Instant>>,
}

/// What a look has seen.
#[derive(Default)]
struct Seen {
    addresses: BTreeSet<IpAddr>,
    /// It could not be seen who is here: whoever closes them says why.
    failed: bool,
}

impl<S: Sandboxes> Pods<S> {
    /// Those of this machine, of whom none was seen yet.
    pub(super) fn new(sandboxes: Arc<S>) -> Self {
        Self { sandboxes, seen: Arc::default(), looked: tokio::sync::Mutex::default() }
    }

    /// Whether a pod that was seen here has the address.
    pub(super) fn knows(&self, address: IpAddr) -> bool {
        lock(&self.seen).addresses.contains(&address)
    }

    /// Whether a pod here has the address by now. Who was not seen before waits for the next look,
    /// all of these for the same one.
    pub(super) async fn has(&self, address: IpAddr) -> bool {
        let came = Instant::now();
        let mut looked = self.looked.lock().await;
        // It had the address before it came.
        if !looked.is_some_and(|began| began >= came) {
            if let Some(before) = *looked {
                sleep_until(before + limits::GATE_LOOK).await;
            }
            // Also where whoever waits for it here goes before it ends.
            *looked = Some(Instant::now());
            let (sandboxes, seen) = (self.sandboxes.clone(), self.seen.clone());
            let look = move || {
                let pods = sandboxes.pods();
                let mut seen = lock(&seen);
                seen.failed = pods.is_err();
                if let Ok(addresses) = pods {
                    seen.addresses = addresses;
                }
            };
            // One that has panicked has seen nothing.
            let _ = tokio::task::spawn_blocking(look).await;
        }
        let seen = lock(&self.seen);
        seen.failed || seen.addresses.contains(&address)
    }
}

/// Who asks now: of each address one is heard at a time, and one waits for that.
#[derive(Clone, Default)]
pub(super) struct Asking(Arc<Mutex<BTreeMap<IpAddr, Queue>>>);

struct Queue {
    length: usize,
    turn: Arc<Semaphore>,
}

/// One that may ask as soon as it is its turn.
pub(super) struct Queued {
    asking: Asking,
    from: IpAddr,
    turn: Arc<Semaphore>,
}

/// Its turn, until it is dropped. It has left the queue before another one's turn comes.
pub(super) struct Turn {
    _queued: Queued,
    _permit: OwnedSemaphorePermit,
}

impl Asking {
    /// None: as many ask from there already, or in all.
    pub(super) fn enter(&self, from: IpAddr) -> Option<Queued> {
        let mut all = lock(&self.0);
        if all.len() >= limits::CLOSED && !all.contains_key(&from) {
            return None;
        }
        let new = || Queue { length: 0, turn: Arc::new(Semaphore::new(1)) };
        let queue = all.entry(from).or_insert_with(new);
        if queue.length >= limits::GATE_ASKS_OF_POD {
            return None;
        }
        queue.length += 1;
        Some(Queued { asking: self.clone(), from, turn: queue.turn.clone() })
    }
}

impl Queued {
    /// As soon as it is.
    pub(super) async fn turn(self) -> Option<Turn> {
        let permit = self.turn.clone().acquire_owned().await.ok()?;
        Some(Turn { _queued: self, _permit: permit })
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut all = lock(&self.asking.0);
        if let Some(queue) = all.get_mut(&self.from) {
            queue.length -= 1;
            if queue.length == 0 {
                all.remove(&self.from);
            }
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
