//! Where the swarm's task listens, and of which of that peers are told.

use libp2p::Multiaddr;
use mercato_discovery::{Address, Host};

use super::Task;
use crate::address::multiaddr;
use crate::event::Event;

impl Task {
    /// It listens at this address from now on, or does no longer.
    pub(super) fn listening(&mut self, address: Option<Address>, on: bool) {
        let Some(address) = address else { return };
        self.peers.listening(address.clone(), on);
        self.tell_addresses();
        self.outbox.push_back(if on {
            Event::Listening { address }
        } else {
            Event::NotListening { address }
        });
    }

    /// To libp2p those that others are told of are external, and it says no others.
    pub(super) fn tell_addresses(&mut self) {
        let told: Vec<Multiaddr> = self.peers.told().iter().filter_map(external).collect();
        let before: Vec<Multiaddr> = self.swarm.external_addresses().cloned().collect();
        for gone in before.iter().filter(|one| !told.contains(one)) {
            self.swarm.remove_external_address(gone);
        }
        for new in told.into_iter().filter(|one| !before.contains(one)) {
            self.swarm.add_external_address(new);
        }
    }
}

/// A machine listens at addresses, never at names.
fn external(address: &Address) -> Option<Multiaddr> {
    match &address.host {
        Host::Ip(ip) => Some(multiaddr((*ip, address.port).into(), address.transport)),
        Host::Name(_) => None,
    }
}
