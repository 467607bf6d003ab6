//! Writes of guest objects: forged here, from the bytes that came, and only
//! over what carries the contract's label and, for a pod, its uid. Each is
//! answered by one input.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::body::Found;
use mercato_offload::forge::labels::DIGEST;
use mercato_offload::forge::told::{DOMAIN_REFUSED, Note, changed_of_pod};
use mercato_offload::forge::{self, Content, FINALIZER, KnownGuest, Refusal};
use mercato_offload::guest::{Failure as GuestFailure, Input};
use mercato_offload::key::{Item, PodId};
use mercato_offload::placement::{self, IfAbsent, Ownership, Write};
use serde_json::{Value, json};

use super::edits::Undone;
use super::object;
use super::place::Place;
use super::pod::{self, failed};
use super::shared::{Asked, Shared};
use crate::apiserver::cluster::{Answer, Deletion};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::POD;
use crate::limits;
use crate::pace::Backoff;
use crate::warn_once;

pub(super) fn apply(
    shared: Arc<Shared>,
    item: Item,
    content: Content,
    if_absent: IfAbsent,
) -> BoxFuture<'static, ()> {
    async move {
        // One that changes too often takes no turn from the others while it waits, and neither does one
        // that somebody else changes.
        tokio::time::sleep(shared.edits.pause(&item)).await;
        if let Some(place) = Place::of(&shared, &item) {
            shared.cluster.turn(place.kind, place.ns(), &place.key.name).await;
        }
        // What takes much memory is written while nothing else is.
        let turns = if shared.bodies.is_small(&content.digest) { 1 } else { limits::WRITES };
        let turn = shared.turns.acquire_many(turns).await;
        let written = write(&shared, &item, &content, if_absent).await;
        drop(turn);
        let made = match written {
            Ok(made) => made,
            Err(failure) => return shared.tell(Input::NotWritten(item, failure)).await,
        };
        shared.failing().remove(&item);
        match (made, item) {
            (Made::Pod { guest, notes }, Item::Pod(pod)) => {
                tell_of_what_differs(&shared, &pod, &notes).await;
                let made = |guest: KnownGuest| Input::Created(pod.clone(), guest.uid);
                let written = || Input::Written(Item::Pod(pod.clone()));
                shared.tell(guest.map_or_else(written, made)).await;
            }
            (Made::Object(Some(undone)), item) => {
                shared.tell(Input::Written(item.clone())).await;
                object::tell_of_put_back(&shared, &item, undone).await;
            }
            (_, item) => shared.tell(Input::Written(item)).await,
        }
    }
    .boxed()
}

/// Home's spec stays as it is: its owner is told once what it comes to over here.
async fn tell_of_what_differs(shared: &Shared, pod: &PodId, notes: &[Note]) {
    for note in notes {
        if note.reason == DOMAIN_REFUSED {
            let (contract, message) = (shared.context().contract, note.text());
            // Once for each lease.
            shared.domain_refused.call_once(|| tracing::warn!(%contract, "{message}"));
        }
        shared.tell(Input::Event(pod.clone(), note.event())).await;
    }
}

/// What a write came to.
#[derive(Debug, PartialEq, Eq)]
enum Made {
    /// The pod was made, and is known from now on, with what of it is not as at home.
    Pod { guest: Option<KnownGuest>, notes: Vec<Note> },
    /// Another object is as it is wanted; what somebody had done to it before.
    Object(Option<Undone>),
    /// The pod that runs was changed.
    Changed,
}

async fn write(
    shared: &Shared,
    item: &Item,
    content: &Content,
    if_absent: IfAbsent,
) -> Result<Made, GuestFailure> {
    let body = match shared.bodies.object(&content.digest) {
        Found::Here(body) => body,
        Found::Refused(refusal) => return Err(GuestFailure::Refused(refusal)),
        Found::Missing => return Err(GuestFailure::MissingBody),
    };
    let forged = forge::forge(item, &body, content, &shared.context());
    let forged = forged.map_err(GuestFailure::Refused)?;
    if let Some(refusal) = shared.is_dropped(&forged) {
        return Err(GuestFailure::Refused(refusal));
    }
    if if_absent == IfAbsent::Create && forge::is_unkept(item, &forged) {
        return Err(GuestFailure::Unrecorded);
    }
    let place = Place::of(shared, item)
        .ok_or_else(|| refused("metadata.namespace", "is not part of the lease"))?;
    let look = async || place.get(shared).await.map_err(failed);
    let known = match item {
        // Hardly ever is it there: made earlier, without our knowing.
        Item::Pod(_) if if_absent != IfAbsent::Leave => None,
        Item::Pod(_) | Item::Object(_) => look().await?,
    };
    let found;
    let present = match admit(shared, item, &forged, known.as_ref(), if_absent)? {
        Write::Change(present) => present,
        Write::Create => {
            let failure = match create(shared, item, &place, &forged).await {
                Ok(made) => return Ok(note_made(shared, item, &body, &forged, &made).await),
                Err(failure) => failure,
            };
            shared.count(|capacity| capacity.release(item));
            // Nothing that is said afterwards says that it was not made.
            let is_unsure = failure == GuestFailure::Unanswered;
            let less = |said| if is_unsure { GuestFailure::Unanswered } else { said };
            found = look().await.map_err(less)?.ok_or(failure.clone())?;
            let write = admit(shared, item, &forged, Some(&found), if_absent).map_err(less)?;
            let Write::Change(present) = write else { return Err(failure) };
            // It was made just now, without an answer, unless of another content.
            if present["metadata"]["annotations"][DIGEST] == content.digest.to_string() {
                shared.guests().note(item, present);
                compare(shared, item, &forged, present).await;
            }
            present
        }
    };
    let undone = shared.is_edited(item, present).then(|| Undone::edit(present, &forged));
    let changed = match change(shared, item, &place, forged, present).await {
        Ok(changed) => changed,
        Err(failure) => {
            // It is there, and was not made for nothing.
            if if_absent == IfAbsent::Make {
                return Err(GuestFailure::Unanswered);
            }
            // Otherwise it may have been done all the same, and is tried again.
            if let GuestFailure::Refused(_) = failure {
                shared.count(|capacity| capacity.settle(item, present));
            }
            return Err(failure);
        }
    };
    shared.count(|capacity| capacity.settle(item, &changed));
    if let Item::Pod(_) = item {
        return Ok(Made::Changed);
    }
    shared.guests().note_made(item, &changed);
    if undone.is_some() {
        shared.edits.on_rewritten(item);
    }
    Ok(Made::Object(undone))
}

/// Takes note of what was made, and says what of it is not as it was asked for.
async fn note_made(
    shared: &Shared,
    item: &Item,
    body: &Value,
    forged: &Value,
    made: &Value,
) -> Made {
    shared.count(|capacity| capacity.settle(item, made));
    shared.guests().note(item, made);
    shared.guests().note_made(item, made);
    compare(shared, item, forged, made).await;
    if let Item::Object(_) = item {
        return Made::Object(shared.edits.on_made(item));
    }
    let notes = changed_of_pod(body, forged, made, &shared.context());
    Made::Pod { guest: KnownGuest::of(made), notes }
}

/// A pod that was made and has lost what bounds or isolates it is ended: the session hears of it as it
/// was stored.
async fn compare(shared: &Shared, item: &Item, forged: &Value, stored: &Value) {
    let Item::Pod(pod) = item else { return };
    let Some(lost) = forge::lost(forged, stored) else { return };
    shared.note_loss(pod, lost);
    if let Some(observed) = shared.observe(stored) {
        shared.tell(Input::Observed(observed)).await;
    }
}

/// Decides what is done where `present` stands. Who waits for another of its name is told so.
fn admit<'a>(
    shared: &Shared,
    item: &Item,
    forged: &Value,
    present: Option<&'a Value>,
    if_absent: IfAbsent,
) -> Result<Write<'a>, GuestFailure> {
    let (context, known) = (shared.context(), shared.guests());
    let is_earlier = |present| Ownership::of(&context, &known, item, present) == Ownership::Earlier;
    if present.is_some_and(is_earlier) {
        shared.tell_of_earlier(item);
    }
    let write = placement::decide(&context, &known, item, present, if_absent)?;
    shared.claim(item, forged, write)?;
    Ok(write)
}

async fn create(
    shared: &Shared,
    item: &Item,
    place: &Place,
    forged: &Value,
) -> Result<Value, GuestFailure> {
    match item {
        Item::Pod(_) => pod::create(&shared.cluster, &place.key.namespace, forged).await,
        Item::Object(_) => {
            let made = shared.cluster.create(place.kind, place.ns(), forged.clone()).await;
            made.map_err(failed)
        }
    }
}

async fn change(
    shared: &Shared,
    item: &Item,
    place: &Place,
    forged: Value,
    present: &Value,
) -> Result<Value, GuestFailure> {
    match item {
        Item::Pod(pod) => {
            let gate = shared.guests().guest(pod).and_then(|known| known.gate.clone());
            let (cluster, namespace) = (&shared.cluster, &place.key.namespace);
            pod::update(cluster, namespace, &forged, present, gate.as_deref()).await
        }
        Item::Object(_) => {
            let (cluster, namespace) = (&shared.cluster, &place.key.namespace);
            // It may be deleted for that, by us.
            shared.edits.set_removing(item, true);
            let written = object::replace(cluster, place.kind, namespace, forged, present).await;
            if !matches!(written, Ok(None)) {
                shared.edits.set_removing(item, false);
            }
            written.map_err(failed)?.ok_or(GuestFailure::Transient)
        }
    }
}

pub(super) fn delete(
    shared: Arc<Shared>,
    item: Item,
    grace_s: Option<u32>,
) -> BoxFuture<'static, ()> {
    async move {
        shared.edits.set_removing(&item, true);
        let done = on_ours(&shared, &item, |place, KnownGuest { uid, grace_s: own_s, .. }| {
            let longest_s = shared.context().longest_grace_s;
            let grace = placement::deletion_grace_s(grace_s, own_s, longest_s);
            let how = Deletion { uid: Some(uid.as_str().to_owned()), grace };
            shared.cluster.delete(place.kind, place.ns(), &place.key.name, how)
        });
        let done = done.await;
        if !matches!(done, Ok(true)) {
            shared.edits.set_removing(&item, false);
        }
        shared.tell(answer(&shared, item, done)).await;
    }
    .boxed()
}

pub(super) fn release(shared: Arc<Shared>, pod: PodId) -> BoxFuture<'static, ()> {
    async move {
        let item = Item::Pod(pod);
        let done = on_ours(&shared, &item, |place, KnownGuest { uid, .. }| {
            let patch = release_patch(uid.as_str());
            let released = shared.cluster.strategic(POD, place.ns(), &place.key.name, None, patch);
            let is_there = |released: Result<Value, Failure>| match released {
                Ok(_) => Ok(true),
                Err(failure) if failure.class == Class::Missing => Ok(false),
                Err(failure) => Err(failure),
            };
            released.map(is_there).boxed()
        });
        let done = done.await;
        shared.tell(answer(&shared, item, done)).await;
    }
    .boxed()
}

/// Takes our finalizer off the pod of this uid, whatever else is written to the pod meanwhile.
pub(crate) fn release_patch(uid: &str) -> Value {
    json!({ "metadata": {
        "uid": uid,
        "$deleteFromPrimitiveList/finalizers": [FINALIZER],
    } })
}

/// Asks for the object until there is an answer, which may be older than what its watch has told.
pub(super) fn confirm(
    shared: Arc<Shared>,
    item: Item,
    since: Option<u64>,
) -> BoxFuture<'static, ()> {
    async move {
        let mut backoff = Backoff::new(limits::CONFIRM_RETRY, limits::CONFIRM_RETRY_MAX);
        loop {
            let Some(place) = Place::of(&shared, &item) else {
                return shared.tell(Input::Gone(item)).await;
            };
            let turn = shared.turns.acquire().await;
            let found = place.get(&shared).await;
            drop(turn);
            match found {
                // It is told of by whoever follows the watch, who knows what that has told since.
                Ok(found) => {
                    let object = found.filter(|found| shared.is(&item, found));
                    let Place { kind, key } = place;
                    let found = Asked { item, kind, guest: key.namespace, object, since };
                    let _ = shared.asked.send(found).await;
                    return;
                }
                Err(failure) => tracing::debug!(%failure, key = %item.key(), "not confirmed yet"),
            }
            tokio::select! {
                () = shared.stop.cancelled() => return,
                () = backoff.wait() => {}
            }
        }
    }
    .boxed()
}

/// Does something to the object if it is there and ours; false if it is not. A pod that the API
/// server has told of is not asked for once more: what is done names its uid.
async fn on_ours(
    shared: &Shared,
    item: &Item,
    act: impl Fn(&Place, KnownGuest) -> Answer<bool>,
) -> Result<bool, Failure> {
    let Some(place) = Place::of(shared, item) else { return Ok(false) };
    let _turn = shared.turns.acquire().await;
    let known = match item {
        Item::Pod(pod) => shared.guests().guest(pod).cloned(),
        Item::Object(_) => None,
    };
    if let Some(guest) = known {
        match act(&place, guest).await {
            // Another may have its name by now.
            Err(failure) if failure.class == Class::Conflict => {}
            done => return done,
        }
    }
    let present = place.get(shared).await?;
    let owned = {
        let known = shared.guests();
        placement::owned(&shared.context(), &known, item, present.as_ref())
    };
    match owned.and_then(KnownGuest::of) {
        Some(guest) => act(&place, guest).await,
        None => Ok(false),
    }
}

fn answer(shared: &Shared, item: Item, done: Result<bool, Failure>) -> Input {
    match done {
        Ok(there) => {
            shared.failing().remove(&item);
            match there {
                true => Input::Written(item),
                false => Input::NotWritten(item, GuestFailure::Absent),
            }
        }
        Err(failure) => {
            let mut failing = shared.failing();
            let repeated = failing.entry(item.clone()).or_default();
            warn_once!(repeated, failure; key = %item.key(), "a write of a guest object failed");
            Input::NotWritten(item, GuestFailure::Transient)
        }
    }
}

fn refused(path: &str, reason: &str) -> GuestFailure {
    GuestFailure::Refused(Refusal { path: path.into(), reason: reason.into() })
}
