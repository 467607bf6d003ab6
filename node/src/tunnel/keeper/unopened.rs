//! Guests have asked for names of namespaces that are not open to them: their homes are told, once, by the
//! words that there are for events of guests.

use std::collections::{BTreeMap, BTreeSet};

use mercato_agent::{Input, LeaseInput};
use mercato_broker::Side;
use mercato_offload::guest;
use mercato_offload::key::PodId;
use mercato_offload::placement::export::SoughtService;
use mercato_protocol::id::ContractId;
use mercato_protocol::limits::NODE_UNOPENED;
use mercato_protocol::node::UnopenedName;

use super::names::OwnNames;
use crate::driver::Handle;
use crate::tunnel::nodes::{Nodes, unopened};
use crate::tunnel::words::Said;

/// What homes were told of what their guests have asked for lately.
#[derive(Default)]
pub(super) struct Unopened {
    told: BTreeMap<ContractId, BTreeSet<(PodId, SoughtService)>>,
}

impl Unopened {
    /// Tells the home of each guest for which names it asks in vain.
    pub(super) async fn tell(
        &mut self,
        nodes: &Nodes,
        own: &OwnNames,
        said: &Said,
        driver: &Handle,
    ) {
        let names = unopened(nodes).chain(own.unopened());
        for (lease, input) in self.news(names.collect(), said) {
            driver.tell(Input::Lease(lease, LeaseInput::Guest(input))).await;
        }
    }

    /// What is new of what nodes say: so much of a lease at a time, by guests that it has. What is asked for no
    /// more may be told again.
    fn news(
        &mut self,
        names: BTreeSet<UnopenedName>,
        said: &Said,
    ) -> Vec<(ContractId, guest::Input)> {
        let mut now: BTreeMap<ContractId, BTreeSet<_>> = BTreeMap::new();
        for name in names {
            let lease = said.leases.get(&name.lease).filter(|lease| lease.side == Side::Provider);
            let pods = lease.and_then(|_| said.pods.get(&name.lease));
            let asks = pods.into_iter().flat_map(BTreeMap::values);
            let asks = asks.map(|pod| &pod.of).find(|of| {
                // One that is called by another address has that as its own.
                [of.guest, of.address].contains(&name.guest)
            });
            let Some(of) = asks else { continue };
            let sought = SoughtService { name: name.service, namespace: name.namespace };
            now.entry(name.lease).or_default().insert((of.pod.clone(), sought));
        }
        self.told.retain(|lease, _| now.contains_key(lease));
        let mut news = Vec::new();
        for (lease, asked) in now {
            let told = self.told.entry(lease).or_default();
            told.retain(|known| asked.contains(known));
            for one in asked {
                if told.len() < NODE_UNOPENED && told.insert(one.clone()) {
                    let (pod, sought) = one;
                    news.push((lease, guest::Input::Event(pod, sought.event())));
                }
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use mercato_offload::address::GuestAddress;
    use mercato_offload::key::Uid;
    use mercato_protocol::id::ClusterId;

    use super::*;
    use crate::tunnel::table::group;
    use crate::tunnel::words::{SaidLease, SaidPod};

    const SOLD: ContractId = ContractId([1; 16]);
    const BOUGHT: ContractId = ContractId([2; 16]);

    fn guest(n: u8) -> GuestAddress {
        let (uid, namespace) = (Uid(format!("u{n}")), "web".to_owned());
        let pod = PodId { uid, namespace, name: format!("web-{n}") };
        GuestAddress { pod, address: [10, 201, 0, n].into(), guest: [10, 42, 0, n].into() }
    }

    fn said(guests: u8) -> Said {
        let lease = |side| {
            let (cluster, ranges, namespaces) = (ClusterId([1; 32]), Vec::new(), BTreeSet::new());
            let (until_ms, is_closed) = (u64::MAX, false);
            let egress = mercato_protocol::egress::Egress::None;
            SaidLease { side, cluster, until_ms, ranges, is_closed, egress, namespaces, said: 1 }
        };
        let pod = |n| SaidPod { of: guest(n), group: group("web"), second: false, said: 1 };
        let pods = || (0..guests).map(|n| (guest(n).pod.uid, pod(n))).collect();
        let mut said = Said::default();
        said.leases = [(SOLD, lease(Side::Provider)), (BOUGHT, lease(Side::Consumer))].into();
        said.pods = [(SOLD, pods()), (BOUGHT, pods())].into();
        said
    }

    fn asks(lease: ContractId, guest: IpAddr, service: &str) -> UnopenedName {
        let (service, namespace) = (service.to_owned(), "data".to_owned());
        UnopenedName { lease, guest, service, namespace }
    }

    #[test]
    fn the_home_of_a_guest_hears_once_what_it_asks_for() {
        let (mut unopened, said) = (Unopened::default(), said(2));
        let db = asks(SOLD, guest(1).guest, "db");
        let none = [
            asks(BOUGHT, guest(1).guest, "db"),
            asks(SOLD, [10, 42, 0, 9].into(), "db"),
            asks(ContractId([3; 16]), guest(1).guest, "db"),
        ];
        assert!(unopened.news(none.into(), &said).is_empty(), "no guest of a lease here asks");
        let sought = SoughtService { name: "db".to_owned(), namespace: "data".to_owned() };
        let told = [(SOLD, guest::Input::Event(guest(1).pod, sought.event()))];
        assert_eq!(unopened.news([db.clone()].into(), &said), told);
        assert!(unopened.news([db.clone()].into(), &said).is_empty(), "it was told");
        assert!(unopened.news([].into(), &said).is_empty());
        let called = asks(SOLD, guest(1).address, "db");
        assert_eq!(unopened.news([called, db].into(), &said), told, "it is one guest");
    }

    #[test]
    fn a_home_hears_of_so_many_at_a_time() {
        let (mut unopened, said) = (Unopened::default(), said(100));
        let all: BTreeSet<_> = (0..100).map(|n| asks(SOLD, guest(n).guest, "db")).collect();
        assert_eq!(unopened.news(all.clone(), &said).len(), NODE_UNOPENED);
        assert!(unopened.news(all.clone(), &said).is_empty());
        let first = asks(SOLD, guest(0).guest, "db");
        let others = all.into_iter().filter(|name| *name != first).collect();
        assert_eq!(unopened.news(others, &said).len(), 1, "there is room for another");
    }
}
