//! Guests that are gone: addresses that were given up, and that no other guest has had since. What
//! a daemon of before knew of them is not kept: nothing is said of an address then.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Instant;

use mercato_offload::address::GuestAddress;
use mercato_offload::key::PodId;

use crate::limits;

/// The guests of one lease that are gone.
#[derive(Clone, Debug, Default)]
pub(super) struct GoneGuests {
    /// As both sides call them inside the tunnel, in the order in which they were given up.
    addresses: VecDeque<IpAddr>,
    /// Those of the last seconds.
    latest: VecDeque<(PodId, Instant)>,
}

impl GoneGuests {
    /// Nobody has its address any more. Of too many, the one that was given up first is forgotten.
    pub(super) fn give_up(&mut self, of: GuestAddress) {
        self.take(of.address);
        if self.addresses.len() >= limits::GONE_GUESTS {
            self.addresses.pop_front();
        }
        self.addresses.push_back(of.address);
        self.latest.retain(|(_, since)| is_late(*since));
        if self.latest.len() >= limits::GONE_GUESTS {
            self.latest.pop_front();
        }
        self.latest.push_back((of.pod, Instant::now()));
    }

    /// A guest has it again.
    pub(super) fn take(&mut self, address: IpAddr) {
        self.addresses.retain(|gone| *gone != address);
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied()
    }

    /// Those whose callers have not all heard yet that they are gone.
    pub(super) fn latest(&self) -> impl Iterator<Item = &PodId> {
        self.latest.iter().filter(|(_, since)| is_late(*since)).map(|(pod, _)| pod)
    }
}

fn is_late(since: Instant) -> bool {
    since.elapsed() < limits::GONE_LATELY
}

#[cfg(test)]
mod tests {
    use mercato_offload::key::Uid;

    use super::*;

    fn guest(nth: usize) -> GuestAddress {
        let address = IpAddr::from([10, 203, (nth >> 8) as u8, nth as u8]);
        let (uid, namespace) = (Uid(nth.to_string()), "shop".to_owned());
        let pod = PodId { uid, namespace, name: format!("web-{nth}") };
        GuestAddress { pod, address, guest: address }
    }

    #[test]
    fn the_first_of_too_many_is_forgotten_and_a_guest_that_lives_is_not_gone() {
        let mut gone = GoneGuests::default();
        (0..=limits::GONE_GUESTS).for_each(|nth| gone.give_up(guest(nth)));
        assert_eq!(gone.addresses().next(), Some(guest(1).address));
        assert_eq!(gone.latest().count(), limits::GONE_GUESTS);
        gone.give_up(guest(1));
        gone.take(guest(2).address);
        assert_eq!(gone.addresses().next(), Some(guest(3).address));
        assert_eq!(gone.addresses().last(), Some(guest(1).address), "given up once more");
    }
}
