//! What the kinds have in common: which objects there are, when they are looked at, and how what
//! comes of it is said.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::{BuyPolicy, SharePolicy};
use mercato_kubelet::crd::{self, Condition, EventType, Objects, Resource};
use mercato_kubelet::{Cluster, Failure, every};
use mercato_protocol::id::NegotiationId;
use tokio::sync::{broadcast, watch};

use super::ruling::Ruling;
use crate::admin::{Deal, OperatorApi, Problem};
use crate::driver::Handle;
use crate::limits;

/// Without them all else works.
pub(crate) const ABSENT: &str = "kubectl sees nothing of the market, only this command line does";
/// The command that installs the custom resources.
pub(crate) const INSTALL: &str = "kubectl apply -f config/deploy/crds.yaml";

/// What holds where no MarketPolicy says otherwise: the configuration file's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) share: Option<SharePolicy>,
    pub(crate) buy: Option<BuyPolicy>,
}

/// What serving takes; clones are the same.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) cluster: Cluster,
    /// All namespaces may leave home unless it is said otherwise.
    pub(super) offloads_all: bool,
    pub(super) driver: Handle,
    pub(super) api: Arc<dyn OperatorApi>,
    pub(super) defaults: Defaults,
    pub(super) ruling: Arc<watch::Sender<Ruling>>,
    /// Which Order a deal came of: `namespace/name`.
    pub(super) orders: Arc<Mutex<BTreeMap<NegotiationId, String>>>,
}

/// Looks at all objects of one kind, and does what they call for.
pub(super) trait Serve: Send {
    type Kind: Resource;

    /// The first list has come.
    fn serve<'a>(&'a mut self, objects: &'a mut Objects<Self::Kind>) -> BoxFuture<'a, ()>;
}

impl Service {
    /// Whether the cluster has the kinds now; an answer that failed tells nothing new.
    pub(super) async fn look(&self) -> bool {
        let absent = match crd::installed(&self.cluster).await {
            Ok(installed) => !installed,
            Err(failure) => {
                tracing::debug!(%failure, "it is not known whether there are custom resources");
                self.ruling.borrow().absent
            }
        };
        let changed = self
            .ruling
            .send_if_modified(|ruling| std::mem::replace(&mut ruling.absent, absent) != absent);
        if changed && absent {
            // Once for each time that they go.
            tracing::warn!("{ABSENT}: {INSTALL}");
        }
        !absent
    }

    /// Ends once they are gone.
    pub(super) async fn gone(&self) {
        while self.look().await {
            tokio::time::sleep(limits::INSTALLED_LOOK).await;
        }
        self.ruling.send_modify(Ruling::forget);
    }

    /// Has a kind looked at whenever an object or a deal changes, and every so often.
    pub(super) fn follow<S: Serve + 'static>(&self, mut serve: S) -> BoxFuture<'static, ()> {
        let mut objects = Objects::<S::Kind>::follow(self.cluster.clone());
        let mut told = self.driver.told();
        let mut looks = every(limits::RESOURCES_LOOK);
        async move {
            loop {
                tokio::select! {
                    () = objects.changed() => {}
                    heard = told.recv() => {
                        if matches!(heard, Err(broadcast::error::RecvError::Closed)) {
                            return;
                        }
                    }
                    _ = looks.tick() => {}
                }
                if objects.all().is_some() {
                    serve.serve(&mut objects).await;
                }
            }
        }
        .boxed()
    }

    /// Orders, requests and contracts, by their ids.
    pub(super) async fn deals(&self) -> Result<BTreeMap<NegotiationId, Deal>, Problem> {
        Ok(self.api.deals().await?.into_iter().map(|deal| (deal.id, deal)).collect())
    }

    /// Which Order a deal came of, `namespace/name`, to be read or changed.
    pub(super) fn orders(&self) -> MutexGuard<'_, BTreeMap<NegotiationId, String>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a Contract is called: as on the command line.
pub(super) fn contract_name(id: &NegotiationId) -> String {
    id.short()
}

/// Something that a person may want to hear of: how it is meant, a word, a sentence.
pub(super) type News = (EventType, String, String);

/// Says an object's status, and the news in an event. Whether that is said now, and not once the object
/// may be written to again.
pub(super) async fn say<K: Resource>(
    objects: &mut Objects<K>,
    object: &K,
    status: K::Status,
    news: Option<News>,
) -> Result<bool, Failure> {
    let is_said = objects.say(object, status).await?;
    if let Some((kind, word, sentence)) = news.filter(|_| is_said) {
        objects.event(object, kind, &word, &sentence).await?;
    }
    Ok(is_said)
}

/// The news that the Ready condition of an object is, if it says another word than before.
pub(super) fn news(kind: EventType, before: &[Condition], now: &[Condition]) -> Option<News> {
    let now = now.first()?;
    let same = before.first().is_some_and(|before| before.reason == now.reason);
    (!same).then(|| (kind, now.reason.clone(), now.message.clone()))
}
