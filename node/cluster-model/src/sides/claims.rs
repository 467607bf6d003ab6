//! Claims at home that are chosen for a lease, its volumes there, and how much of its storage is left.
//! `mercato_offload::placement::claims` decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_offload::body::Way;
use mercato_offload::forge::export_claim;
use mercato_offload::forge::labels::CONTRACT;
use mercato_offload::home::{Granted, Input, Wish};
use mercato_offload::key::{Item, ObjectKey};
use mercato_offload::placement::claims::{
    Bought, Mounts, SELECTED_NODE, SeenClaim, SeenVolume, Step, UnderWay,
};
use mercato_offload::placement::export::OptIn;
use mercato_offload::placement::spec::{
    VOLUME_FINALIZER, VOLUME_PROTECTION, capacity_name, storage_capacity, volume,
};
use mercato_protocol::id::ContractId;
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::{Client, Outcome};
use crate::{ApiError, Cluster, Key};

/// After a refusal the scheduler is asked to choose again so long after at least, in ms.
const AGAIN_MS: u64 = 10_000;
/// Where the daemon is installed.
const NAMESPACE: &str = "mercato";

/// What one lease knows of them.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// How much was bought, in bytes, and whether new claims are taken; none: not known yet.
    storage: Option<(u64, bool)>,
    under_way: UnderWay,
    /// The volumes as they were seen last: their watch is behind that of claims. None before the first look.
    volumes: Option<BTreeMap<ObjectKey, SeenVolume>>,
    /// Claims whose volume was made, and is not seen yet.
    unsure: BTreeSet<ObjectKey>,
    /// What the session was told of each.
    told: BTreeMap<ObjectKey, Wish>,
    /// Those that the provider refuses.
    refused: BTreeSet<ObjectKey>,
    /// When the scheduler may be asked again, in ms.
    again_ms: BTreeMap<ObjectKey, u64>,
    /// What the cluster was told that is left.
    left: Option<u64>,
    mounts: Arc<Mounts>,
}

/// The lease that they are of.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) contract: &'a ContractId,
    pub(super) node: &'a str,
    /// The namespaces whose claims are looked at.
    pub(super) namespaces: &'a BTreeMap<String, OptIn>,
}

/// A claim as it is looked at, and as the cluster has it.
type Seen = (SeenClaim, Value);

impl Claims {
    pub(super) fn set_storage(&mut self, bytes: u64, is_open: bool) {
        self.storage = Some((bytes, is_open));
    }

    /// What pods call them at the provider.
    pub(super) fn mounts(&self) -> Arc<Mounts> {
        self.mounts.clone()
    }

    /// The watch breaks: all is said again.
    pub(super) fn relist(&mut self) {
        self.told.clear();
    }

    /// The provider refuses this one.
    pub(super) fn on_refused(&mut self, key: ObjectKey) {
        self.refused.insert(key);
    }

    /// Looks at what there is; what the session is to know. Claims are seen before volumes are.
    pub(super) fn look(&mut self, client: &mut Client<'_>, of: Of<'_>) -> Vec<Input> {
        let Some((bytes, is_open)) = self.storage else { return Vec::new() };
        if bytes == 0 {
            self.mounts = Arc::new(Mounts::NoStorage);
            return Vec::new();
        }
        let bought = Bought { node: of.node, bytes, is_open };
        let now = volumes(client.cluster, of.contract);
        let before = self.volumes.replace(now.clone()).filter(|before| *before != now);
        let mut news = before.map(|it| self.act(client, of, bought, &it)).unwrap_or_default();
        news.extend(self.act(client, of, bought, &now));
        news
    }

    fn act(
        &mut self,
        client: &mut Client<'_>,
        of: Of<'_>,
        bought: Bought<'_>,
        volumes: &BTreeMap<ObjectKey, SeenVolume>,
    ) -> Vec<Input> {
        let all = claims(client.cluster, of.namespaces);
        let claims: BTreeMap<_, _> =
            all.iter().map(|(key, (seen, _))| (key.clone(), seen.clone())).collect();
        let is_known = |key: &&ObjectKey| of.namespaces.contains_key(&key.namespace);
        let made = self.under_way.made.iter().filter(is_known).cloned().collect();
        let under_way = UnderWay { made, discarded: self.under_way.discarded.clone() };
        let (steps, left) = bought.steps(&claims, volumes, &under_way);
        self.mounts = Arc::new(bought.mounts(claims.values(), volumes));
        self.told.retain(|key, _| steps.contains_key(key));
        self.again_ms.retain(|key, _| claims.contains_key(key));
        let mut news = Vec::new();
        for (key, step) in steps {
            let wish = match step {
                Step::Refuse(_) => {
                    self.choose_again(client, &key, &all);
                    continue;
                }
                Step::Discard if self.has_unseen_volume(client, &key) => continue,
                Step::Discard => {
                    self.under_way.discarded.insert(key.clone());
                    Wish::Discard
                }
                Step::Make | Step::Keep => {
                    let Some((_, claim)) = all.get(&key) else { continue };
                    let (item, body) = (Item::Object(key.clone()), export_claim(claim));
                    let Ok(digest) = client.bodies.keep(Way::ToGuest, &item, &body) else {
                        continue;
                    };
                    if step == Step::Keep {
                        self.under_way.made.remove(&key);
                        self.unsure.remove(&key);
                        Wish::Keep(digest)
                    } else {
                        self.under_way.made.insert(key.clone());
                        Wish::Make(digest)
                    }
                }
            };
            if self.told.insert(key.clone(), wish) != Some(wish) {
                let how = of.namespaces.get(&key.namespace);
                let place = how.and_then(|how| how.name.place(&key.namespace).ok().flatten());
                news.push(Input::Claim { key, wish, place });
            }
        }
        for key in std::mem::take(&mut self.refused) {
            self.choose_again(client, &key, &all);
        }
        if self.left != Some(left) && say_left(client, of.contract, left).is_ok() {
            self.left = Some(left);
        }
        news
    }

    /// Whether a volume was made for it after all: then it goes by what becomes of that.
    fn has_unseen_volume(&mut self, client: &Client<'_>, key: &ObjectKey) -> bool {
        let has = self.unsure.remove(key) && client.cluster.get(&volume_place(key)).is_some();
        if has {
            self.under_way.made.remove(key);
        }
        has
    }

    fn choose_again(
        &mut self,
        client: &mut Client<'_>,
        key: &ObjectKey,
        all: &BTreeMap<ObjectKey, Seen>,
    ) {
        let Some((seen, _)) = all.get(key).filter(|(seen, _)| seen.chosen.is_some()) else {
            return;
        };
        let now_ms = client.now.mono_ms;
        if self.again_ms.get(key).is_some_and(|again_ms| now_ms < *again_ms) {
            return;
        }
        self.again_ms.insert(key.clone(), now_ms + AGAIN_MS);
        let place = Key::new("PersistentVolumeClaim", &key.namespace, &seen.name);
        // One that has gone meanwhile needs no node.
        let _ = client.cluster.unmark(client.now, &place, Some(&key.name), SELECTED_NODE);
    }

    /// This came of what was wished for a claim. What fails is wished again.
    pub(super) fn on_granted(
        &mut self,
        client: &mut Client<'_>,
        of: Of<'_>,
        key: &ObjectKey,
        granted: Granted,
    ) {
        let done = match client.outcome {
            Outcome::Fails => false,
            Outcome::Answered => self.grant(client, of, key, granted).is_ok(),
            Outcome::Unheard => {
                let _ = self.grant(client, of, key, granted);
                false
            }
        };
        if !done {
            self.told.remove(key);
        }
    }

    fn grant(
        &mut self,
        client: &mut Client<'_>,
        of: Of<'_>,
        key: &ObjectKey,
        granted: Granted,
    ) -> Result<(), ApiError> {
        let is_there = volumes(client.cluster, of.contract).contains_key(key);
        match granted {
            Granted::Held if !is_there && !self.under_way.discarded.contains(key) => {
                let all = claims(client.cluster, of.namespaces);
                let chosen =
                    all.get(key).filter(|(seen, _)| seen.chosen.as_deref() == Some(of.node));
                if let Some(made) = chosen.and_then(|(_, claim)| volume(claim, of.contract)) {
                    self.unsure.insert(key.clone());
                    client.cluster.create(client.now, made)?;
                }
            }
            // People are told.
            Granted::Held | Granted::Lost | Granted::Stray => {}
            Granted::Discarded => {
                if is_there {
                    remove(client.cluster, client.now, &volume_place(key), &[VOLUME_FINALIZER])?;
                }
                self.under_way.made.remove(key);
                self.under_way.discarded.remove(key);
            }
        }
        Ok(())
    }

    /// The contract is over: all of its volumes go, with what says how much is left. Nothing is looked at from
    /// then on: it would come again.
    pub(super) fn remove_all(
        &mut self,
        client: &mut Client<'_>,
        of: &ContractId,
    ) -> Result<(), ApiError> {
        self.storage = None;
        let Client { cluster, now, .. } = client;
        let ours = cluster.objects("PersistentVolume").filter(|(_, volume)| is_of(volume, of));
        for key in ours.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            remove(cluster, *now, &key, &[VOLUME_FINALIZER, VOLUME_PROTECTION])?;
        }
        let place = capacity_place(of);
        match cluster.get(&place) {
            Some(_) => cluster.delete(*now, &place, None, None),
            None => Ok(()),
        }
    }
}

fn claims(cluster: &Cluster, namespaces: &BTreeMap<String, OptIn>) -> BTreeMap<ObjectKey, Seen> {
    let all = cluster.objects("PersistentVolumeClaim");
    let all = all.filter(|(key, _)| namespaces.contains_key(&key.namespace));
    let seen = all.filter_map(|(_, claim)| Some((SeenClaim::read(claim)?, claim.clone())));
    seen.map(|(seen, claim)| (seen.key.clone(), (seen, claim))).collect()
}

fn volumes(cluster: &Cluster, of: &ContractId) -> BTreeMap<ObjectKey, SeenVolume> {
    let ours = cluster.objects("PersistentVolume").filter(|(_, volume)| is_of(volume, of));
    let seen = ours.filter_map(|(_, volume)| SeenVolume::read(volume));
    seen.map(|seen| (seen.key.clone(), seen)).collect()
}

fn is_of(volume: &Value, contract: &ContractId) -> bool {
    volume["metadata"]["labels"][CONTRACT] == contract.to_string()
}

fn volume_place(key: &ObjectKey) -> Key {
    Key::new("PersistentVolume", "", &mercato_offload::forge::claim_name(&key.name))
}

fn capacity_place(of: &ContractId) -> Key {
    Key::new("CSIStorageCapacity", NAMESPACE, &capacity_name(of))
}

/// Deletes a volume, and takes these finalizers off.
fn remove(cluster: &mut Cluster, now: Now, key: &Key, finalizers: &[&str]) -> Result<(), ApiError> {
    cluster.delete(now, key, None, None)?;
    for finalizer in finalizers {
        if cluster.get(key).is_some() {
            cluster.release(now, key, None, finalizer)?;
        }
    }
    Ok(())
}

fn say_left(client: &mut Client<'_>, of: &ContractId, left: u64) -> Result<(), ApiError> {
    let Client { cluster, now, .. } = client;
    // As installing the daemon makes it.
    if cluster.get(&Key::new("Namespace", "", NAMESPACE)).is_none() {
        let namespace = json!({ "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        cluster.create(*now, namespace)?;
    }
    let mut capacity = storage_capacity(of, left);
    capacity["kind"] = json!("CSIStorageCapacity");
    capacity["metadata"] = json!({ "namespace": NAMESPACE, "name": capacity_name(of) });
    cluster.apply(*now, capacity).map(drop)
}
