//! All that a name server knows: who asks, what each lease has, and whom to ask for the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hickory_proto::rr::Record;
use ipnet::IpNet;
use mercato_protocol::id::ContractId;

use crate::zone::Zone;

/// All that a name server knows; it takes the place of what it knew before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// What this cluster calls itself: of its names it tells nobody.
    pub domain: String,
    /// Whom it asks what it does not know, the first one first.
    pub servers: Vec<SocketAddr>,
    /// Who is a guest of which lease, by their own addresses. Nobody else is answered.
    pub guests: BTreeMap<IpAddr, ContractId>,
    /// The names of each lease, once they were said.
    pub zones: BTreeMap<ContractId, Arc<Zone>>,
    /// Of these leases, addresses that their guests never reach: they are left out of what others say of names.
    pub never: BTreeMap<ContractId, Arc<BTreeSet<IpNet>>>,
}

impl Knowledge {
    /// Of addresses that others say of a name, those that guests of this lease may reach.
    pub(crate) fn spare(&self, lease: &ContractId, answers: &mut Vec<Record>) {
        let Some(never) = self.never.get(lease) else { return };
        let is_never = |address: IpAddr| never.iter().any(|net| net.contains(&address));
        answers.retain(|record| !record.data.ip_addr().is_some_and(is_never));
    }

    /// Whether a name is one of this cluster, or would be one of most: it is not to leave this one,
    /// whoever asks for it. What another lease's home calls its cluster is no business of the asker's:
    /// otherwise a home would take names of the Internet from others' guests by saying them.
    pub(crate) fn is_of_this_cluster(&self, name: &str) -> bool {
        let mut own = [self.domain.as_str(), USUAL].into_iter().filter(|domain| !domain.is_empty());
        own.any(|domain| before(name, domain).is_some())
    }
}

/// What most clusters call themselves.
const USUAL: &str = "cluster.local";

/// What a name has before a domain, if it ends in that: both lower case, without a dot at the end.
pub(crate) fn before<'a>(name: &'a str, domain: &str) -> Option<&'a str> {
    let before = name.strip_suffix(domain)?;
    if before.is_empty() { Some(before) } else { before.strip_suffix('.') }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::rdata::{A, AAAA, CNAME};
    use hickory_proto::rr::{Name, RData};

    use super::*;

    #[test]
    fn addresses_that_are_never_reached_are_left_out_of_what_others_say() {
        let [lease, other] = [1, 2].map(|id| ContractId([id; 16]));
        let nets = ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap());
        let never = [(lease, Arc::new(nets.into()))].into();
        let known = Knowledge { never, ..Knowledge::default() };
        let name = Name::from_ascii("a.example.").unwrap();
        let all: Vec<Record> = [
            RData::CNAME(CNAME(name.clone())),
            RData::A(A::new(10, 1, 2, 3)),
            RData::A(A::new(9, 9, 9, 9)),
            RData::AAAA(AAAA::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
            RData::AAAA(AAAA::new(0x2620, 0xfe, 0, 0, 0, 0, 0, 9)),
        ]
        .map(|data| Record::from_rdata(name.clone(), 60, data))
        .into();
        let mut told = all.clone();
        known.spare(&lease, &mut told);
        assert_eq!(told, [0, 2, 4].map(|n: usize| all[n].clone()));
        let mut told = all.clone();
        known.spare(&other, &mut told);
        assert_eq!(told, all, "another lease's");
    }
}
