//! Claims at home, as a lease with storage looks at them: which are chosen for it, which it cannot serve,
//! and which are gone, by home's own objects alone.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::quantity;
use serde_json::Value;

use crate::forge::{claim_name, claims_of, refused_claim};
use crate::key::{ObjectKey, ObjectKind, key};
use crate::message::Refusal;

/// The storage class of home's whose claims leave, and the driver that its objects name.
pub const STORAGE_CLASS: &str = "mercato";
/// What nothing runs as: Kubernetes looks for capacity and volumes by it.
pub const DRIVER: &str = "volumes.mercato.dev";
/// By which the scheduler says for which node a volume is to be made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A claim of home's cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenClaim {
    /// It crosses by its uid.
    pub key: ObjectKey,
    /// What it is called at home.
    pub name: String,
    /// It is of our class.
    pub is_ours: bool,
    /// How much it asks for, in bytes.
    pub bytes: u64,
    /// For which node the scheduler wants it, as long as it is not bound.
    pub chosen: Option<String>,
    /// To which volume it is bound.
    pub volume: Option<String>,
    /// Why no provider takes it, if so.
    pub refusal: Option<Refusal>,
}

/// A volume of ours at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenVolume {
    /// The claim that it was made for.
    pub key: ObjectKey,
    /// Its claim is gone, and nothing of it is to be kept.
    pub is_discarded: bool,
}

/// What is to be done about a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The provider is to have it; its volume is made once it does.
    Make,
    /// Its volume is there: the provider is to keep it.
    Keep,
    /// It goes, with what is stored.
    Discard,
    /// The scheduler is to look for another node.
    Refuse(Refusal),
}

/// What a lease has for claims.
#[derive(Clone, Copy, Debug)]
pub struct Bought<'a> {
    /// What its virtual node is called.
    pub node: &'a str,
    /// How much storage, in bytes.
    pub bytes: u64,
    /// New claims are taken: it does not end soon, is not suspended, and the provider is reached.
    pub is_open: bool,
}

/// What this lease has begun with claims, and is not seen in the cluster.
#[derive(Clone, Debug, Default)]
pub struct UnderWay {
    /// The provider was told to make them, and no volume of them is there; of namespaces whose claims are all
    /// known.
    pub made: BTreeSet<ObjectKey>,
    /// The provider was told to remove them, and has not answered.
    pub discarded: BTreeSet<ObjectKey>,
}

/// What a pod calls its claims at the provider, as far as a lease knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mounts {
    /// What is at home was not seen yet.
    #[default]
    Unknown,
    /// The contract has no storage.
    NoStorage,
    /// By namespace and name of the claim at home. Of one that is not here it is known soon.
    Known(BTreeMap<(String, String), Mount>),
}

/// What becomes of a claim that a pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mount {
    /// Its volume is with this lease's provider: what the claim is called there.
    Here(String),
    /// It is elsewhere: why pods that mount it stay.
    Elsewhere(&'static str),
}

const ANOTHER_CLASS: &str = "is storage of this cluster: order storage, and make the claim with \
                             storageClassName: mercato";
const ANOTHER_VOLUME: &str = "is bound to a volume that is not with this provider: pods that mount it run \
                              where that is";
const NO_STORAGE: &str = "is for storage, of which the contract has none: mercato contracts resize --storage, \
                          or an order with --storage";

impl Mounts {
    /// What the claims of this pod are called there, by their names at home; none: it is not known yet.
    ///
    /// # Errors
    ///
    /// The volume whose claim is elsewhere.
    pub fn of(&self, pod: &Value) -> Option<Result<BTreeMap<String, String>, Refusal>> {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let (mut called, mut unknown) = (BTreeMap::new(), false);
        for (n, name) in claims_of(pod) {
            let mount = match self {
                Self::Unknown => None,
                Self::NoStorage => Some(&Mount::Elsewhere(NO_STORAGE)),
                Self::Known(all) => all.get(&(namespace.to_owned(), name.clone())),
            };
            match mount {
                Some(Mount::Here(there)) => {
                    called.insert(name, there.clone());
                }
                Some(Mount::Elsewhere(why)) => {
                    let path = format!("spec.volumes[{n}]");
                    let reason = format!("claim {name} {why}");
                    return Some(Err(Refusal { path, reason }));
                }
                None => unknown = true,
            }
        }
        (!unknown).then_some(Ok(called))
    }

    /// Whether the pod mounts a claim of another class than ours.
    pub fn of_another_class(&self, pod: &Value) -> bool {
        let Self::Known(all) = self else { return false };
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let mut claims = claims_of(pod).into_iter();
        let another = Some(&Mount::Elsewhere(ANOTHER_CLASS));
        claims.any(|(_, name)| all.get(&(namespace.to_owned(), name)) == another)
    }
}

impl SeenClaim {
    /// None: it is no claim of an API server's.
    pub fn read(claim: &Value) -> Option<Self> {
        let (metadata, spec) = (&claim["metadata"], &claim["spec"]);
        let text = |value: &Value| value.as_str().filter(|it| !it.is_empty()).map(str::to_owned);
        let is_ours = is_ours(claim);
        let requested = spec["resources"]["requests"]["storage"].as_str();
        let volume = text(&spec["volumeName"]);
        Some(Self {
            key: claim_key(metadata["namespace"].as_str()?, metadata["uid"].as_str()?),
            name: text(&metadata["name"])?,
            is_ours,
            bytes: requested.and_then(quantity::units).unwrap_or(u64::MAX),
            chosen: text(&metadata["annotations"][SELECTED_NODE]).filter(|_| volume.is_none()),
            volume,
            refusal: refused_claim(claim).filter(|_| is_ours),
        })
    }

    /// Whether it is bound to the volume that was made for it.
    pub fn has_own_volume(&self) -> bool {
        self.volume.as_deref() == Some(&*claim_name(&self.key.name))
    }
}

impl SeenVolume {
    /// None: it is not called as ours are.
    pub fn read(volume: &Value) -> Option<Self> {
        let claim = &volume["spec"]["claimRef"];
        let (namespace, uid) = (claim["namespace"].as_str()?, claim["uid"].as_str()?);
        let is_ours = volume["spec"]["csi"]["driver"] == DRIVER
            && volume["metadata"]["name"] == claim_name(uid);
        let deletes = volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete";
        let is_discarded = volume["status"]["phase"] == "Released" && deletes;
        is_ours.then(|| Self { key: claim_key(namespace, uid), is_discarded })
    }
}

/// Whether a claim is of the class whose claims leave.
pub fn is_ours(claim: &Value) -> bool {
    claim["spec"]["storageClassName"] == STORAGE_CLASS
}

/// The claims that a pod names, which is being made; those of its ephemeral volumes are made after it.
pub fn named(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

/// A pod that is being made without what crosses of its volumes: its claims but for those `elsewhere`, which are
/// of other classes, and its ephemeral volumes of our class.
pub fn without_ours(mut pod: Value, elsewhere: &BTreeSet<String>) -> Value {
    let stays = |volume: &Value| {
        let name = volume["persistentVolumeClaim"]["claimName"].as_str();
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        name.map_or(!is_ours(template), |name| elsewhere.contains(name))
    };
    if let Some(volumes) = pod["spec"].get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.retain(stays);
    }
    pod
}

/// What a claim is called as an object that crosses.
pub fn claim_key(namespace: &str, uid: &str) -> ObjectKey {
    key(ObjectKind::Claim, namespace, uid)
}

/// As people write it: `3Gi`.
fn amount(bytes: u64) -> String {
    let kibis = quantity::canonical(&format!("{}Ki", bytes >> 10));
    kibis.filter(|_| bytes.trailing_zeros() >= 10).unwrap_or_else(|| bytes.to_string())
}

impl Bought<'_> {
    /// What is to be done, by claim, and how many bytes new claims may have. A claim that is not told of, and
    /// whose volume was taken away by hand, stays at the provider.
    pub fn steps(
        self,
        claims: &BTreeMap<ObjectKey, SeenClaim>,
        volumes: &BTreeMap<ObjectKey, SeenVolume>,
        under_way: &UnderWay,
    ) -> (BTreeMap<ObjectKey, Step>, u64) {
        let UnderWay { made, discarded } = under_way;
        let mut steps = BTreeMap::new();
        let mut left = self.bytes;
        for volume in volumes.values() {
            let claim = claims.get(&volume.key);
            left = left.saturating_sub(claim.map_or(0, |claim| claim.bytes));
            if claim.is_some_and(|claim| claim.volume.is_none() || claim.has_own_volume()) {
                steps.insert(volume.key.clone(), Step::Keep);
            } else if volume.is_discarded {
                steps.insert(volume.key.clone(), Step::Discard);
            }
        }
        // What is bound has a volume, though that is not seen yet.
        let is_unseen = |key: &ObjectKey| {
            let is_bound = claims.get(key).is_some_and(SeenClaim::has_own_volume);
            is_bound && made.contains(key) && !volumes.contains_key(key)
        };
        for (_, claim) in claims.iter().filter(|(key, _)| is_unseen(key)) {
            left = left.saturating_sub(claim.bytes);
        }
        let is_new = |claim: &&SeenClaim| {
            let is_chosen = claim.chosen.as_deref() == Some(self.node);
            claim.is_ours && is_chosen && !volumes.contains_key(&claim.key)
        };
        // What was begun keeps its room.
        let mut new: Vec<_> = claims.values().filter(is_new).collect();
        new.sort_by_key(|claim| !made.contains(&claim.key));
        for claim in new {
            let step = if let Some(refusal) = &claim.refusal {
                Step::Refuse(refusal.clone())
            } else if !self.is_open && !made.contains(&claim.key) {
                let path = "metadata.annotations".to_owned();
                let reason = "names the node of a contract that takes no claims now: it ends, is suspended, or \
                              its provider is not reached";
                Step::Refuse(Refusal { path, reason: reason.to_owned() })
            } else if claim.bytes > left {
                let path = "spec.resources.requests.storage".to_owned();
                let reason = format!(
                    "asks for {} where {} of what was bought is left: delete another claim of this \
                     contract, or mercato contracts resize",
                    amount(claim.bytes),
                    amount(left),
                );
                Step::Refuse(Refusal { path, reason })
            } else {
                left -= claim.bytes;
                Step::Make
            };
            steps.insert(claim.key.clone(), step);
        }
        for key in made.iter().filter(|key| !volumes.contains_key(key) && !is_unseen(key)) {
            if !matches!(steps.get(key), Some(Step::Make)) {
                steps.insert(key.clone(), Step::Discard);
            }
        }
        // What was begun comes to its end: of what is made anew nothing that is said before is meant.
        steps.extend(discarded.iter().map(|key| (key.clone(), Step::Discard)));
        (steps, if self.is_open { left } else { 0 })
    }

    /// What pods call the claims of this lease, and why those that are elsewhere keep a pod at home.
    pub fn mounts<'c>(
        self,
        claims: impl Iterator<Item = &'c SeenClaim>,
        volumes: &BTreeMap<ObjectKey, SeenVolume>,
    ) -> Mounts {
        let mount = |claim: &SeenClaim| {
            let mount = if !claim.is_ours {
                Mount::Elsewhere(ANOTHER_CLASS)
            } else if claim.has_own_volume() && volumes.contains_key(&claim.key) {
                Mount::Here(claim_name(&claim.key.name))
            } else if claim.volume.is_some() {
                Mount::Elsewhere(ANOTHER_VOLUME)
            } else {
                return None;
            };
            Some(((claim.key.namespace.clone(), claim.name.clone()), mount))
        };
        Mounts::Known(claims.filter_map(mount).collect())
    }
}

#[cfg(test)]
mod tests;
