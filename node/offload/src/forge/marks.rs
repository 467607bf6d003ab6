//! The marks of guest objects, read. Labels and annotations prove nothing by themselves: whoever may
//! read a guest may copy them. They count where the object stands at the place that they name, which
//! is in a guest namespace of the lease, and nothing that they say counts against a uid that is known.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_protocol::gate::GuestUid;
use mercato_protocol::id::{ClusterId, ContractId, Digest};
use serde_json::Value;

use super::labels::*;
use super::metadata::kind_name;
use super::{GuestContext, made};
use crate::key::{Item, ObjectKey, ObjectKind, PodId, Uid, key};
use crate::message::{Refusal, Route};

/// What a guest object is of home's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Which of home's objects it stands for.
    pub item: Item,
    /// The digest of what was applied; of nothing, where that cannot be read, or where the object is not
    /// as it was made any more.
    pub digest: Digest,
    /// Whether all its marks are as they were made. Those of a pod that is known by its uid may have
    /// been changed since, and it stays that pod.
    pub whole: bool,
}

impl Marks {
    /// Those of `object`, which the provider's API server has; none: it is no guest object of the
    /// context's contract. A pod is one if its uid is known. An object of another uid is one if its
    /// marks are whole, if it stands where they say, and if no other is known to be the same pod.
    pub fn of(ctx: &GuestContext, known: &KnownGuests, object: &Value) -> Option<Self> {
        let said = said(ctx, object);
        let uid = uid(object);
        let Some(pod) = uid.as_ref().and_then(|uid| known.pod(uid)) else {
            let (item, digest) = said?;
            if let Item::Pod(pod) = &item {
                // No pod of home's is made twice.
                let is_first = uid.is_some() && known.guest(pod).is_none();
                return is_first.then_some(Self { item, digest, whole: true });
            }
            let made = known.is_as_made(&item, object);
            let digest = if made { digest } else { nothing() };
            return Some(Self { item, digest, whole: true });
        };
        let item = Item::Pod(pod.clone());
        let has = |mark: &&str| object["metadata"]["annotations"][*mark].is_string();
        let guest = known.guest(pod);
        let has_further = guest.is_none_or(|guest| guest.further.iter().all(has));
        let made = guest.and_then(|guest| guest.gate.as_ref());
        let has_gate = made.is_none_or(|gate| object["metadata"]["annotations"][GATE] == **gate);
        let is_said = said.is_some_and(|(said, _)| said == item);
        let has_address =
            guest.is_none_or(|guest| guest.called.is_none_or(|it| known_as(object) == Some(it)));
        let whole = is_said && route_is_whole(object) && has_further && has_gate && has_address;
        let digest = digest(object).unwrap_or_else(nothing);
        Some(Self { item, digest, whole })
    }
}

/// How a pod came here, if it is a guest: by its marks. What cannot be read may go no further.
pub fn came(pod: &Value) -> Option<Route> {
    let metadata = &pod["metadata"];
    metadata["labels"].get(CONTRACT)?;
    let mark = |name: &str| metadata["annotations"][name].as_str();
    let route = || {
        let path: Result<Vec<_>, _> = mark(PATH)?.split(',').map(str::parse).collect();
        let hops = mark(HOPS_LEFT)?.parse().ok()?;
        Some(Route { origin: mark(ORIGIN)?.parse().ok()?, path: path.ok()?, hops })
    };
    Some(route().unwrap_or(Route { origin: ClusterId([0; 32]), path: Vec::new(), hops: 0 }))
}

/// The uid at home that a pod's labels say, if they are of this contract; for what has a pod's labels
/// and is none, as a measurement of it.
pub fn home_uid(contract: ContractId, labels: &Value) -> Option<Uid> {
    let uid = labels[HOME_UID].as_str()?;
    (labels[CONTRACT] == contract.to_string()).then(|| Uid(uid.to_owned()))
}

/// By which address everybody knows a guest pod, as it says itself.
pub fn known_as(pod: &Value) -> Option<IpAddr> {
    pod["metadata"]["annotations"][HOME_ADDRESS].as_str()?.parse().ok()
}

/// Of an object as the API server has it.
pub(super) fn uid(object: &Value) -> Option<GuestUid> {
    object["metadata"]["uid"].as_str()?.parse().ok()
}

/// What its marks say, if they are of the context's contract and name the place where it is.
fn said(ctx: &GuestContext, object: &Value) -> Option<(Item, Digest)> {
    let metadata = &object["metadata"];
    if metadata["labels"][CONTRACT].as_str()? != ctx.contract.to_string() {
        return None;
    }
    let mark = |name: &str| metadata["annotations"][name].as_str();
    let (namespace, name) = (mark(HOME_NAMESPACE)?, mark(HOME_NAME)?);
    let kind = mark(HOME_KIND)?;
    let item = if kind == kind_name(ObjectKind::Pod) {
        let uid = Uid(metadata["labels"][HOME_UID].as_str()?.to_owned());
        Item::Pod(PodId { uid, namespace: namespace.to_owned(), name: name.to_owned() })
    } else {
        let kind = OBJECTS.into_iter().find(|known| kind_name(*known) == kind)?;
        Item::Object(key(kind, namespace, name))
    };
    let place = ctx.guest_key(&item.key())?;
    let is_there = metadata["namespace"] == place.namespace && metadata["name"] == place.name;
    let digest = match (&item, digest(object)) {
        (_, Some(digest)) => digest,
        // It stands where it was made, and is written again.
        (Item::Object(_), None) => nothing(),
        (Item::Pod(_), None) => return None,
    };
    is_there.then_some((item, digest))
}

/// Kinds of guest objects that are no pods.
const OBJECTS: [ObjectKind; 6] = [
    ObjectKind::ConfigMap,
    ObjectKind::Secret,
    ObjectKind::ServiceAccountToken,
    ObjectKind::Service,
    ObjectKind::EndpointSlice,
    ObjectKind::Claim,
];

/// What nothing that is wanted has for its digest.
fn nothing() -> Digest {
    Digest::of(b"")
}

fn digest(object: &Value) -> Option<Digest> {
    object["metadata"]["annotations"][DIGEST].as_str()?.parse().ok()
}

/// Whether it says by which way it came.
fn route_is_whole(object: &Value) -> bool {
    came(object).is_some_and(|route| !route.path.is_empty())
}

/// The guest pods of one lease that are there, as far as the API server has told.
#[derive(Clone, Debug, Default)]
pub struct KnownGuests {
    pods: BTreeMap<GuestUid, PodId>,
    guests: BTreeMap<PodId, KnownGuest>,
    /// Services and slices that the API server stores otherwise than they were made, and what it makes
    /// of them.
    objects: BTreeMap<ObjectKey, Digest>,
}

/// A guest pod that is there: nobody else's has this uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownGuest {
    /// Its uid at the provider.
    pub uid: GuestUid,
    /// The seconds that it has for its end, by its own word; none: it was not seen yet.
    pub grace_s: Option<u64>,
    /// With what its gate was made, as its mark said first; none: it has no gate, or was not seen yet.
    pub gate: Option<String>,
    /// By which address its device is known, as its mark said first; none: by that of its pod network.
    pub called: Option<IpAddr>,
    /// What it has lost of what it was forged with, by the answer with which it was made.
    pub lost: Option<Refusal>,
    /// Which of the marks that not each guest has were seen on it.
    further: BTreeSet<&'static str>,
}

/// Annotations that a guest may have, and keeps once it has them.
const FURTHER: [&str; 2] = [HOME_GENERATION, CLUSTER_DOMAIN];

impl KnownGuest {
    /// What the API server has, if it has a uid.
    pub fn of(present: &Value) -> Option<Self> {
        let grace_s = present["spec"]["terminationGracePeriodSeconds"].as_u64();
        let annotations = &present["metadata"]["annotations"];
        let further = FURTHER.into_iter().filter(|mark| annotations[*mark].is_string());
        let gate = annotations[GATE].as_str().map(str::to_owned);
        let (uid, called) = (uid(present)?, known_as(present));
        Some(Self { uid, grace_s, gate, called, lost: None, further: further.collect() })
    }
}

impl KnownGuests {
    /// This object is there, and is the guest object of `item`: a pod is known by its uid from now on.
    pub fn note(&mut self, item: &Item, present: &Value) {
        if let (Item::Pod(pod), Some(mut guest)) = (item, KnownGuest::of(present)) {
            let known = self.guests.get(pod).filter(|known| known.uid == guest.uid);
            if let Some(known) = known {
                guest.further.extend(&known.further);
                guest.gate = known.gate.clone().or(guest.gate);
                guest.called = known.called.or(guest.called);
                guest.lost.clone_from(&known.lost);
            }
            self.insert(pod, guest);
        }
    }

    /// The guest of this pod was made under this uid, whatever its marks say now.
    pub fn note_uid(&mut self, pod: &PodId, uid: GuestUid) {
        if self.guest(pod).is_none_or(|known| known.uid != uid) {
            self.insert(
                pod,
                KnownGuest {
                    uid,
                    grace_s: None,
                    gate: None,
                    called: None,
                    lost: None,
                    further: BTreeSet::new(),
                },
            );
        }
    }

    /// The guest of this pod has lost this of what it was forged with.
    pub fn note_loss(&mut self, pod: &PodId, lost: Refusal) {
        if let Some(guest) = self.guests.get_mut(pod) {
            guest.lost = Some(lost);
        }
    }

    /// Whether a guest of this uid was not looked at yet: what is known of it is its uid at most.
    pub fn is_new(&self, pod: &PodId, uid: &GuestUid) -> bool {
        let known = self.guest(pod).filter(|known| known.uid == *uid);
        known.is_none_or(|known| known.grace_s.is_none())
    }

    /// Our write of an object was answered with this: however the API server stores it, that is how it
    /// was made.
    pub fn note_made(&mut self, item: &Item, stored: &Value) {
        let Item::Object(key) = item else { return };
        self.objects.remove(key);
        let stored_as = made::digest_of_made(key.kind, stored);
        if let Some(digest) = stored_as.filter(|_| made::said(stored) != stored_as) {
            self.objects.insert(key.clone(), digest);
        }
    }

    fn insert(&mut self, pod: &PodId, guest: KnownGuest) {
        self.forget(pod);
        self.pods.insert(guest.uid.clone(), pod.clone());
        self.guests.insert(pod.clone(), guest);
    }

    /// Whether an object is as it was made; of other kinds than Services and slices nobody can say.
    pub fn is_as_made(&self, item: &Item, object: &Value) -> bool {
        let Item::Object(key) = item else { return true };
        let Some(is) = made::digest_of_made(key.kind, object) else { return true };
        made::said(object) == Some(is) || self.objects.get(key) == Some(&is)
    }

    /// An object is there no more.
    pub fn forget_object(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    /// It is there no more.
    pub fn forget(&mut self, pod: &PodId) {
        if let Some(gone) = self.guests.remove(pod) {
            self.pods.remove(&gone.uid);
        }
    }

    /// Which of home's pods the guest of this uid stands for.
    pub fn pod(&self, uid: &GuestUid) -> Option<&PodId> {
        self.pods.get(uid)
    }

    /// The guest of one of home's pods.
    pub fn guest(&self, pod: &PodId) -> Option<&KnownGuest> {
        self.guests.get(pod)
    }
}
