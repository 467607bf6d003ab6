//! What people were told already. An agent that is rebuilt is told of the world again, and tells
//! it again: only what is new since then is an event.

use std::collections::BTreeMap;

use mercato_agent::Notice;
use mercato_protocol::id::ClusterId;
use mercato_protocol::resources::Resources;

use crate::limits;

/// What stands, as it was told last.
#[derive(Default)]
pub(in crate::driver) struct Told {
    /// Who is connected, with its name.
    connected: BTreeMap<ClusterId, String>,
    /// What is offered, as it was told last.
    offers: BTreeMap<ClusterId, Resources>,
    /// Why no records can be written.
    degraded: Option<String>,
}

impl Told {
    /// Whether a notice says something new; it is told from now on.
    pub(in crate::driver) fn is_new(&mut self, notice: &Notice) -> bool {
        match notice {
            Notice::Connected { peer, name } => put(&mut self.connected, *peer, name),
            Notice::Disconnected(peer) => self.connected.remove(peer).is_some(),
            Notice::Offered(peer, all) => put(&mut self.offers, *peer, all),
            Notice::Withdrawn(peer) => {
                self.offers.remove(peer);
                true
            }
            Notice::Degraded(why) => self.degraded.replace(why.clone()).as_ref() != Some(why),
            Notice::Rekeyed(_)
            | Notice::Outdated(_)
            | Notice::BadAd(..)
            | Notice::Fraud(_)
            | Notice::Shunned(_)
            | Notice::Standing(..)
            | Notice::Deal { .. }
            | Notice::Change { .. }
            | Notice::Burst(_)
            | Notice::Federation { .. } => true,
        }
    }

    /// The records can be written again.
    pub(in crate::driver) fn mended(&mut self) {
        self.degraded = None;
    }
}

/// Whether this is not what stands there; it does from now on.
fn put<T: Clone + PartialEq>(told: &mut BTreeMap<ClusterId, T>, of: ClusterId, what: &T) -> bool {
    let is_new = told.insert(of, what.clone()).as_ref() != Some(what);
    while told.len() > limits::TOLD {
        told.pop_first();
    }
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURIN: ClusterId = ClusterId([0x4f; 32]);

    #[test]
    fn what_stands_is_told_once() {
        let mut told = Told::default();
        let connected = Notice::Connected { peer: TURIN, name: "turin".to_owned() };
        let offer =
            |cpu_millis| Notice::Offered(TURIN, Resources { cpu_millis, ..Resources::default() });
        let full = Notice::Degraded("No space left on device".to_owned());
        for (notice, is_new) in [
            (connected.clone(), true),
            (connected.clone(), false),
            (offer(8_000), true),
            (offer(8_000), false),
            (offer(4_000), true),
            (full.clone(), true),
            (full.clone(), false),
            (Notice::Disconnected(TURIN), true),
            (Notice::Disconnected(TURIN), false),
            (connected, true),
            (Notice::Withdrawn(TURIN), true),
            (offer(4_000), true),
        ] {
            assert_eq!(told.is_new(&notice), is_new, "{notice:?}");
        }
        told.mended();
        assert!(told.is_new(&full));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut told = Told::default();
        for n in 0..2 * limits::TOLD {
            let mut peer = [0; 32];
            peer[..8].copy_from_slice(&(n as u64).to_be_bytes());
            told.is_new(&Notice::Connected { peer: ClusterId(peer), name: String::new() });
        }
        assert_eq!(told.connected.len(), limits::TOLD);
    }
}
