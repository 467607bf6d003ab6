//! Writes to home pods: each with the uid that is meant, each answered by one
//! input, whatever becomes of it.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::address::Reach;
use mercato_offload::body::Found;
use mercato_offload::forge::told::Note;
use mercato_offload::forge::{self, Refusal, StatusContext};
use mercato_offload::home::{Input, Write};
use mercato_offload::key::{ObjectKey, ObjectKind, PodId};
use mercato_offload::message::EventKind;
use mercato_offload::placement::export::{
    REFUSED, STANDS_IN, refusal_text, refused_status, stand_in_status,
};
use serde_json::{Value, json};

use super::pods::Seen;
use super::shared::Shared;
use super::status_patch::status_patch;
use crate::apiserver::cluster::Deletion;
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::POD;
use crate::format::clock;
use crate::kubelet_api::NodePods;
use crate::limits;
use crate::pace::Backoff;

pub(super) fn perform(shared: Arc<Shared>, pod: PodId, write: Write) -> BoxFuture<'static, ()> {
    async move {
        let uid = pod.uid.clone();
        if !matches!(write, Write::FinishDeletion) {
            // One that changes too often takes no turn from the others while it waits.
            shared.cluster.turn(POD, Some(&pod.namespace), &pod.name).await;
        }
        let turn = shared.turns.acquire().await;
        let is_lost = goes_out_of_reach(&shared, &pod, &write);
        let done = match &write {
            Write::Status { status, outcome, reach, resize } => {
                let guest = match status.map(|digest| shared.bodies.object(&digest)) {
                    None => Value::Null,
                    Some(Found::Here(guest)) => guest,
                    // Those bytes are not here: they are asked for again.
                    Some(Found::Missing) => {
                        drop(turn);
                        return shared.tell(Input::NotWritten { uid, missing: true }).await;
                    }
                    // To ask for them is in vain: the pod stays as it is until another status comes.
                    Some(Found::Refused(refusal)) => {
                        drop(turn);
                        object_refused(shared.clone(), pod.key(), refusal).await;
                        return shared.tell(Input::Written(uid)).await;
                    }
                };
                let host_ip = Some(shared.config.host_ip.to_string());
                let (resize, now) = (resize.clone(), clock::now());
                let context = StatusContext { host_ip, reach: *reach, resize, now };
                let status = |home: &Value| {
                    Some(forge::home_status(&guest, home, outcome.as_ref(), &context))
                };
                write_status(&shared, &pod, status).await
            }
            Write::Refusal(refusal) => refuse(&shared, &pod, refusal).await,
            Write::StandIn(refusal) => stand_in(&shared, &pod, refusal).await,
            Write::FinishDeletion => finish(&shared, &pod).await,
        };
        drop(turn);
        match done {
            Ok(true) => {
                shared.pods.succeeded(&uid);
                shared.tell(Input::Written(uid)).await;
                // Statuses do not wait for it.
                if is_lost {
                    unreachable(&shared, &pod).await;
                }
            }
            Ok(false) => shared.tell(Input::PodMissing(uid)).await,
            Err(failure) => {
                if shared.pods.failed(&uid, &failure) {
                    // Once for each reason.
                    tracing::warn!(%failure, pod = %pod.key(), "a write to a home pod failed");
                } else {
                    tracing::debug!(%failure, pod = %pod.key(), "a write to a home pod failed again");
                }
                shared.tell(Input::NotWritten { uid, missing: false }).await;
            }
        }
    }
    .boxed()
}

/// Asks for the pod until there is an answer.
pub(super) fn confirm(shared: Arc<Shared>, pod: PodId) -> BoxFuture<'static, ()> {
    async move {
        let mut backoff = Backoff::new(limits::CONFIRM_RETRY, limits::CONFIRM_RETRY_MAX);
        loop {
            let turn = shared.turns.acquire().await;
            let found = present(&shared, &pod).await;
            drop(turn);
            match found {
                // It is told of with all that goes with it by whoever follows the pods.
                Ok(Some(found)) => {
                    if let Some(seen) = Seen::read(&found) {
                        let _ = shared.asked.send(seen).await;
                    }
                    return;
                }
                Ok(None) => return shared.tell(Input::PodMissing(pod.uid)).await,
                Err(failure) => tracing::debug!(%failure, pod = %pod.key(), "not confirmed yet"),
            }
            tokio::select! {
                () = shared.stop.cancelled() => return,
                () = backoff.wait() => {}
            }
        }
    }
    .boxed()
}

/// Asks for the end of a pod, with its own grace, until the API server has taken that or the pod
/// ends anyway. `None` where that was begun before: a pod is asked once.
pub(super) fn end(shared: &Arc<Shared>, id: &PodId) -> Option<BoxFuture<'static, ()>> {
    if !shared.pods.begin_end(&id.uid) {
        return None;
    }
    let (shared, id) = (shared.clone(), id.clone());
    let asking = async move {
        let mut backoff = Backoff::new(limits::END_RETRY, limits::END_RETRY_MAX);
        while !shared.pods.ends(&id.uid) {
            let turn = shared.turns.acquire().await;
            let how = Deletion { uid: Some(id.uid.0.clone()), grace: None };
            let ended = shared.cluster.delete(POD, Some(&id.namespace), &id.name, how).await;
            drop(turn);
            let Err(failure) = ended else { return };
            if shared.pods.failed(&id.uid, &failure) {
                // Once for each reason.
                tracing::warn!(%failure, pod = %id.key(), "a pod could not be asked to end");
            } else {
                tracing::debug!(%failure, pod = %id.key(), "a pod could not be asked to end again");
            }
            tokio::select! {
                () = shared.stop.cancelled() => return,
                () = backoff.wait() => {}
            }
        }
    };
    Some(asking.boxed())
}

/// What an event on the object is about.
fn about(shared: &Shared, key: &ObjectKey) -> About {
    let uid = (key.kind == ObjectKind::Pod).then(|| shared.pods.uid(&key.namespace, &key.name));
    About::core(&format!("{:?}", key.kind), &key.namespace, &key.name, uid.flatten())
}

/// An event on the object of each note, for its owner. What was told before is not told again.
pub(super) fn told(
    shared: Arc<Shared>,
    key: ObjectKey,
    notes: Vec<Note>,
) -> BoxFuture<'static, ()> {
    async move {
        for note in notes {
            let text = note.text();
            if !shared.events.has_one(Instant::now()) {
                tracing::debug!(%key, text, "one event too many");
                continue;
            }
            let kind = match note.kind {
                EventKind::Normal => EventType::Normal,
                EventKind::Warning => EventType::Warning,
            };
            let about = about(&shared, &key);
            let written = events::write_once(&shared.cluster, about, kind, note.reason, &text);
            if let Err(failure) = written.await {
                // Once for each note.
                tracing::warn!(%failure, "an event could not be written");
            }
        }
    }
    .boxed()
}

/// An event on the object, for its owner.
pub(super) fn object_refused(
    shared: Arc<Shared>,
    key: ObjectKey,
    refusal: Refusal,
) -> BoxFuture<'static, ()> {
    async move {
        let about = about(&shared, &key);
        if let Err(failure) = warn(&shared, about, &refusal_text(&refusal)).await {
            // Once for each refusal.
            tracing::warn!(%failure, "an event could not be written");
        }
    }
    .boxed()
}

/// The pod of that name and uid, if it is still there, and on this node: the provider may
/// name any, and would be sent what it names.
async fn present(shared: &Shared, pod: &PodId) -> Result<Option<Value>, Failure> {
    let found = shared.cluster.get(POD, Some(&pod.namespace), &pod.name).await?;
    let meant = |found: &Value| {
        found["metadata"]["uid"] == pod.uid.0 && found["spec"]["nodeName"] == shared.config.node
    };
    Ok(found.filter(meant))
}

/// True if written, or if there is nothing to write; false if there is no such pod any more.
async fn write_status(
    shared: &Shared,
    pod: &PodId,
    status: impl Fn(&Value) -> Option<Value>,
) -> Result<bool, Failure> {
    let known = match shared.pods.get(&pod.uid) {
        Some(known) => known.open(),
        None => match present(shared, pod).await? {
            Some(found) => found,
            None => return Ok(false),
        },
    };
    let said = status(&known);
    let Some(status) = said.and_then(|said| status_patch(&said, &known["status"])) else {
        return Ok(true);
    };
    let patch = json!({ "metadata": { "uid": pod.uid }, "status": status });
    let ns = Some(pod.namespace.as_str());
    shared.pods.begin_write(&pod.uid);
    let written = shared.cluster.strategic(POD, ns, &pod.name, Some("status"), patch).await;
    match written {
        Ok(fresh) => {
            // Before the watch tells of it, so that the next write builds on this one.
            shared.pods.refresh(fresh);
            Ok(true)
        }
        Err(failure) if failure.class == Class::Missing => Ok(false),
        // To a pod of another uid it says that a uid cannot change.
        Err(failure) if matches!(failure.class, Class::Conflict | Class::Refused) => {
            match present(shared, pod).await? {
                Some(_) => Err(failure),
                None => Ok(false),
            }
        }
        Err(failure) => Err(failure),
    }
}

/// Whether this is what says first of a pod that runs that its provider is out of reach.
fn goes_out_of_reach(shared: &Shared, pod: &PodId, write: &Write) -> bool {
    let is_reached = || shared.pods.get(&pod.uid).is_some_and(|it| forge::is_reached(&it.open()));
    matches!(write, Write::Status { reach: Reach::Lost { .. }, .. }) && is_reached()
}

/// An event, each time that the pod's provider goes out of reach.
async fn unreachable(shared: &Shared, pod: &PodId) {
    if !shared.events.has_one(Instant::now()) {
        tracing::debug!(pod = %pod.key(), "one event too many");
        return;
    }
    let about = About::core(POD.kind, &pod.namespace, &pod.name, Some(pod.uid.0.clone()));
    let message = format!(
        "the cluster behind node {} is not reached: the pod is not ready, and is not replaced; nobody \
         knows how it is until that cluster is back. Which daemon or tunnel is away: mercato status",
        shared.config.node
    );
    let kind = EventType::Warning;
    let told = events::write(&shared.cluster, about, kind, forge::UNREACHABLE, &message);
    if let Err(failure) = told.await {
        tracing::debug!(%failure, pod = %pod.key(), "an event is lost");
    }
}

/// The pod's status says so, unless it has started, and an event.
async fn refuse(shared: &Shared, pod: &PodId, refusal: &Refusal) -> Result<bool, Failure> {
    let message = refusal_text(refusal);
    let written = write_status(shared, pod, |home| refused_status(home, &message)).await?;
    if written {
        let about = About::core(POD.kind, &pod.namespace, &pod.name, Some(pod.uid.0.clone()));
        match warn(shared, about, &message).await {
            // In a namespace that is being deleted there are no new events.
            Err(failure) if failure.class != Class::Refused => return Err(failure),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(written)
}

/// The pod's status says that it runs, and why nothing of it does; and an event, once.
async fn stand_in(shared: &Shared, pod: &PodId, refusal: &Refusal) -> Result<bool, Failure> {
    let (message, now) = (refusal_text(refusal), clock::now());
    let host_ip = shared.config.host_ip.to_string();
    let status = |home: &Value| Some(stand_in_status(home, Some(&host_ip), &message, &now));
    let written = write_status(shared, pod, status).await?;
    if written && shared.events.has_one(Instant::now()) {
        let about = About::core(POD.kind, &pod.namespace, &pod.name, Some(pod.uid.0.clone()));
        let (cluster, kind) = (&shared.cluster, EventType::Warning);
        match events::write_once(cluster, about, kind, STANDS_IN, &message).await {
            Err(failure) if failure.class != Class::Refused => return Err(failure),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(written)
}

/// An event, as long as there are not too many of them: a provider may refuse what it
/// likes as often as it likes.
async fn warn(shared: &Shared, about: About, message: &str) -> Result<(), Failure> {
    if !shared.events.has_one(Instant::now()) {
        tracing::debug!(name = about.name, message, "one event too many");
        return Ok(());
    }
    events::write(&shared.cluster, about, EventType::Warning, REFUSED, message).await
}

async fn finish(shared: &Shared, pod: &PodId) -> Result<bool, Failure> {
    let how = Deletion { uid: Some(pod.uid.0.clone()), grace: Some(0) };
    shared.cluster.delete(POD, Some(&pod.namespace), &pod.name, how).await
}
