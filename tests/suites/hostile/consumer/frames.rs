//! Messages that break the rules of the wire: patched after they were made, since nothing
//! of ours would say them.

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use mercato_net::Frame as Packet;
use mercato_protocol::codec::Message as _;
use mercato_protocol::id::Digest;
use mercato_protocol::workload::{BodyHead, Frame, Message, ObjectKey, ObjectKind, ToGuest};
use serde_json::json;

use super::{Consumer, GUEST, HOME, claims, object, pod, services};
use crate::Scene;
use crate::impostor::lines;
use crate::line::{PATIENCE, stream};

const NONE: &str = "a workload message that is none";

/// None has an effect; each ends its stream, and the log says so, though not for ever.
pub(super) async fn are_no_messages(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let (impostor, siena) = (consumer.impostor, consumer.victim);
    let before = lines(&scene.siena, NONE)?;
    let breaches = breaches(consumer)?;
    for (n, breach) in breaches.iter().enumerate() {
        let mut sender = stream(impostor, siena, scene.bought).await?;
        sender.send(breach.clone()).await?;
        mercato_tests::wait::until(&format!("breach {n} is seen"), PATIENCE, || async {
            Ok(lines(&scene.siena, NONE)? > before + n)
        })
        .await?;
    }
    // From here on it has to wait for its breaches to be seen.
    for _ in 0..200 {
        let mut sender = stream(impostor, siena, scene.bought).await?;
        // It may be refused before all is said.
        let _ = sender.send(breaches[0].clone()).await;
    }
    let seen = lines(&scene.siena, NONE)? - before;
    ensure!(seen < breaches.len() + 20, "{seen} lines in the log");
    consumer.line.reopen().await?;
    // More values than a body may have: that one is refused, and what comes beside it is heard.
    let (kind, slice) = services::slice("web", json!(vec![json!({ "addresses": [] }); 100_000]));
    let (endless, slice) = object(kind, "endless", slice);
    let (item, body) = object(ObjectKind::ConfigMap, "after", json!({ "kind": "ConfigMap" }));
    consumer.put(&[(endless.clone(), slice), (item, body)]).await?;
    // A stream of a breach that is only taken now may cut ours, with what is on its way in it.
    consumer.line.delivered().await?;
    let after = ["-n", GUEST, "get", "configmap", "after", "-o", "name"];
    mercato_tests::wait::until("what is right is heard again", PATIENCE, || async {
        scene.siena.cluster.kubectl(&after).await?.ok()?;
        Ok(true)
    })
    .await?;
    let refusal = consumer.refusal(&endless).await?;
    ensure!(refusal.path == "endpoints", "{refusal:?}");
    Ok(())
}

fn breaches(consumer: &Consumer<'_>) -> Result<Vec<Packet>> {
    let (item, body) = pod("aaaaaaaaaa", json!({}));
    let body = Bytes::from(body.to_string());
    let put = consumer.wants(item, Digest::of(b"x"));
    let (map, _) = object(ObjectKind::ConfigMap, "m", json!({}));
    let message = |statement: ToGuest, length: usize| -> Result<Vec<u8>> {
        let statements = vec![statement];
        let frame = Frame { from: u64::MAX / 2, to: 1, seq: 1, ack: 0, answer: false, statements };
        let length = u32::try_from(length)?;
        let bodies = vec![BodyHead { digest: Digest::of(&body), length, packed: None }];
        Ok(Message::ToGuest { frame, bodies }.to_bytes()?)
    };
    let good = message(put.clone(), body.len())?;
    let packet =
        |header: Vec<u8>, body: &Bytes| Packet { header: header.into(), body: body.clone() };
    let mut all = vec![packet(b"nothing that is known".to_vec(), &Bytes::new())];
    for name in ["../../kube", "a/b/c/d/ef", "Aaaaaaaaaa", "a%2e%2e%2f"] {
        all.push(packet(patched(&good, b"aaaaaaaaaa", name.as_bytes())?, &body));
    }
    let foreign = patched(
        &message(consumer.wants(map, Digest::of(b"x")), body.len())?,
        &[0xa3, 1, 2, 2],
        &[0xa3, 1, 9, 2],
    )?;
    all.push(packet(foreign, &body));
    // A claim that is dropped, what is discarded and none, and claims that no uid calls.
    let key = ObjectKey { kind: ObjectKind::ConfigMap, ..claims::key(HOME, "aaaaaaaaaa") };
    let (map, claim) = ([0xa3, 1, 2, 2], [0xa3, 1, 7, 2]);
    all.push(packet(patched(&message(ToGuest::Drop(key), body.len())?, &map, &claim)?, &body));
    let discard = message(ToGuest::Discard(claims::key(HOME, "aaaaaaaaaa")), body.len())?;
    all.push(packet(patched(&discard, &claim, &map)?, &body));
    for name in ["../../kube", "data.db-00", "Aaaaaaaaaa"] {
        all.push(packet(patched(&discard, b"aaaaaaaaaa", name.as_bytes())?, &body));
    }
    // Another body than was announced, and one of 4 GiB.
    all.push(packet(good, &vec![b'x'; body.len()].into()));
    let long = message(put, 1_000_000)?;
    all.push(packet(patched(&long, &1_000_000_u32.to_be_bytes(), &[255; 4])?, &body));
    Ok(all)
}

/// With the last place where `from` stands saying `to`.
fn patched(bytes: &[u8], from: &[u8], to: &[u8]) -> Result<Vec<u8>> {
    let at = bytes.windows(from.len()).rposition(|window| window == from).context("not there")?;
    Ok([&bytes[..at], to, &bytes[at + from.len()..]].concat())
}
