//! For which names of namespaces that are not open to them guests have asked lately: so many of a lease, and
//! each a while.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

use mercato_protocol::id::ContractId;
use mercato_protocol::limits::{LEASE_UNOPENED, NODE_UNOPENED};
use mercato_protocol::node::UnopenedName;

use crate::answer::Asker;
use crate::limits;
use crate::zone::SoughtService;

/// What guests have asked for in vain.
#[derive(Debug, Default)]
pub(crate) struct Unopened {
    leases: BTreeMap<ContractId, Vec<Noted>>,
}

/// The first name of a namespace for which a guest has asked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Noted {
    guest: IpAddr,
    sought: SoughtService,
    at: Instant,
}

impl Unopened {
    /// A guest has asked for this. Of one namespace the first name counts for a while, of each guest: most such
    /// names are those of the Internet, which are tried with each domain in turn, and end in few ways.
    pub(crate) fn note(&mut self, by: Asker, sought: SoughtService, now: Instant) {
        let noted = self.leases.entry(by.lease).or_default();
        noted.retain(|it| it.is_recent(now));
        let is_of = |it: &Noted| it.sought.namespace == sought.namespace;
        if noted.iter().any(|it| it.guest == by.guest && is_of(it)) {
            return;
        }
        if noted.len() >= LEASE_UNOPENED {
            // A namespace of which nothing is said yet takes the place of one that several guests ask for.
            let shares = |it: &Noted| {
                let same =
                    noted.iter().filter(|other| other.sought.namespace == it.sought.namespace);
                same.count() > 1
            };
            match noted.iter().position(shares).filter(|_| !noted.iter().any(is_of)) {
                Some(place) => drop(noted.remove(place)),
                None => return,
            }
        }
        noted.push(Noted { guest: by.guest, sought, at: now });
    }

    /// Forgets what is so no more.
    pub(crate) fn retain(&mut self, is_so: impl Fn(Asker, &SoughtService) -> bool) {
        for (lease, noted) in &mut self.leases {
            noted.retain(|it| is_so(Asker { guest: it.guest, lease: *lease }, &it.sought));
        }
        self.leases.retain(|_, noted| !noted.is_empty());
    }

    /// What was asked for lately, as much as a node may say.
    pub(crate) fn lately(&self, now: Instant) -> BTreeSet<UnopenedName> {
        let all = self.leases.iter().flat_map(|(lease, noted)| {
            let recent = noted.iter().filter(|it| it.is_recent(now));
            recent.map(|Noted { guest, sought, .. }| UnopenedName {
                lease: *lease,
                guest: *guest,
                service: sought.service.clone(),
                namespace: sought.namespace.clone(),
            })
        });
        all.take(NODE_UNOPENED).collect()
    }
}

impl Noted {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < limits::UNOPENED_AGAIN
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LEASE: ContractId = ContractId([1; 16]);

    fn asker(lease: ContractId, guest: u8) -> Asker {
        Asker { guest: [10, 42, 0, guest].into(), lease }
    }

    fn sought(service: &str, namespace: &str) -> SoughtService {
        SoughtService { service: service.into(), namespace: namespace.into() }
    }

    fn names(unopened: &Unopened, at: Instant) -> Vec<String> {
        let lately = unopened.lately(at).into_iter();
        let name = |it: UnopenedName| format!("{} {}.{}", it.guest, it.service, it.namespace);
        lately.map(name).collect()
    }

    #[test]
    fn a_guest_has_one_name_of_a_namespace_for_a_while() {
        let (mut unopened, start) = (Unopened::default(), Instant::now());
        let at = |s| start + Duration::from_secs(s);
        unopened.note(asker(LEASE, 7), sought("db", "data"), start);
        unopened.note(asker(LEASE, 7), sought("cache", "data"), at(1));
        unopened.note(asker(LEASE, 8), sought("cache", "data"), at(2));
        unopened.note(asker(LEASE, 7), sought("example", "com"), at(3));
        let all = ["10.42.0.7 db.data", "10.42.0.7 example.com", "10.42.0.8 cache.data"];
        assert_eq!(names(&unopened, at(4)), all);
        assert_eq!(names(&unopened, at(601)), all[1..], "ten minutes later");
        unopened.note(asker(LEASE, 7), sought("cache", "data"), at(601));
        assert!(names(&unopened, at(601)).contains(&"10.42.0.7 cache.data".to_owned()));
        unopened.retain(|by, _| by == asker(LEASE, 8));
        assert_eq!(names(&unopened, at(601)), all[2..]);
        assert!(names(&unopened, at(700)).is_empty());
    }

    #[test]
    fn guests_that_ask_for_the_same_keep_no_other_namespace_out() {
        let (mut unopened, now) = (Unopened::default(), Instant::now());
        for guest in 0..40 {
            unopened.note(asker(LEASE, guest), sought("example", "com"), now);
        }
        assert_eq!(names(&unopened, now).len(), LEASE_UNOPENED);
        for n in 0..40 {
            unopened.note(asker(LEASE, 50), sought("db", &format!("data-{n:02}")), now);
        }
        let all = names(&unopened, now);
        assert_eq!(all.len(), LEASE_UNOPENED, "nobody has more room than this");
        assert_eq!(all.iter().filter(|name| name.ends_with("example.com")).count(), 1);
        assert!(all.contains(&"10.42.0.50 db.data-14".to_owned()), "{all:?}");
        // Other leases have places of their own, and a node says no more than a message has.
        for lease in 2..10 {
            for guest in 0..20 {
                let asker = asker(ContractId([lease; 16]), guest);
                unopened.note(asker, sought("db", &format!("data-{guest}")), now);
            }
        }
        assert_eq!(unopened.lately(now).len(), NODE_UNOPENED);
    }
}
