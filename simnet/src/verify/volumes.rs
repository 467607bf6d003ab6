//! What is stored for a home cluster at a provider goes by home's own word alone, or with the lease: not with
//! its pods, and not since somebody knows nothing of it. What is there is never more than was bought, and
//! nothing empty takes its place.

use std::collections::{BTreeMap, BTreeSet};

use mercato_agent::{Effect, Frame};
use mercato_cluster_model::{Event, Key};
use mercato_offload::forge::labels::{CONTRACT, HOME_NAME};
use mercato_offload::message::ToGuest;
use mercato_offload::placement::claims::{DRIVER, SELECTED_NODE};
use mercato_protocol::quantity;
use serde_json::Value;

use super::{Actor, Violation, disk, ensure};
use crate::engine::site::Site;
use crate::engine::sites::Sites;

const CLAIM: &str = "PersistentVolumeClaim";
const VOLUME: &str = "PersistentVolume";
/// The version of a cluster in which nothing has happened yet.
const FIRST_VERSION: u64 = 1;

/// What is stored: by its contract, and the uid of the claim at home.
type Stored = (String, String);

/// What was seen of all claims and volumes so far.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// Up to which version each cluster's events were looked at.
    seen: BTreeMap<usize, u64>,
    /// The uid of the claim at the provider.
    there: BTreeMap<Stored, String>,
    /// For which a volume has stood at home: something may be written there.
    written: BTreeSet<Stored>,
    /// Of which home has said that they are to go.
    discarded: BTreeSet<Stored>,
}

impl Volumes {
    /// Right before an honest cluster says something to a provider.
    pub(crate) fn on_effect(
        &mut self,
        actor: &Actor<'_>,
        effect: &Effect,
    ) -> Result<(), Violation> {
        let Effect::Workload { contract, frame: Frame::ToGuest(frame), .. } = effect else {
            return Ok(());
        };
        for statement in &frame.statements {
            let ToGuest::Discard(key) = statement else { continue };
            let stored = (contract.to_string(), key.name.clone());
            if self.written.contains(&stored) {
                may_go(actor.site, &stored)?;
            }
            self.discarded.insert(stored);
        }
        Ok(())
    }

    /// Looks at what happened in one cluster since the last time.
    pub(crate) fn look(&mut self, sites: &Sites, at: usize) -> Result<(), Violation> {
        let (site, since) = (&sites[at], self.seen.get(&at).copied().unwrap_or(FIRST_VERSION));
        for kind in [CLAIM, VOLUME] {
            let events = site.kube.events_since(kind, since);
            let events = events.map_err(|_| Violation("events were lost unseen".to_owned()))?;
            for (_, event) in events {
                let is_gone = matches!(event, Event::Deleted(_));
                let (Event::Applied(object) | Event::Deleted(object)) = event;
                let goes = is_gone || !object["metadata"]["deletionTimestamp"].is_null();
                let Some(stored) = guest(&object).or(volume(&object)) else { continue };
                // What a liar says and has, nobody has looked at.
                let other = peer(sites, site, &stored.0);
                if other.is_some_and(|other| other.attack.is_some()) {
                    continue;
                }
                match kind {
                    CLAIM => self.on_claim(site, &object, stored, goes)?,
                    _ => self.on_volume(site, stored, is_gone)?,
                }
            }
        }
        self.seen.insert(at, site.kube.version());
        Ok(())
    }

    /// A claim at a provider is there, or goes.
    fn on_claim(
        &mut self,
        site: &Site,
        claim: &Value,
        stored: Stored,
        goes: bool,
    ) -> Result<(), Violation> {
        let (contract, uid) = &stored;
        let own = text(&claim["metadata"]["uid"]);
        let before = self.there.insert(stored.clone(), own.clone());
        if before.as_ref().is_none_or(|before| *before != own) {
            ensure(before.is_none() || !self.written.contains(&stored), || {
                format!("what {uid} has stored at {} is made anew, and empty", site.name)
            })?;
            fits(site, contract)?;
        }
        let may = self.discarded.contains(&stored) || disk::is_over(site.gate.records(), contract);
        ensure(!goes || may, || {
            format!("what {uid} has stored at {} goes, though nobody has said so", site.name)
        })
    }

    /// A volume at home is there, or is gone.
    fn on_volume(&mut self, site: &Site, stored: Stored, is_gone: bool) -> Result<(), Violation> {
        let (contract, uid) = &stored;
        ensure(self.there.contains_key(&stored), || {
            format!("{} has a volume for {uid}, which its provider never had", site.name)
        })?;
        let may = self.discarded.contains(&stored) || disk::is_over(site.gate.records(), contract);
        ensure(!is_gone || may, || {
            format!("the volume of {uid} is gone at {}, and not what is stored", site.name)
        })?;
        self.written.insert(stored);
        Ok(())
    }
}

/// Home may say that it goes: its claim is gone, and nobody has said that it is kept.
fn may_go(home: &Site, stored: &Stored) -> Result<(), Violation> {
    let uid = &stored.1;
    let mut claims = home.kube.objects(CLAIM);
    let is_wanted = claims.any(|(_, claim)| claim["metadata"]["uid"] == **uid);
    ensure(!is_wanted, || format!("{} gives up what {uid} has stored, and has it", home.name))?;
    let mut volumes = home.kube.objects(VOLUME).map(|(_, object)| object);
    let found = volumes.find(|object| volume(object).as_ref() == Some(stored));
    let deletes = |volume: &Value| volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete";
    ensure(found.is_none_or(deletes), || {
        format!("{} gives up what {uid} has stored, and is to keep it", home.name)
    })
}

/// Claims of a contract never come to more than was bought.
fn fits(site: &Site, contract: &str) -> Result<(), Violation> {
    let Some(bought) = disk::bought(site.gate.records(), contract) else { return Ok(()) };
    let ours = site.kube.objects(CLAIM).map(|(_, claim)| claim);
    let ours = ours.filter(|claim| guest(claim).is_some_and(|(of, _)| of == contract));
    let bytes = |claim: &Value| {
        quantity::units(claim["spec"]["resources"]["requests"]["storage"].as_str()?)
    };
    let stored: u64 = ours.filter_map(bytes).sum();
    ensure(stored <= bought.storage_bytes, || {
        format!("claims of {contract:.8} take {stored} bytes of {}", bought.storage_bytes)
    })
}

/// What has to come true while leases run: each volume at home has its claim at the provider, each claim
/// there that was ever mounted has a volume at home, and no claim waits for a node that is not there. (One
/// that was asked for, and is gone at home before the daemon heard of that, is empty: home shows it.)
pub(super) fn agree(sites: &Sites) -> Result<(), Violation> {
    let (mut there, mut mounted) = (BTreeSet::new(), BTreeSet::new());
    for (_, site) in sites.honest() {
        for (_, claim) in site.kube.objects(CLAIM) {
            let Some(stored) = guest(claim) else { continue };
            if !claim["spec"]["volumeName"].is_null() {
                mounted.insert(stored.clone());
            }
            there.insert(stored);
        }
    }
    let mut wanted = BTreeSet::new();
    for (_, site) in sites.honest() {
        for (key, claim) in site.kube.objects(CLAIM) {
            let chosen = claim["metadata"]["annotations"][SELECTED_NODE].as_str();
            let chosen = chosen.filter(|_| claim["spec"]["volumeName"].is_null());
            let waits =
                chosen.is_some_and(|node| site.kube.get(&Key::new("Node", "", node)).is_none());
            ensure(!waits, || format!("{} of {} waits for no node", key.name, site.name))?;
        }
        for (key, object) in site.kube.objects(VOLUME) {
            let Some(stored) = volume(object) else { continue };
            ensure(object["status"]["phase"] == "Bound", || {
                format!("{} of {} is {}", key.name, site.name, object["status"]["phase"])
            })?;
            let honest = peer(sites, site, &stored.0).is_none_or(|peer| peer.attack.is_none());
            ensure(there.contains(&stored) || !honest, || {
                format!("{} of {} is at no provider", key.name, site.name)
            })?;
            wanted.insert(stored);
        }
    }
    let orphan = mounted.iter().find(|stored| !wanted.contains(*stored));
    ensure(orphan.is_none(), || format!("{orphan:?} is at a provider, and at no home"))
}

/// What has to come true once all leases are over.
pub(super) fn nothing_is_left(site: &Site) -> Result<(), Violation> {
    let is_left = |object: &Value| guest(object).is_some() || volume(object).is_some();
    let mut all = [CLAIM, VOLUME].into_iter().flat_map(|kind| site.kube.objects(kind));
    let left = all.find(|(_, object)| is_left(object));
    ensure(left.is_none(), || format!("{left:?} is left at {}", site.name))?;
    let left = site.kube.objects("CSIStorageCapacity").next();
    ensure(left.is_none(), || format!("{left:?} is left at {}", site.name))
}

/// The other side of a contract.
fn peer<'a>(sites: &'a Sites, site: &Site, contract: &str) -> Option<&'a Site> {
    let deal = disk::deal(site.gate.records(), contract.parse().ok()?)?;
    Some(&sites[sites.place_of(deal.peer())?])
}

/// What a claim at a provider stands for; none: it is a person's.
fn guest(claim: &Value) -> Option<Stored> {
    let metadata = &claim["metadata"];
    let contract = metadata["labels"][CONTRACT].as_str()?;
    Some((contract.to_owned(), metadata["annotations"][HOME_NAME].as_str()?.to_owned()))
}

/// What a volume at home stands for; none: it is another's.
fn volume(volume: &Value) -> Option<Stored> {
    let contract = volume["metadata"]["labels"][CONTRACT].as_str()?;
    let uid = volume["spec"]["claimRef"]["uid"].as_str()?;
    let is_ours = volume["spec"]["csi"]["driver"] == DRIVER;
    is_ours.then(|| (contract.to_owned(), uid.to_owned()))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
