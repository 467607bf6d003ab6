//! A consumer that lies to the daemon of its provider.

mod claims;
mod fields;
mod frames;
mod numbers;
mod secrets;
mod services;
mod streams;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use mercato_offload::forge;
use mercato_protocol::id::{Digest, PublicKey};
use mercato_protocol::workload::{
    Item, ObjectKey, ObjectKind, PodId, Refusal, Report, Route, ToGuest, ToHome, Uid,
};
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{Level, level};
use serde_json::{Value, json};

use crate::Scene;
use crate::impostor::Impostor;
use crate::line::{Line, PATIENCE};
pub(crate) use streams::Other;

/// The home namespace that it says its pods are of, and what that is called over there.
pub(crate) const HOME: &str = "shop";
pub(crate) const GUEST: &str = "shop-pisa";

/// Everything that a consumer may try, once; it leaves with a pod called plain.
pub(crate) async fn attack<'a>(
    scene: &Scene<'_>,
    impostor: &'a Impostor,
    other: &Other,
) -> Result<Consumer<'a>> {
    let victim = impostor.meet(&scene.siena).await?;
    let line = Line::open(impostor, victim, scene.bought).await?;
    let mut consumer = Consumer { line, impostor, victim, said: BTreeMap::new() };
    let (it, mut timer) = (&mut consumer, StepTimer::start());
    timer.take("fields that are refused", fields::are_refused(it)).await?;
    timer.take("fields that are dropped", fields::are_dropped(scene, it)).await?;
    timer.take("the Secret of gates", secrets::of_gates_is_not_named(scene, it)).await?;
    timer.take("claims that are refused", claims::are_refused(scene, it)).await?;
    timer.take("claims of others", claims::are_its_own(scene, it, other)).await?;
    timer.take("too many claims", claims::too_many(scene, it)).await?;
    timer.take("services that are refused", services::are_refused(scene, it)).await?;
    timer.take("endpoints of nobody", services::lead_nowhere(scene, it)).await?;
    if level() == Level::Full {
        timer.take("too many services", services::too_many(scene, it)).await?;
    }
    timer.take("frames that are none", frames::are_no_messages(scene, it)).await?;
    timer.take("streams into others", streams::into_others(scene, it, other)).await?;
    timer.take("one uid twice", numbers::of_lives(scene, it)).await?;
    timer.take("two namespaces", numbers::of_namespaces(scene, it)).await?;
    timer.take("too many pods", numbers::of_pods(scene, it)).await?;
    timer.take("bytes of etcd", numbers::of_bytes(scene, it)).await?;
    if level() == Level::Full {
        let small = numbers::of_small_contracts(scene, it);
        timer.take("bytes of etcd, by six small contracts", small).await?;
    }
    timer.take("too many streams", streams::too_many(scene, it)).await?;
    Ok(consumer)
}

/// What it was answered about an item, last.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Refused(Refusal),
    Is(Report),
    Missing,
}

pub(crate) struct Consumer<'a> {
    pub(crate) line: Line<'a, ToGuest>,
    pub(crate) impostor: &'a Impostor,
    pub(crate) victim: PublicKey,
    said: BTreeMap<Item, Said>,
}

impl Consumer<'_> {
    /// Wants these objects.
    pub(crate) async fn put(&mut self, all: &[(Item, Value)]) -> Result<()> {
        let puts = all.iter().map(|(item, body)| self.wants(item.clone(), forge::digest(body)));
        let bodies: Vec<Bytes> = all.iter().map(|(_, body)| body.to_string().into()).collect();
        self.line.say(puts.collect(), &bodies).await
    }

    pub(crate) fn wants(&self, item: Item, digest: Digest) -> ToGuest {
        let (origin, path) = (self.impostor.cluster, vec![self.impostor.cluster]);
        let route = Route { origin, path, hops: 0 };
        ToGuest::Put { item, digest, route, place: None }
    }

    /// What is said of an item, once it is as it should be.
    pub(crate) async fn hears(
        &mut self,
        item: &Item,
        enough: impl Fn(&Said) -> bool,
    ) -> Result<Said> {
        loop {
            if let Some(said) = self.said.get(item).filter(|said| enough(said)) {
                return Ok(said.clone());
            }
            let last = self.said.get(item).cloned();
            self.listens().await.with_context(|| format!("{item:?}: at last {last:?}"))?;
        }
    }

    /// Keeps what is said next.
    async fn listens(&mut self) -> Result<()> {
        for statement in self.line.hear().await? {
            let (item, said) = match statement {
                ToHome::Refused { item, refusal } => (item, Said::Refused(refusal)),
                ToHome::Status { pod, report } => (Item::Pod(pod), Said::Is(report)),
                ToHome::Missing(item) => (item, Said::Missing),
                ToHome::Have { .. }
                | ToHome::HaveEnd
                | ToHome::Event { .. }
                | ToHome::InForce { .. } => continue,
            };
            self.said.insert(item, said);
        }
        Ok(())
    }

    /// Ends pods and forgets them at once, as no home would before it knows that they are
    /// over; and waits until so many are left over there.
    pub(crate) async fn end(
        &mut self,
        scene: &Scene<'_>,
        pods: &[PodId],
        left: usize,
    ) -> Result<()> {
        for some in pods.chunks(21) {
            let all = some.iter().flat_map(|pod| {
                let delete = ToGuest::Delete { pod: pod.clone(), grace_s: 0 };
                [delete, ToGuest::Taken(pod.clone()), ToGuest::Forget(pod.clone())]
            });
            self.line.say(all.collect(), &[]).await?;
        }
        let there = ["get", "pods", "-n", GUEST, "-o", "name"];
        mercato_tests::wait::until("what was ended is gone", PATIENCE, || async {
            let there = scene.siena.cluster.kubectl(&there).await?.ok()?;
            ensure!(there.lines().count() <= left, "{there}");
            Ok(true)
        })
        .await
    }

    /// Why an item is refused.
    pub(crate) async fn refusal(&mut self, item: &Item) -> Result<Refusal> {
        let said = self.hears(item, |said| matches!(said, Said::Refused(_))).await?;
        let Said::Refused(refusal) = said else { unreachable!("that was waited for") };
        Ok(refusal)
    }
}

/// A pod of busybox that sleeps, with what the attack adds to its spec; its container is
/// called as the pod is.
pub(crate) fn pod(name: &str, spec: Value) -> (Item, Value) {
    let mut body = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": HOME, "name": name },
        "spec": { "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "app", "image": "mercato.test/busybox:1",
                "command": ["sleep", "3600"] }] },
    });
    merge(&mut body["spec"], spec);
    (Item::Pod(id(name)), body)
}

pub(crate) fn id(name: &str) -> PodId {
    PodId { uid: Uid(format!("uid-{name}")), namespace: HOME.into(), name: name.into() }
}

pub(crate) fn object(kind: ObjectKind, name: &str, body: Value) -> (Item, Value) {
    let mut whole = json!({ "apiVersion": "v1", "metadata": { "namespace": HOME, "name": name } });
    merge(&mut whole, body);
    (Item::Object(ObjectKey { kind, namespace: HOME.into(), name: name.into() }), whole)
}

/// Maps are merged, lists by place, anything else is replaced.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, value) in more {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(more)) => {
            for (n, value) in more.into_iter().enumerate() {
                match into.get_mut(n) {
                    Some(present) => merge(present, value),
                    None => into.push(value),
                }
            }
        }
        (into, more) => *into = more,
    }
}
