//! What happened lately, for `mercato events`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use mercato_agent::Notice;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use super::clock::wall_ms;
use crate::admin::Event;
use crate::limits;

/// The latest notices, numbered; takes more for as long as it lives.
pub(super) struct Events {
    kept: Arc<Mutex<VecDeque<Event>>>,
    following: AbortHandle,
}

impl Events {
    pub(super) fn follow(mut notices: broadcast::Receiver<Notice>) -> Self {
        let kept = Arc::new(Mutex::new(VecDeque::new()));
        let keep = kept.clone();
        let following = tokio::spawn(async move {
            let mut number = 0;
            loop {
                let text = match notices.recv().await {
                    Ok(notice) => tell(&notice),
                    Err(broadcast::error::RecvError::Lagged(n)) => format!("{n} more happened"),
                    Err(broadcast::error::RecvError::Closed) => return,
                };
                number += 1;
                let mut kept = keep.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_back(Event { number, at_ms: wall_ms(), text });
                if kept.len() > limits::EVENTS {
                    kept.pop_front();
                }
            }
        });
        Self { kept, following: following.abort_handle() }
    }

    pub(super) fn after(&self, number: u64) -> Vec<Event> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|event| event.number > number).cloned().collect()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// A notice, in a line.
fn tell(notice: &Notice) -> String {
    match notice {
        Notice::Connected { peer, name } => format!("connected with {name} ({})", peer.short()),
        Notice::Disconnected(peer) => format!("disconnected from {}", peer.short()),
        Notice::Offered(peer) => format!("{} offers something", peer.short()),
        Notice::Withdrawn(peer) => format!("{} offers nothing any more", peer.short()),
        Notice::BadAd(key, error) => format!("a bad advertisement of {}: {error}", key.short()),
        Notice::Fraud(key) => format!("{} signed two ads under one number", key.short()),
        Notice::Shunned(key) => format!("gossip takes nothing more from {}", key.short()),
        Notice::Standing(peer, standing) => {
            format!("{} is {} now", peer.short(), format!("{standing:?}").to_lowercase())
        }
        Notice::Deal { id, side, state } => {
            let [side, state] = [format!("{side:?}"), format!("{state:?}")];
            format!("{} ({}): {}", id.short(), side.to_lowercase(), state.to_lowercase())
        }
        Notice::Degraded(why) => format!("the records cannot be written: {why}"),
    }
}
