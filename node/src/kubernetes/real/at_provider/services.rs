//! Which addresses of this cluster the Services of a lease have is told to whoever closes its guests.

use std::collections::BTreeSet;
use std::time::Duration;

use mercato_protocol::limits::LEASE_SERVICES;
use mercato_protocol::node::ServiceAddress;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::driver::clock::Clock;
use crate::kubernetes::TellServices;
use crate::limits;
use crate::paced::Paced;

/// Tells each change as long as it is asked to, those of a moment at once: each is other rules for
/// all guests of the lease, and home makes Services as it likes.
pub(super) async fn tell(
    mut addresses: watch::Receiver<BTreeSet<ServiceAddress>>,
    to: TellServices,
) {
    let (clock, mut paced) = (Clock::start(), Paced::new(limits::SERVICES_GATHER));
    let (mut warned, mut is_listed) = (false, true);
    loop {
        let now_ms = clock.now().mono_ms;
        if let Some(now) = paced.take(now_ms) {
            if is_many(&now) && !std::mem::replace(&mut warned, true) {
                // Once for each start of the lease.
                tracing::warn!(
                    services = now.len(),
                    most = LEASE_SERVICES,
                    "guests have more Services than are opened to them: those that are closed do \
                     not reach the others"
                );
            }
            to(now);
        }
        let rest = paced.due_ms().map(|due| Duration::from_millis(due.saturating_sub(now_ms)));
        tokio::select! {
            changed = addresses.changed(), if is_listed => {
                is_listed = changed.is_ok();
                if is_listed {
                    paced.hear(addresses.borrow_and_update().clone());
                }
            }
            () = sleep(rest.unwrap_or_default()), if rest.is_some() => {}
            else => break,
        }
    }
    std::future::pending::<()>().await;
}

fn is_many(addresses: &BTreeSet<ServiceAddress>) -> bool {
    addresses.iter().nth(LEASE_SERVICES).is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn changes_of_a_moment_are_told_at_once() {
        let (addresses, receiver) = watch::channel(BTreeSet::new());
        let told = Arc::new(Mutex::new(Vec::new()));
        let tells = told.clone();
        let to =
            Arc::new(move |now: BTreeSet<ServiceAddress>| tells.lock().unwrap().push(now.len()));
        let _telling = Telling(tokio::spawn(tell(receiver, to)));
        tokio::task::yield_now().await;
        assert!(told.lock().unwrap().is_empty(), "nothing is listed yet");
        for last in [1, 2, 3] {
            addresses.send_modify(|all| {
                all.insert(ServiceAddress { here: [10, 96, 0, last].into(), home: None });
            });
            tokio::task::yield_now().await;
        }
        assert_eq!(*told.lock().unwrap(), [1], "the first at once");
        let comes = async |count: usize| {
            while told.lock().unwrap().len() < count {
                tokio::task::yield_now().await;
            }
        };
        comes(2).await;
        addresses.send_replace(BTreeSet::new());
        comes(3).await;
        assert_eq!(*told.lock().unwrap(), [1, 3, 0]);
    }

    struct Telling(tokio::task::JoinHandle<()>);

    impl Drop for Telling {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
}
