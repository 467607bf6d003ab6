//! Workload frames and their bodies, from the streams of a lease to the agent.

pub(crate) mod allowance;
pub(in crate::driver) mod outbound;
pub(in crate::driver) mod stuck;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mercato_agent::{Frame, Input, LeaseInput};
use mercato_kubelet::Bodies;
use mercato_net::{Held, WorkloadReceiver};
use mercato_offload::key::Item;
use mercato_offload::message::ToGuest;
use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::id::{Digest, PublicKey};
use mercato_protocol::workload::{Message, Open};

use super::{Driver, Handle};
use crate::limits;
use crate::telemetry::Way;
use allowance::{Allowance, Turn};
use outbound::{WORKLOAD, is_ack, to_guest, to_home};

/// The peer's direction of a lease, until it ends or breaks the rules.
pub(super) async fn receive_all(
    handle: Handle,
    peer: PublicKey,
    header: Bytes,
    held: Held,
    mut frames: WorkloadReceiver,
) {
    let Ok(open) = Open::from_bytes(&header) else { return };
    let contract = open.contract;
    let Some((bodies, allowance, mut turn)) = expected(&handle, peer, open).await else {
        return tracing::debug!("a workload stream without a lease");
    };
    drop((header, held));
    let receiving = async {
        tokio::time::sleep(allowance.debt(Instant::now())).await;
        loop {
            let frame = match frames.recv().await {
                Ok(Some(frame)) => frame,
                Ok(None) => return,
                Err(error) => return tracing::debug!(%error, "a workload stream broke"),
            };
            handle.metrics().message(Way::In, WORKLOAD, frame.header.len() + frame.body.len());
            let Taken { said, length, malformed } = match taken(&frame, &bodies, open.acks) {
                Ok(taken) => taken,
                Err(error) => {
                    // Once for each stream, which ends with it.
                    tracing::warn!(%error, "a workload message that is none");
                    if allowance.note_untaken(Digest::of(&frame.header), error.to_string()) {
                        let says = move |driver: &Driver| stuck::receiver(driver, &contract);
                        if let Ok(Some(event)) = handle.look(says).await {
                            handle.say(event);
                        }
                    }
                    let wait = allowance.breach(Instant::now()).unwrap_or(limits::LEASE_DEBT);
                    return tokio::time::sleep(wait).await;
                }
            };
            if statements(&said) > 0 {
                allowance.note_taken();
            }
            let breaches = (0..malformed).map(|_| allowance.breach(Instant::now()));
            let frame = allowance.frame(Instant::now(), statements(&said), length);
            let wait = match breaches
                .chain([frame])
                .try_fold(Duration::ZERO, |longest, wait| wait.map(|wait| longest.max(wait)))
            {
                Ok(wait) => wait,
                Err(too_much) => return tracing::debug!(%too_much, "a workload stream ends"),
            };
            handle.tell(Input::Lease(contract, LeaseInput::Frame { peer, frame: said })).await;
            tokio::time::sleep(wait).await;
        }
    };
    tokio::select! { () = receiving => {} () = turn.over() => {} }
}

/// The bodies' place, what the peer may, and its stream's turn, if there is such a lease
/// with it. The peer may know of it a moment before we do, if both are about to sign. It may still
/// speak of one that is over here, and is not listened to.
async fn expected(
    handle: &Handle,
    peer: PublicKey,
    Open { contract, acks, refuses_bodies }: Open,
) -> Option<(Bodies, Arc<Allowance>, Turn)> {
    let known = move |driver: &Driver| {
        let deal = driver.agent().broker().deal(&contract.into());
        let deal = deal.filter(|deal| deal.peer_key() == peer);
        let begins = deal.is_some_and(|deal| deal.is_signed_once() || deal.is_leased());
        let lease = driver.lease(&contract).filter(|lease| lease.peer() == peer);
        let lease =
            lease.map(|lease| (lease.bodies(), lease.allowance(), lease.allowance().open(acks)));
        (lease.is_some() || !begins).then_some(lease)
    };
    let lease = handle.look_until(limits::LEASE_WAIT, known).await.flatten();
    lease.inspect(|(bodies, ..)| bodies.set_peer_refuses(refuses_bodies))
}

/// A message, and the bodies that it names kept, or why one is not taken: the session refuses that
/// one alone. Of what was refused there
/// never was anything that could be seen to go: home's word is all there is.
fn taken(frame: &mercato_net::Frame, bodies: &Bodies, acks: bool) -> Result<Taken, Untaken> {
    let message = Message::from_bytes(&frame.header)?;
    let length = message.bodies().iter().map(|body| body.length as usize).sum();
    let came = message.split_bodies(&frame.body)?;
    let said = match message {
        Message::ToGuest { frame, .. } => Frame::ToGuest(frame),
        Message::ToHome { frame, .. } => Frame::ToHome(frame),
    };
    let named = match &said {
        Frame::ToGuest(frame) => by_digest(frame.statements.iter().filter_map(to_guest)),
        Frame::ToHome(frame) => by_digest(frame.statements.iter().filter_map(to_home)),
    };
    let malformed = bodies.receive(said.way(), came.values().map(|body| &**body), &named);
    if let Frame::ToGuest(frame) = &said {
        frame.statements.iter().filter_map(forgotten).for_each(|item| bodies.forget(&item));
    }
    if acks && !(is_ack(&said) && length == 0) {
        return Err(Untaken::NoAck);
    }
    Ok(Taken { said, length, malformed })
}

/// A message that was taken.
struct Taken {
    said: Frame,
    /// How long its bodies are together.
    length: usize,
    /// How many of them were no JSON.
    malformed: usize,
}

/// What home wants no more.
fn forgotten(statement: &ToGuest) -> Option<Item> {
    match statement {
        ToGuest::Forget(pod) => Some(Item::Pod(pod.clone())),
        ToGuest::Drop(key) | ToGuest::Discard(key) => Some(Item::Object(key.clone())),
        ToGuest::Put { .. }
        | ToGuest::Delete { .. }
        | ToGuest::Want(_)
        | ToGuest::Taken(_)
        | ToGuest::Address { .. } => None,
    }
}

fn by_digest(named: impl Iterator<Item = (Digest, Item)>) -> BTreeMap<Digest, Vec<Item>> {
    let mut by_digest = BTreeMap::<_, Vec<_>>::new();
    named.for_each(|(digest, item)| by_digest.entry(digest).or_default().push(item));
    by_digest
}

/// Why what came is no message.
#[derive(Debug, thiserror::Error)]
enum Untaken {
    #[error(transparent)]
    Message(#[from] CodecError),
    #[error("a statement on the stream for acknowledgements")]
    NoAck,
}

fn statements(frame: &Frame) -> usize {
    match frame {
        Frame::ToGuest(frame) => frame.statements.len(),
        Frame::ToHome(frame) => frame.statements.len(),
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::body::{Found, Way};
    use mercato_offload::key::{ObjectKind, PodId, Uid, key};
    use mercato_offload::{forge, home};
    use mercato_protocol::id::ClusterId;
    use mercato_protocol::workload::{BodyHead, Route};
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::outbound::{Framed, Outbound, framed};
    use super::*;

    const STATEMENT: usize = 60_000;

    fn pod(name: &str) -> PodId {
        let name = name.to_owned();
        PodId { uid: Uid(name.clone()), namespace: "shop".to_owned(), name }
    }

    /// What home sends with its objects: one of `pod`'s that differs by `n`.
    fn put(home: &Bodies, pod: &PodId, n: usize) -> (Digest, ToGuest) {
        let item = Item::Pod(pod.clone());
        let object = json!({ "kind": "Pod", "n": n, "fill": "x".repeat(STATEMENT) });
        let digest = home.keep(Way::ToGuest, &item, &object).unwrap();
        let origin = ClusterId([1; 32]);
        let route = Route { origin, path: vec![origin], hops: 1 };
        (digest, ToGuest::Put { item, digest, route, place: None })
    }

    /// Home says this, and the provider takes it.
    fn said(home: &Bodies, provider: &Bodies, statement: ToGuest) {
        let statements = vec![statement];
        let frame = mercato_offload::message::Frame {
            from: 1,
            to: 1,
            seq: 1,
            ack: 0,
            answer: true,
            statements,
        };
        taken(&framed(Frame::ToGuest(frame), home).unwrap().framed, provider, false).unwrap();
    }

    fn frame(answer: bool, statements: Vec<ToGuest>) -> Frame {
        let (from, to, seq, ack) = (1, 1, u64::from(answer), 0);
        Frame::ToGuest(mercato_offload::message::Frame { from, to, seq, ack, answer, statements })
    }

    #[tokio::test]
    async fn acknowledgements_wait_behind_no_body() {
        let (home, provider) = (Bodies::default(), Bodies::default());
        let (frames, mut said) = mpsc::channel(limits::FRAMES);
        let (acks, mut acked) = mpsc::channel(limits::FRAMES);
        let out = Outbound::queued(frames, acks);
        let (body, question, ack) = (
            frame(true, vec![put(&home, &pod("web"), 0).1]),
            frame(true, vec![]),
            frame(false, vec![]),
        );
        [&body, &question, &ack].into_iter().for_each(|frame| out.send(frame.clone()));
        // A question is about all that was said before it, and keeps its place.
        assert_eq!((said.try_recv(), said.try_recv()), (Ok(body.clone()), Ok(question)));
        assert_eq!(acked.try_recv(), Ok(ack.clone()));
        assert!(said.try_recv().is_err() && acked.try_recv().is_err());
        // Their stream has no place for anything else.
        let taken = |frame, acks| taken(&framed(frame, &home).unwrap().framed, &provider, acks);
        assert!(taken(ack, true).is_ok() && taken(body.clone(), false).is_ok());
        assert!(matches!(taken(body, true), Err(Untaken::NoAck)));
    }

    /// A statement of this item, and its body as `sender` keeps it.
    fn put_list(sender: &Bodies, item: Item, values: usize) -> (Digest, ToGuest) {
        let object = serde_json::Value::from(vec![0; values - 1]);
        let digest = sender.keep(Way::ToGuest, &item, &object).unwrap();
        let origin = ClusterId([1; 32]);
        let route = Route { origin, path: vec![origin], hops: 1 };
        (digest, ToGuest::Put { item, digest, route, place: None })
    }

    #[test]
    fn the_largest_of_each_item_crosses_and_one_that_is_not_taken_stops_no_other() {
        let kinds = [
            ObjectKind::ConfigMap,
            ObjectKind::Secret,
            ObjectKind::ServiceAccountToken,
            ObjectKind::Service,
            ObjectKind::EndpointSlice,
        ];
        let objects = kinds.map(|kind| Item::Object(key(kind, "shop", "large")));
        for item in objects.into_iter().chain([Item::Pod(pod("large"))]) {
            let (home, provider) = (Bodies::default(), Bodies::default());
            home.set_peer_refuses(true);
            let most = mercato_offload::body::Limits::of(Way::ToGuest).values;
            let (largest, large) = put_list(&home, item.clone(), most);
            let framed_large = framed(frame(true, vec![large]), &home).unwrap();
            assert!(framed_large.withheld.is_empty());
            assert!(taken(&framed_large.framed, &provider, false).is_ok());
            assert!(matches!(provider.object(&largest), Found::Here(_)), "{item:?}");
            let more = serde_json::Value::from(vec![0; most]);
            assert!(home.keep(Way::ToGuest, &item, &more).is_err(), "{item:?}");
            // A peer that sends it all the same is heard on, and so is what comes beside it.
            let text = more.to_string();
            let (digest, (beside, small)) = (forge::digest(&more), put(&home, &pod("small"), 0));
            let origin = ClusterId([1; 32]);
            let route = Route { origin, path: vec![origin], hops: 1 };
            let put = ToGuest::Put { item: item.clone(), digest, route, place: None };
            let Some(Framed { framed, .. }) = framed(frame(true, vec![put, small]), &home) else {
                panic!("it can be said")
            };
            let mut message = Message::from_bytes(&framed.header).unwrap();
            let (head, sent) = BodyHead::pack(text.as_bytes());
            let Message::ToGuest { bodies, .. } = &mut message else { panic!("it is home's") };
            bodies.push(head);
            let body = [&framed.body[..], &sent].concat().into();
            let header = message.to_bytes().unwrap().into();
            let said = taken(&mercato_net::Frame { header, body }, &provider, false).unwrap();
            assert_eq!(statements(&said.said), 2, "{item:?}");
            assert!(matches!(provider.object(&digest), Found::Refused(_)), "{item:?}");
            assert!(matches!(provider.object(&beside), Found::Here(_)), "{item:?}");
        }
    }

    #[test]
    fn home_says_what_it_keeps_back_from_a_peer_that_would_end_the_stream() {
        let (home, item) = (Bodies::default(), Item::Pod(pod("large")));
        let (digest, large) = put_list(&home, item.clone(), 100_000);
        let said = || framed(frame(true, vec![large.clone()]), &home).unwrap();
        let Framed { framed, withheld } = said();
        assert!(framed.body.is_empty() && !framed.header.is_empty());
        assert!(matches!(&withheld[..], [home::Input::Withheld { item: of, digest: what, .. }]
            if (of, *what) == (&item, digest)));
        home.set_peer_refuses(true);
        assert!(!said().framed.body.is_empty());
    }

    #[test]
    fn the_body_of_a_pod_that_never_was_goes_when_home_forgets_it() {
        for forgets in [false, true] {
            let (home, provider) = (Bodies::default(), Bodies::default());
            let (digest, refused) = put(&home, &pod("refused"), 0);
            said(&home, &provider, refused);
            if forgets {
                said(&home, &provider, ToGuest::Forget(pod("refused")));
            }
            let there = |digest| matches!(provider.object(digest), Found::Here(_));
            assert!(there(&digest), "a write of it may be under way");
            for n in 0..=mercato_kubelet::limits::SPARE_BODIES / STATEMENT + 1 {
                let (_, changed) = put(&home, &pod("changes"), n);
                said(&home, &provider, changed);
            }
            assert_eq!(!there(&digest), forgets);
        }
    }
}
