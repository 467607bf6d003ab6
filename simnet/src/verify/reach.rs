//! By which addresses pods are known: none is two pods' at once, none is shown to which nobody ever
//! brought packets, and a pod is ready no earlier than that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_agent::{Change, Record, RecordKey};
use mercato_offload::address::GuestAddress;
use mercato_offload::home;
use mercato_offload::key::Uid;
use mercato_protocol::tunnel::{SECOND_POOL, second};
use serde_json::Value;

use super::{Violation, ensure};

/// What was seen of addresses so far.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// By cluster: whose addresses are on record there.
    given: BTreeMap<(usize, IpAddr), Uid>,
    held: BTreeMap<(usize, Uid), IpAddr>,
    /// To which pods packets were ever brought, by which address.
    brought: BTreeSet<(String, IpAddr)>,
    /// Pods that were ready once.
    ready: BTreeSet<String>,
}

impl Reach {
    /// A gateway brings packets to a guest from now on, perhaps of both families.
    pub(crate) fn on_brought(&mut self, of: &GuestAddress, both: bool) {
        let second = second(SECOND_POOL, of.address).filter(|_| both);
        let known = [of.address].into_iter().chain(second);
        self.brought.extend(known.map(|address| (of.pod.uid.0.clone(), address)));
    }

    /// A cluster has written this.
    pub(super) fn on_written(&mut self, at: usize, changes: &[Change]) -> Result<(), Violation> {
        // What one write changes counts as it is after it.
        let mut after = BTreeMap::new();
        for change in changes {
            match change {
                Change::Put(Record::Home(_, home::Record::Address(pod, address))) => {
                    after.insert(&pod.uid, Some(*address));
                }
                Change::Erase(RecordKey::Home(_, home::RecordKey::Address(uid))) => {
                    after.insert(uid, None);
                }
                Change::Put(_) | Change::Erase(_) => {}
            }
        }
        for uid in after.keys() {
            if let Some(before) = self.held.remove(&(at, (*uid).clone())) {
                self.given.remove(&(at, before));
            }
        }
        for (uid, address) in after {
            let Some(address) = address else { continue };
            let other = self.given.insert((at, address), uid.clone());
            ensure(other.is_none(), || {
                format!("{address} is on record for {} and {other:?}", uid.0)
            })?;
            self.held.insert((at, uid.clone()), address);
        }
        Ok(())
    }

    /// A pod of a lease is as home shows it. `expects`: there is, or may be, a tunnel.
    pub(super) fn on_shown(&mut self, pod: &Value, expects: bool) -> Result<(), Violation> {
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let name = &pod["metadata"]["name"];
        let shown: Option<IpAddr> = pod["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok());
        let brought = |ip| self.brought.contains(&(uid.to_owned(), ip));
        ensure(shown.is_none_or(brought), || {
            format!("{name} is shown at {shown:?}, where nobody brings packets to it")
        })?;
        let all = pod["status"]["podIPs"].as_array().into_iter().flatten();
        let all: Vec<Option<IpAddr>> =
            all.map(|it| it["ip"].as_str().and_then(|ip| ip.parse().ok())).collect();
        let known = shown.and_then(|shown| second(SECOND_POOL, shown)).filter(|it| brought(*it));
        let is_right = match &all[..] {
            [] => shown.is_none(),
            [first] => *first == shown,
            [first, other] => *first == shown && shown.is_some() && *other == known,
            _ => false,
        };
        ensure(is_right, || format!("{name} is shown at {shown:?}, and at {all:?}"))?;
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let is_ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
        if !is_ready || self.ready.contains(uid) {
            return Ok(());
        }
        self.ready.insert(uid.to_owned());
        ensure(shown.is_some() || !expects, || format!("{name} is ready before it can be reached"))
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::key::PodId;
    use mercato_protocol::id::ContractId;
    use serde_json::json;

    use super::*;

    fn pod(uid: &str) -> PodId {
        PodId { namespace: "shop".into(), name: uid.into(), uid: Uid(uid.into()) }
    }

    fn put(uid: &str, address: u8) -> Change {
        let address = [10, 200, 0, address].into();
        Change::Put(Record::Home(ContractId([1; 16]), home::Record::Address(pod(uid), address)))
    }

    #[test]
    fn an_address_is_one_pods_until_it_is_given_back() {
        let mut reach = Reach::default();
        let key = home::RecordKey::Address(Uid("a".into()));
        let erase = Change::Erase(RecordKey::Home(ContractId([1; 16]), key));
        assert_eq!(reach.on_written(0, &[put("a", 1), put("b", 2)]), Ok(()));
        assert_eq!(reach.on_written(1, &[put("c", 1)]), Ok(()), "another cluster");
        assert_eq!(reach.on_written(0, &[put("c", 1), erase]), Ok(()));
        assert!(reach.on_written(0, &[put("d", 2)]).is_err());
    }

    #[test]
    fn a_pod_is_shown_and_ready_where_packets_were_brought_to_it() {
        let mut reach = Reach::default();
        let shown = |uid: &str, ip: Option<&str>| {
            json!({ "metadata": { "name": uid, "uid": uid }, "status": { "podIP": ip,
                "podIPs": ip.map_or_else(Vec::new, |ip| vec![json!({ "ip": ip })]),
                "conditions": [{ "type": "Ready", "status": "True" }] } })
        };
        assert!(reach.on_shown(&shown("a", None), true).is_err());
        assert_eq!(reach.on_shown(&shown("b", None), false), Ok(()));
        let there = shown("c", Some("10.200.0.1"));
        assert!(reach.on_shown(&there, true).is_err());
        let (address, guest) = ([10, 200, 0, 1].into(), [10, 42, 0, 1].into());
        reach.on_brought(&GuestAddress { pod: pod("c"), address, guest }, false);
        assert_eq!(reach.on_shown(&there, true), Ok(()));
        let mut both = there;
        let known = "fd4d:6572:6361:746f::10.200.0.1";
        both["status"]["podIPs"] = json!([{ "ip": "10.200.0.1" }, { "ip": known }]);
        assert!(reach.on_shown(&both, true).is_err());
        reach.on_brought(&GuestAddress { pod: pod("c"), address, guest }, true);
        assert_eq!(reach.on_shown(&both, true), Ok(()));
        both["status"]["podIPs"][1]["ip"] = "fd4d:6572:6361:746f::10.200.0.2".into();
        assert!(reach.on_shown(&both, true).is_err());
    }
}
