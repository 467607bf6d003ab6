//! Claims of all namespaces that may leave, followed once for all leases with storage.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use mercato_offload::key::ObjectKey;
use mercato_offload::placement::claims::SeenClaim;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::CLAIM;
use crate::apiserver::life::Life;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::offload_namespace::Known;

/// The claims of the namespaces that may leave. They are followed from when the first lease has storage.
pub struct ClusterClaims {
    cluster: Cluster,
    opted_in: watch::Receiver<Known>,
    followed: OnceLock<(watch::Receiver<KnownClaims>, AbortOnDropHandle<()>)>,
}

/// By namespace; of one that is not here nothing is known yet. Bounded as what an API server holds.
pub(super) type KnownClaims = Arc<BTreeMap<String, OfNamespace>>;

/// The claims of one namespace.
pub(super) type OfNamespace = Arc<BTreeMap<ObjectKey, Arc<KnownClaim>>>;

/// A claim, and what an API server says of it.
#[derive(Debug)]
pub(super) struct KnownClaim {
    pub(super) seen: SeenClaim,
    /// None of one of another class.
    pub(super) object: Option<Value>,
}

impl ClusterClaims {
    /// Nothing is followed yet, until a lease asks.
    pub fn new(cluster: Cluster, opted_in: watch::Receiver<Known>) -> Self {
        Self { cluster, opted_in, followed: OnceLock::new() }
    }

    /// The claims, from now on.
    pub(super) fn known(&self) -> watch::Receiver<KnownClaims> {
        let begin = || {
            let (tell, known) = watch::channel(KnownClaims::default());
            let following = follow(self.cluster.clone(), self.opted_in.clone(), tell);
            (known, AbortOnDropHandle::new(tokio::spawn(following)))
        };
        self.followed.get_or_init(begin).0.clone()
    }
}

/// What one namespace's watch says, with the life that it is of.
type Said = (Life, Change<Value>);

async fn follow(
    cluster: Cluster,
    mut opted_in: watch::Receiver<Known>,
    tell: watch::Sender<KnownClaims>,
) {
    let mut lives: Vec<Life> = Vec::new();
    let mut streams: SelectAll<BoxStream<'static, Said>> = SelectAll::new();
    loop {
        let known = opted_in.borrow_and_update().clone();
        let now = known.map(|known| known.lives()).unwrap_or_default();
        if lives != now {
            for life in now.iter().filter(|life| !lives.contains(life)) {
                streams.push(of(&cluster, life));
            }
            let is_over = |namespace: &String| {
                let was = lives.iter().find(|life| life.namespace() == namespace);
                was.is_none_or(|life| !now.contains(life))
            };
            tell.send_if_modified(|all| {
                let over: Vec<_> = all.keys().filter(|it| is_over(it)).cloned().collect();
                over.iter().for_each(|namespace| drop(Arc::make_mut(all).remove(namespace)));
                !over.is_empty()
            });
            lives = now;
        }
        tokio::select! {
            Some((life, change)) = streams.next() => {
                if lives.contains(&life) {
                    tell.send_modify(|all| take(Arc::make_mut(all), life.namespace(), change));
                }
            }
            changed = opted_in.changed() => if changed.is_err() { return },
        }
    }
}

/// The watch ends with the life of the namespace.
fn of(cluster: &Cluster, life: &Life) -> BoxStream<'static, Said> {
    let claims = changes(cluster, CLAIM, Selection::within(life), |claim| claim);
    let life = life.clone();
    claims.map(move |change| (life.clone(), change)).boxed()
}

fn take(all: &mut BTreeMap<String, OfNamespace>, namespace: &str, change: Change<Value>) {
    match change {
        Change::Synced(claims) => {
            let claims = claims.into_iter().filter_map(read).collect();
            all.insert(namespace.to_owned(), Arc::new(claims));
        }
        Change::Changed(claim) => {
            let of_namespace = all.get_mut(namespace);
            if let (Some(claims), Some((key, claim))) = (of_namespace, read(claim)) {
                Arc::make_mut(claims).insert(key, claim);
            }
        }
        Change::Deleted(claim) => {
            let of_namespace = all.get_mut(namespace);
            if let (Some(claims), Some((key, _))) = (of_namespace, read(claim)) {
                Arc::make_mut(claims).remove(&key);
            }
        }
    }
}

fn read(claim: Value) -> Option<(ObjectKey, Arc<KnownClaim>)> {
    let seen = SeenClaim::read(&claim)?;
    let (key, object) = (seen.key.clone(), seen.is_ours.then_some(claim));
    Some((key, Arc::new(KnownClaim { seen, object })))
}
