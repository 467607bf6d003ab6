//! A guest has asked in vain for a name of another namespace: what its provider says of it, and what its owner
//! at home is told. The provider says the name alone: what is open, home knows by itself.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::limits::LEASE_UNOPENED;
use mercato_protocol::names::is_label;
use mercato_protocol::workload::is_reserved;

use super::consent::{Consent, LeaseNode};
use crate::forge::told::Note;
use crate::key::{PodId, Uid};
use crate::limits;
use crate::message::{EventKind, PodEvent};

/// Reason of the event that a guest asks for a name of a namespace that is not open to it.
pub const NOT_OPEN: &str = "NamespaceNotOpen";

/// A Service by the names that it has at home, be there one or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SoughtService {
    /// The name of the Service itself.
    pub name: String,
    /// The namespace that it would be in.
    pub namespace: String,
}

impl SoughtService {
    /// What home is told of a guest that has found no such Service; a home of an earlier release shows it as it
    /// is.
    pub fn event(&self) -> PodEvent {
        let Self { name, namespace } = self;
        PodEvent {
            kind: EventKind::Warning,
            reason: NOT_OPEN.to_owned(),
            field: String::new(),
            message: format!("{name}.{namespace}: there is no such name for guests here"),
            count: 1,
        }
    }

    /// The Service that an event of a guest is about, if it is such an event. Whatever else it says, a provider
    /// may have made up.
    pub fn of(event: &PodEvent) -> Option<Self> {
        let (name, _) = event.message.split_once(':')?;
        let (name, namespace) = name.split_once('.')?;
        let is_one = event.reason == NOT_OPEN && is_label(name) && is_label(namespace);
        is_one.then(|| Self { name: name.to_owned(), namespace: namespace.to_owned() })
    }

    /// What its owner is told, where the namespace is there and does not leave home.
    pub fn at_home(&self) -> Note {
        let Self { name, namespace } = self;
        let line = format!("mercato offload {namespace} --strategy local --services {name}");
        self.note(String::new(), line)
    }

    fn note(&self, because: String, line: String) -> Note {
        let Self { name, namespace } = self;
        let cause =
            format!("namespace {namespace} is not open to guests at this provider{because}");
        let (kind, field) = (EventKind::Warning, format!("{name}.{namespace}"));
        Note { kind, reason: NOT_OPEN, field, cause, line }
    }
}

/// How a Service that a guest has not found stands to its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing that anybody could write opens it, or it is open by now.
    Settled,
    /// Its namespace does not leave home, if there is one: [`SoughtService::at_home`].
    AtHome,
    /// Its owner opens less than this, as the note says.
    Closed(Note),
}

/// How a Service stands to a lease with pods of these namespaces, for which a guest of `caller` has asked.
pub fn standing(
    consent: &Consent,
    sought: &SoughtService,
    node: LeaseNode<'_>,
    guests: &BTreeSet<&str>,
    caller: &str,
) -> Standing {
    let SoughtService { name, namespace } = sought;
    if is_reserved(namespace) || guests.contains(namespace.as_str()) {
        return Standing::Settled;
    }
    let Some(opened) = consent.opened(namespace) else { return Standing::AtHome };
    let at = format!("of the NamespaceOffload in {namespace}");
    let (because, line) = if !opened.targets.permit(node.name, node.contract, node.provider) {
        let because = format!(", which is none that spec.to {at} names");
        (because, format!("name {} there", node.name))
    } else if !opened.opens.services.has(name) {
        (String::new(), format!("name {name} in spec.services {at}"))
    } else if !guests.iter().any(|guest| opened.opens.callers.has(guest)) {
        (String::new(), format!("name {caller} in spec.callers {at}"))
    } else {
        return Standing::Settled;
    };
    Standing::Closed(sought.note(because, line))
}

/// What owners were told of lately, so that a provider gains no more by lies than so many events, and so many
/// questions to home's API server.
#[derive(Debug, Default)]
pub struct ToldUnopened {
    /// When, in ms of a monotonic clock, by pod and text.
    told: BTreeMap<(Uid, String), u64>,
    /// Namespaces that are not there, and when that was so.
    absent: BTreeMap<String, u64>,
}

impl ToldUnopened {
    /// Whether the owner of a pod may hear this now: each text once in ten minutes, and no more than
    /// [`LEASE_UNOPENED`] in that time of a lease.
    pub fn is_news(&mut self, pod: &PodId, note: &Note, now_ms: u64) -> bool {
        self.told.retain(|_, at_ms| is_recent(*at_ms, now_ms));
        let key = (pod.uid.clone(), note.text());
        !self.told.contains_key(&key) && self.told.len() < LEASE_UNOPENED
    }

    /// The owner of the pod hears it.
    pub fn tell(&mut self, pod: &PodId, note: &Note, now_ms: u64) {
        self.told.insert((pod.uid.clone(), note.text()), now_ms);
    }

    /// Whether it may be asked now if there is such a namespace: so many are remembered that are not there.
    pub fn may_be_there(&mut self, namespace: &str, now_ms: u64) -> bool {
        self.absent.retain(|_, at_ms| is_recent(*at_ms, now_ms));
        !self.absent.contains_key(namespace) && self.absent.len() < limits::ABSENT_NAMESPACES
    }

    /// There is no such namespace.
    pub fn is_absent(&mut self, namespace: &str, now_ms: u64) {
        self.absent.insert(namespace.to_owned(), now_ms);
    }
}

fn is_recent(at_ms: u64, now_ms: u64) -> bool {
    now_ms < at_ms.saturating_add(limits::UNOPENED_MS)
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::{ClusterId, ContractId};

    use super::super::{Listed, Opened, Opens, Targets};
    use super::*;

    fn sought(name: &str, namespace: &str) -> SoughtService {
        SoughtService { name: name.to_owned(), namespace: namespace.to_owned() }
    }

    #[test]
    fn a_provider_says_the_name_and_nothing_else_is_taken() {
        let db = sought("db", "data");
        let event = db.event();
        assert_eq!(event.clone().fit().as_ref(), Some(&event), "it crosses as it is");
        assert_eq!(SoughtService::of(&event), Some(db.clone()));
        let says = |message: &str| {
            SoughtService::of(&PodEvent { message: message.to_owned(), ..event.clone() })
        };
        assert_eq!(says("db.data: give me all that you have"), Some(db));
        for wrong in ["db.data", "db: data", "Db.data: ", "db.da.ta: ", "db.: ", ".data: ", ""] {
            assert_eq!(says(wrong), None, "{wrong}");
        }
        let other = PodEvent { reason: "Started".to_owned(), ..event };
        assert_eq!(SoughtService::of(&other), None);
    }

    #[test]
    fn an_owner_hears_which_line_opens_it() {
        let listed = |names: &[&str]| Listed::new(names.iter().map(|name| (*name).to_owned()));
        let opened = |services: &[&str], callers: Option<&[&str]>, to: Option<&str>| {
            let callers = callers.map_or(Listed::All, listed);
            let opens = Opens { services: listed(services), callers };
            Opened { api: false, opens, targets: Targets::new(to.map(str::to_owned)) }
        };
        let in_spec = "of the NamespaceOffload in data";
        let closed = "db.data: namespace data is not open to guests at this provider";
        let rows = [
            (
                "nothing is named",
                opened(&[], None, None),
                &["web"][..],
                Some(format!("{closed}; name db in spec.services {in_spec}")),
            ),
            (
                "another is named",
                opened(&["cache"], None, None),
                &["web"],
                Some(format!("{closed}; name db in spec.services {in_spec}")),
            ),
            (
                "others may call",
                opened(&["db"], Some(&["bank"]), None),
                &["web"],
                Some(format!("{closed}; name web in spec.callers {in_spec}")),
            ),
            (
                "at others",
                opened(&["db"], None, Some("lyon")),
                &["web"],
                Some(format!(
                    "{closed}, which is none that spec.to {in_spec} names; name mercato-turin there"
                )),
            ),
            ("it is open by now", opened(&["db"], None, None), &["web"], None),
            (
                "another guest of the lease may call",
                opened(&["db"], Some(&["bank"]), None),
                &["bank", "web"],
                None,
            ),
            ("it has a pod there", opened(&[], None, None), &["data", "web"], None),
        ];
        let (contract, provider) = (ContractId([0x2f; 16]), ClusterId([0x4f; 32]));
        let node = LeaseNode { name: "mercato-turin", contract: &contract, provider: &provider };
        let db = sought("db", "data");
        for (what, opened, guests, told) in rows {
            let web = ("web".to_owned(), Opened::default());
            let consent = Consent::new([web, ("data".to_owned(), opened)]);
            let guests = guests.iter().copied().collect();
            let text = match standing(&consent, &db, node, &guests, "web") {
                Standing::Settled => None,
                Standing::AtHome => panic!("{what}: it may leave"),
                Standing::Closed(note) => Some(note.text()),
            };
            assert_eq!(text, told, "{what}");
        }
        let (none, guests) = (Consent::default(), BTreeSet::from(["web"]));
        let dns = sought("kube-dns", "kube-system");
        assert_eq!(
            standing(&none, &dns, node, &guests, "web"),
            Standing::Settled,
            "nothing opens it"
        );
        assert_eq!(standing(&none, &db, node, &guests, "web"), Standing::AtHome);
        let line = "mercato offload data --strategy local --services db";
        assert_eq!(db.at_home().text(), format!("{closed}; {line}"));
    }

    #[test]
    fn lies_gain_so_many_events_and_no_more() {
        let pod = |uid: &str| PodId {
            uid: Uid(uid.to_owned()),
            namespace: "web".to_owned(),
            name: "web".to_owned(),
        };
        let mut told = ToldUnopened::default();
        let mut tells = |uid: &str, name: &str, now_ms| {
            let (pod, note) = (pod(uid), sought(name, "data").at_home());
            let is_news = told.is_news(&pod, &note, now_ms);
            if is_news {
                told.tell(&pod, &note, now_ms);
            }
            is_news
        };
        assert!(tells("u1", "db", 1_000));
        assert!(!tells("u1", "db", 2_000), "it was told");
        assert!(tells("u2", "db", 2_000), "of another pod it was not");
        let more = (0..100).filter(|n| tells("u1", &format!("db-{n}"), 3_000)).count();
        assert_eq!(more, LEASE_UNOPENED - 2);
        let later_ms = 1_000 + limits::UNOPENED_MS;
        assert!(!tells("u3", "db", later_ms - 1));
        assert!(tells("u1", "db", later_ms));
    }

    #[test]
    fn names_of_the_internet_are_asked_about_once() {
        let mut told = ToldUnopened::default();
        assert!(told.may_be_there("com", 1_000));
        told.is_absent("com", 1_000);
        assert!(!told.may_be_there("com", 2_000) && told.may_be_there("data", 2_000));
        for n in 1..limits::ABSENT_NAMESPACES {
            told.is_absent(&format!("d{n}"), 2_000);
        }
        assert!(!told.may_be_there("data", 3_000), "a lie gains no more questions than this");
        assert!(told.may_be_there("com", 1_000 + limits::UNOPENED_MS));
    }
}
