//! Guest namespaces that are not as they are wanted: those that somebody has removed, and those that
//! nobody wants any more.

use std::collections::BTreeSet;
use std::time::Duration;

use mercato_kubelet::guest::namespace::Seen;

use super::AtProvider;
use super::namespace::State;

impl AtProvider {
    /// Makes a namespace again that somebody has removed; what is to be written in it fails,
    /// and is tried again, until it is there. One that is there comes to no harm.
    pub(super) fn make_again(&mut self, seen: &Seen) {
        let desire = self.task.desire.borrow().clone();
        for (home, name) in &desire.namespaces {
            let gone = match seen {
                Seen::There(all) => !all.contains(name),
                Seen::Gone(gone) => gone == name,
            };
            if gone && self.state(home, name) == Some(&State::There) {
                // Once for each removal.
                tracing::warn!(
                    namespace = name,
                    "a guest namespace was removed, and is made again"
                );
                self.make(&desire, home, name, Duration::ZERO);
            }
        }
    }

    /// Removes the guest namespaces of the lease that are there and not wanted: they were given
    /// up as an earlier start ended.
    pub(super) fn leave_strays(&mut self, seen: &Seen) {
        let Seen::There(all) = seen else { return };
        let known = self.namespaces.values().map(|known| &known.name).collect::<BTreeSet<_>>();
        let strays = all.iter().filter(|name| !known.contains(name)).cloned();
        for stray in strays.collect::<Vec<_>>() {
            tracing::info!(namespace = stray, "a guest namespace that is not needed any more goes");
            self.remove_one(stray, None);
        }
    }
}
