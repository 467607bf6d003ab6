//! What the provider's kubelets say of this node's pods, written as events: one at a time,
//! so that statuses do not wait for them, and so many a second. That a guest finds no name of a namespace
//! which is not open, the provider says too; what of that is told, and how, is home's to know.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::forge::told::Note;
use mercato_offload::key::PodId;
use mercato_offload::message::PodEvent;
use mercato_offload::placement::export::{
    LeaseNode, SoughtService, Standing, ToldUnopened, standing,
};
use tokio::sync::mpsc;

use super::shared::{HomeConfig, Shared};
use super::write;
use crate::apiserver::events;
use crate::apiserver::kind::NAMESPACE;
use crate::bucket::Bucket;
use crate::limits;
use crate::offload_namespace::OptedIn;

pub(super) fn write_all(
    shared: Arc<Shared>,
    mut told: mpsc::Receiver<(PodId, PodEvent)>,
) -> BoxFuture<'static, ()> {
    async move {
        let (size, each_second) = (limits::GUEST_EVENTS, limits::GUEST_EVENTS_EACH_S);
        let bucket = Bucket::new(Instant::now(), size, each_second);
        let (began, mut known) = (Instant::now(), ToldUnopened::default());
        while let Some((pod, event)) = told.recv().await {
            if let Some(sought) = SoughtService::of(&event) {
                let now_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                if let Some(note) = unopened(&shared, &pod, &sought, &mut known, now_ms).await {
                    write::told(shared.clone(), pod.key(), vec![note]).await;
                }
                continue;
            }
            if !bucket.has_one(Instant::now()) {
                tracing::debug!(pod = %pod.key(), reason = event.reason, "one event too many");
                continue;
            }
            let node = &shared.config.node;
            if let Err(failure) = events::reflect(&shared.cluster, node, &pod, &event).await {
                tracing::debug!(%failure, pod = %pod.key(), "an event is lost");
            }
        }
    }
    .boxed()
}

/// What the owner of a pod hears that has not found a Service, by what is so at home; none: it is nothing new, or
/// nobody can open it.
async fn unopened(
    shared: &Shared,
    pod: &PodId,
    sought: &SoughtService,
    known: &mut ToldUnopened,
    now_ms: u64,
) -> Option<Note> {
    let consent = shared.opted_in.borrow().as_deref().map(OptedIn::consent)?;
    let pods = shared.pods.all();
    let guests = pods.iter().map(|seen| seen.id.namespace.as_str()).collect();
    let HomeConfig { node: name, contract, provider, .. } = &shared.config;
    let node = LeaseNode { name, contract, provider };
    let (note, may_be_absent) = match standing(&consent, sought, node, &guests, &pod.namespace) {
        Standing::Settled => return None,
        Standing::Closed(note) => (note, false),
        Standing::AtHome => (sought.at_home(), true),
    };
    let is_news = known.is_news(pod, &note, now_ms);
    if !is_news || may_be_absent && !is_there(shared, &sought.namespace, known, now_ms).await {
        return None;
    }
    known.tell(pod, &note, now_ms);
    Some(note)
}

/// Whether home has a namespace. Most that are asked for are ends of names of the Internet, which guests try
/// with the domains of home.
async fn is_there(shared: &Shared, name: &str, known: &mut ToldUnopened, now_ms: u64) -> bool {
    if !known.may_be_there(name, now_ms) {
        return false;
    }
    match shared.cluster.get(NAMESPACE, None, name).await {
        Ok(Some(_)) => true,
        Ok(None) => {
            known.is_absent(name, now_ms);
            false
        }
        Err(failure) => {
            tracing::debug!(%failure, name, "whether there is such a namespace is not known");
            false
        }
    }
}
