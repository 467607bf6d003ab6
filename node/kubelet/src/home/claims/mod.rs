//! Claims of namespaces that may leave, as far as they are chosen for one lease, and the volumes that are
//! there for it. What is to be done is `mercato_offload::placement::claims`' to say.

mod known;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
pub use known::ClusterClaims;
use known::{KnownClaim, KnownClaims};
use mercato_offload::body::Way;
use mercato_offload::forge::{Refusal, claim_name, export_claim};
use mercato_offload::home::{Granted, Input, Wish};
use mercato_offload::key::{Item, ObjectKey};
use mercato_offload::placement::claims::{Bought, Mounts, SeenVolume, Step, UnderWay};
use mercato_offload::placement::export::refusal_text;
use mercato_offload::placement::spec::volume;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::shared::Shared;
use super::volumes;
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::{CLAIM, VOLUME};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits;
use crate::names::CONTRACT;
use crate::pace::{Backoff, every};
use crate::repeated::Repeated;
use crate::warn_once;

/// What a lease has for claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// How much was bought, in bytes.
    pub bytes: u64,
    /// New claims are taken: it does not end soon, is not suspended, and the provider is reached.
    pub is_open: bool,
}

/// What the session has to say of a claim.
#[derive(Debug)]
pub(super) enum News {
    /// What came of a wish.
    Granted(ObjectKey, Granted),
    /// The provider refuses it, with why.
    Refused(ObjectKey, Refusal),
}

/// Reason of the event that a claim finds no volume at a provider, as Kubernetes' own provisioners have it.
const FAILED: &str = "ProvisioningFailed";
/// Reason of the event that what was stored is lost.
const LOST: &str = "VolumeLost";

/// Follows them for ever, from when the lease has storage.
pub(super) fn follow(
    shared: Arc<Shared>,
    claims: Arc<ClusterClaims>,
    mut news: mpsc::Receiver<News>,
    mut storage: watch::Receiver<Option<Storage>>,
) -> BoxFuture<'static, ()> {
    async move {
        let following = async {
            if storage.wait_for(Option::is_some).await.is_err() {
                return;
            }
            if bytes(&storage) == 0 {
                shared.mounts.send_replace(Arc::new(Mounts::NoStorage));
            }
            if storage.wait_for(|it| it.is_some_and(|it| it.bytes > 0)).await.is_err() {
                return;
            }
            let which = format!("{CONTRACT}={}", shared.config.contract);
            let which = Selection::default().labels(which);
            let mut of_volumes = changes(&shared.cluster, VOLUME, which, |volume| volume);
            let mut known = claims.known();
            let mut table = Table::default();
            let mut again = every(limits::CLAIMS_AGAIN);
            loop {
                table.claims = known.borrow_and_update().clone();
                let Some(bought) = *storage.borrow_and_update() else { return };
                table.act(&shared, bought).await;
                tokio::select! {
                    Some(change) = of_volumes.next() => table.on_volumes(change),
                    changed = known.changed() => if changed.is_err() { return },
                    Some(news) = news.recv() => table.on_news(&shared, news).await,
                    changed = storage.changed() => if changed.is_err() { return },
                    // What has failed is tried again.
                    _ = again.tick() => table.told.clear(),
                }
            }
        };
        tokio::select! { () = shared.stop.cancelled() => {} () = following => {} }
    }
    .boxed()
}

fn bytes(storage: &watch::Receiver<Option<Storage>>) -> u64 {
    storage.borrow().map_or(0, |storage| storage.bytes)
}

/// What is known of claims and volumes. Bounded as what an API server holds of them, and by the session's own
/// bound of claims.
#[derive(Default)]
struct Table {
    claims: KnownClaims,
    /// None before the first list.
    volumes: Option<BTreeMap<ObjectKey, (SeenVolume, Value)>>,
    /// What was begun, and is not seen in the cluster.
    under_way: UnderWay,
    /// Claims whose volume was made, or may have been, and is not seen yet: their own watch may be ahead of that
    /// of volumes.
    unsure: BTreeSet<ObjectKey>,
    /// What the session was told of each.
    told: BTreeMap<ObjectKey, Wish>,
    /// Claims that the provider holds, and whose volumes are not here.
    strays: BTreeSet<ObjectKey>,
    /// Claims that were refused; an entry goes with its claim.
    refused: BTreeMap<ObjectKey, Refused>,
    /// What the cluster was told that is left.
    left: Option<u64>,
    unsaid: Repeated,
}

/// When the scheduler may be asked to choose again.
struct Refused {
    next: Instant,
    backoff: Backoff,
}

impl Table {
    /// A volume that goes without having been discarded was taken away: what it held stays over there.
    fn on_volumes(&mut self, change: Change<Value>) {
        let read = |volume: Value| Some((SeenVolume::read(&volume)?, volume));
        let entry = |(seen, volume): (SeenVolume, Value)| (seen.key.clone(), (seen, volume));
        let volumes = self.volumes.get_or_insert_default();
        let mut gone = Vec::new();
        match change {
            Change::Synced(all) => {
                let now = all.into_iter().filter_map(read).map(entry).collect();
                let before = std::mem::replace(volumes, now);
                gone.extend(
                    before.into_values().filter(|(seen, _)| !volumes.contains_key(&seen.key)),
                );
            }
            Change::Changed(volume) => volumes.extend(read(volume).map(entry)),
            Change::Deleted(volume) => {
                gone.extend(read(volume).and_then(|(seen, _)| volumes.remove(&seen.key)));
            }
        }
        let taken_away = gone.into_iter().filter(|(seen, _)| !seen.is_discarded);
        self.strays.extend(taken_away.map(|(seen, _)| seen.key));
    }

    async fn on_news(&mut self, shared: &Shared, news: News) {
        match news {
            News::Granted(key, granted) => {
                if let Err(failure) = self.on_granted(shared, &key, granted).await {
                    tracing::debug!(%failure, %key, "a volume is not as it is to be yet");
                    self.told.remove(&key);
                }
            }
            News::Refused(key, refusal) => self.refuse(shared, &key, &refusal).await,
        }
    }

    async fn on_granted(
        &mut self,
        shared: &Shared,
        key: &ObjectKey,
        granted: Granted,
    ) -> Result<(), Failure> {
        let known = self.volumes.as_ref().and_then(|volumes| volumes.get(key));
        match granted {
            Granted::Held if known.is_some() || self.under_way.discarded.contains(key) => {}
            Granted::Held => {
                let Some(claim) = self.claim(key) else { return Ok(()) };
                // The scheduler may have chosen another node by now.
                let is_chosen = claim.seen.chosen.as_deref() == Some(&*shared.config.node);
                let claim = claim.object.as_ref().filter(|_| is_chosen);
                if let Some(made) = claim.and_then(|it| volume(it, &shared.config.contract)) {
                    self.unsure.insert(key.clone());
                    volumes::make(&shared.cluster, made).await?;
                }
            }
            Granted::Lost => {
                let message = "the provider has its volume no more: what was stored there is lost; delete the \
                               claim, and make it again";
                self.tell(shared, key, LOST, message).await;
            }
            Granted::Stray => {
                self.strays.insert(key.clone());
            }
            Granted::Discarded => {
                self.strays.remove(key);
                if let Some((_, volume)) = known {
                    volumes::remove(&shared.cluster, volume, false).await?;
                }
                self.under_way.made.remove(key);
                self.under_way.discarded.remove(key);
            }
        }
        Ok(())
    }

    /// Tells the session what is to be with each claim, pods what theirs are called there, and the cluster what
    /// is left.
    async fn act(&mut self, shared: &Shared, storage: Storage) {
        let Some(volumes) = &self.volumes else { return };
        let volumes: BTreeMap<_, _> =
            volumes.iter().map(|(key, (seen, _))| (key.clone(), seen.clone())).collect();
        let all = || self.claims.values().flat_map(|claims| claims.iter());
        let claims: BTreeMap<_, _> =
            all().map(|(key, it)| (key.clone(), it.seen.clone())).collect();
        let is_known = |key: &&ObjectKey| self.claims.contains_key(&key.namespace);
        let made = self.under_way.made.iter().filter(is_known).cloned().collect();
        let under_way = UnderWay { made, discarded: self.under_way.discarded.clone() };
        let Storage { bytes, is_open } = storage;
        let bought = Bought { node: &shared.config.node, bytes, is_open };
        let (steps, left) = bought.steps(&claims, &volumes, &under_way);
        let mounts = Arc::new(bought.mounts(claims.values(), &volumes));
        shared.mounts.send_if_modified(|before| {
            let differs = *before != mounts;
            *before = mounts;
            differs
        });
        let strays = self.strays.iter().filter(|key| !volumes.contains_key(key));
        let strays: Vec<_> = strays.cloned().collect();
        shared.strays.send_if_modified(|before| {
            let differs = *before != strays;
            *before = strays;
            differs
        });
        self.told.retain(|key, _| steps.contains_key(key));
        self.refused.retain(|key, _| claims.contains_key(key));
        for (key, step) in steps {
            self.take(shared, key, step).await;
        }
        if self.left != Some(left) {
            match volumes::say_left(&shared.cluster, &shared.config.contract, left).await {
                Ok(()) => self.left = Some(left),
                Err(failure) => {
                    warn_once!(self.unsaid, failure.of_install(); "the cluster does not know what storage is left");
                }
            }
        }
    }

    async fn take(&mut self, shared: &Shared, key: ObjectKey, step: Step) {
        let keeps = step == Step::Keep;
        match step {
            Step::Refuse(refusal) => self.refuse(shared, &key, &refusal).await,
            Step::Discard => {
                if self.unsure.contains(&key) && !self.is_surely_without_volume(shared, &key).await
                {
                    return;
                }
                self.under_way.discarded.insert(key.clone());
                self.wish(shared, key, Wish::Discard).await;
            }
            Step::Make | Step::Keep => {
                let claim = self.claim(&key).and_then(|claim| claim.object.as_ref());
                let Some(body) = claim.map(export_claim) else { return };
                let item = Item::Object(key.clone());
                match shared.bodies.keep(Way::ToGuest, &item, &body) {
                    Err(refusal) => self.refuse(shared, &key, &refusal).await,
                    Ok(digest) if keeps => {
                        // From now on it goes by its volume alone.
                        self.under_way.made.remove(&key);
                        self.unsure.remove(&key);
                        self.wish(shared, key, Wish::Keep(digest)).await;
                    }
                    Ok(digest) => {
                        self.under_way.made.insert(key.clone());
                        self.wish(shared, key, Wish::Make(digest)).await;
                    }
                }
            }
        }
    }

    /// Whether no volume was made for it after all; one that was goes by what becomes of it.
    async fn is_surely_without_volume(&mut self, shared: &Shared, key: &ObjectKey) -> bool {
        let Ok(found) = shared.cluster.get(VOLUME, None, &claim_name(&key.name)).await else {
            return false;
        };
        self.unsure.remove(key);
        if found.is_some() {
            self.under_way.made.remove(key);
        }
        found.is_none()
    }

    async fn wish(&mut self, shared: &Shared, key: ObjectKey, wish: Wish) {
        if self.told.insert(key.clone(), wish) == Some(wish) {
            return;
        }
        self.strays.remove(&key);
        let known = shared.opted_in.borrow().clone();
        let how = known.and_then(|known| known.how(&key.namespace));
        let place = how.and_then(|how| how.name.place(&key.namespace).ok().flatten());
        shared.tell(Input::Claim { key, wish, place }).await;
    }

    /// The scheduler chooses the same node again at once: it is asked to at most so often.
    async fn refuse(&mut self, shared: &Shared, key: &ObjectKey, refusal: &Refusal) {
        let Some(claim) = self.claim(key).cloned() else { return };
        let now = Instant::now();
        let refused = self.refused.entry(key.clone()).or_insert_with(|| Refused {
            next: now,
            backoff: Backoff::new(limits::CLAIMS_AGAIN, limits::CLAIM_REFUSED_MAX),
        });
        if now < refused.next {
            return;
        }
        refused.next = now + refused.backoff.pause();
        self.tell(shared, key, FAILED, &refusal_text(refusal)).await;
        let Some(object) = &claim.object else { return };
        if let Err(failure) = volumes::choose_again(&shared.cluster, object).await {
            tracing::debug!(%failure, %key, "the node of a claim is not taken back yet");
            // Somebody else has written to it: as soon as that is seen.
            let refused = self.refused.get_mut(key).filter(|_| failure.class == Class::Conflict);
            refused.into_iter().for_each(|refused| refused.next = now);
        }
    }

    async fn tell(&self, shared: &Shared, key: &ObjectKey, reason: &str, message: &str) {
        let Some(claim) = self.claim(key) else { return };
        if !shared.events.has_one(Instant::now()) {
            return;
        }
        let uid = Some(key.name.clone());
        let about = About::core(CLAIM.kind, &key.namespace, &claim.seen.name, uid);
        let told = events::write_once(&shared.cluster, about, EventType::Warning, reason, message);
        if let Err(failure) = told.await {
            tracing::debug!(%failure, %key, "an event is lost");
        }
    }

    fn claim(&self, key: &ObjectKey) -> Option<&Arc<KnownClaim>> {
        self.claims.get(&key.namespace)?.get(key)
    }
}
