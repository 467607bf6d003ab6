//! What the provider's kubelets say of this node's pods, written as events: one at a time,
//! so that statuses do not wait for them, and so many a second.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::key::PodId;
use mercato_offload::message::PodEvent;
use tokio::sync::mpsc;

use super::shared::Shared;
use crate::apiserver::events;
use crate::bucket::Bucket;
use crate::limits;

pub(super) fn write_all(
    shared: Arc<Shared>,
    mut told: mpsc::Receiver<(PodId, PodEvent)>,
) -> BoxFuture<'static, ()> {
    async move {
        let (size, each_second) = (limits::GUEST_EVENTS, limits::GUEST_EVENTS_EACH_S);
        let bucket = Bucket::new(Instant::now(), size, each_second);
        while let Some((pod, event)) = told.recv().await {
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
