//! Answers from elsewhere that are kept for a while, of each lease apart: what one asks for takes no
//! room of another's, and nobody learns what others have asked.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{RData, RecordType};
use mercato_protocol::id::ContractId;

use crate::limits;
use crate::reply::Said;

/// Answers from elsewhere, by lease.
#[derive(Default)]
pub(crate) struct Cache {
    leases: BTreeMap<ContractId, OfLease>,
}

/// Lower case, with the number of a type.
pub(crate) type Key = (String, RecordType);

#[derive(Default)]
struct OfLease {
    kept: BTreeMap<Key, Kept>,
    /// In the order in which they came.
    order: VecDeque<Key>,
}

struct Kept {
    said: Said,
    since: Instant,
    until: Instant,
}

impl Cache {
    /// Forgets the leases of which there is nobody any more.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&ContractId) -> bool) {
        self.leases.retain(|lease, _| is_there(lease));
    }

    /// What was answered to that, with what is left of its time.
    pub(crate) fn find(&self, lease: &ContractId, key: &Key, now: Instant) -> Option<Said> {
        let kept = self.leases.get(lease)?.kept.get(key).filter(|kept| kept.until > now)?;
        let age = now.saturating_duration_since(kept.since).as_secs();
        let age = u32::try_from(age).unwrap_or(u32::MAX);
        let mut said = kept.said.clone();
        for record in said.answers.iter_mut().chain(&mut said.authorities) {
            record.ttl = record.ttl.saturating_sub(age);
        }
        Some(said)
    }

    /// Keeps an answer, if it may be kept; the oldest one goes where there is no room.
    pub(crate) fn keep(&mut self, lease: ContractId, key: Key, said: &Said, now: Instant) {
        let Some(seconds) = seconds(said) else { return };
        let of = self.leases.entry(lease).or_default();
        let until = now + Duration::from_secs(seconds.into());
        let kept = Kept { said: said.clone(), since: now, until };
        if of.kept.insert(key.clone(), kept).is_none() {
            of.order.push_back(key);
        }
        while of.order.len() > limits::CACHED {
            let oldest = of.order.pop_front();
            oldest.and_then(|oldest| of.kept.remove(&oldest));
        }
    }
}

/// How long an answer may be kept; none: not at all.
fn seconds(said: &Said) -> Option<u32> {
    let records = said.answers.len() + said.authorities.len();
    if records > limits::CACHED_RECORDS {
        return None;
    }
    let least = said.answers.iter().map(|record| record.ttl).min();
    let is_known = matches!(said.code, ResponseCode::NoError | ResponseCode::NXDomain);
    let seconds = match least.filter(|_| said.code == ResponseCode::NoError) {
        Some(least) => least.min(limits::CACHED_S),
        None => {
            // Without it nobody says for how long (RFC 2308, section 5).
            let mut all = said.authorities.iter().filter(|_| is_known);
            let least = all.find_map(|record| {
                let RData::SOA(soa) = &record.data else { return None };
                Some(soa.minimum.min(record.ttl))
            });
            least?.min(limits::CACHED_NONE_S)
        }
    };
    (seconds > 0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::rdata::A;
    use hickory_proto::rr::{Name, Record};
    use mercato_protocol::id::ContractId;

    use super::*;

    const LEASE: ContractId = ContractId([1; 16]);
    const OTHER: ContractId = ContractId([2; 16]);

    fn said(ttl: u32) -> Said {
        let name = Name::from_ascii("example.org.").unwrap();
        let data = RData::A(A::new(192, 0, 2, 7));
        let answers = vec![Record::from_rdata(name, ttl, data)];
        Said { answers, ..Said::only(ResponseCode::NoError) }
    }

    fn key(n: usize) -> Key {
        (format!("a{n}.example.org"), RecordType::A)
    }

    #[test]
    fn answers_age_and_go() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        cache.keep(LEASE, key(1), &said(10), start);
        assert_eq!(cache.find(&LEASE, &key(1), after(4)).unwrap().answers[0].ttl, 6);
        assert!(cache.find(&LEASE, &key(1), after(10)).is_none());
        assert!(cache.find(&OTHER, &key(1), start).is_none(), "it is another lease");
        cache.keep(LEASE, key(2), &said(0), start);
        cache.keep(LEASE, key(3), &Said::failed(), start);
        cache.keep(LEASE, key(4), &Said::only(ResponseCode::NXDomain), start);
        for n in [2, 3, 4] {
            assert!(cache.find(&LEASE, &key(n), start).is_none(), "{n}");
        }
        let origin = Name::from_ascii("example.org.").ok();
        let none = Said::nothing(ResponseCode::NXDomain, origin);
        cache.keep(LEASE, key(5), &none, start);
        assert!(cache.find(&LEASE, &key(5), after(1)).is_some());
    }

    #[test]
    fn what_one_lease_asks_takes_no_room_of_another() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.keep(OTHER, key(0), &said(100), now);
        for n in 0..=limits::CACHED {
            cache.keep(LEASE, key(n), &said(100), now);
        }
        assert!(cache.find(&LEASE, &key(0), now).is_none(), "the oldest goes");
        assert!(cache.find(&LEASE, &key(limits::CACHED), now).is_some());
        assert!(cache.find(&OTHER, &key(0), now).is_some());
        assert_eq!(cache.leases[&LEASE].kept.len(), limits::CACHED);
        cache.retain(|lease| *lease == OTHER);
        assert_eq!(cache.leases.len(), 1);
    }
}
