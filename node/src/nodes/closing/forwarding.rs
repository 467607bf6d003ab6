//! Whether this machine forwards what guests send: tried at the start, now and then, and soon after
//! somebody has changed its packet rules.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::sandboxes::Sandboxes;
use crate::limits;

/// Why it does not, if so; before the first try, that there was none.
pub(super) type Forwarding = Option<String>;

/// What is known before the first try.
pub(super) fn untried() -> Forwarding {
    Some("it was not tried yet whether this node forwards what pods send".to_owned())
}

/// Tries it for as long as somebody wants to know.
pub(super) async fn try_again<S: Sandboxes>(sandboxes: Arc<S>, tell: watch::Sender<Forwarding>) {
    let mut tried: Option<Tried> = None;
    loop {
        let sandboxes = sandboxes.clone();
        let looking = spawn_blocking(move || look(&*sandboxes, tried));
        let now = looking.await.unwrap_or_else(|error| {
            std::panic::resume_unwind(error.into_panic());
        });
        tell.send_if_modified(|before| {
            let is_new = *before != now.why;
            before.clone_from(&now.why);
            is_new
        });
        tried = Some(now);
        tokio::select! {
            () = sleep(limits::FORWARD_LOOK) => {}
            () = tell.closed() => return,
        }
    }
}

/// What came of the last try.
struct Tried {
    at: Instant,
    /// The number of the packet rules before it; none: it is not known.
    generation: Option<u32>,
    why: Forwarding,
}

/// Tries it, unless nothing can be otherwise than before. Waits for the kernel.
fn look(sandboxes: &impl Sandboxes, tried: Option<Tried>) -> Tried {
    let generation = sandboxes.generation().ok();
    let is_fresh = |tried: &Tried| {
        let is_early =
            tried.at.elapsed() < limits::CLOSE_TRY.saturating_sub(Duration::from_millis(1));
        is_early && tried.why.is_none() && generation.is_some() && tried.generation == generation
    };
    if let Some(tried) = tried.filter(is_fresh) {
        return tried;
    }
    let why = sandboxes.try_to_forward().err().map(|error| error.to_string());
    Tried { at: Instant::now(), generation, why }
}
