//! A provider that lies to the daemon of its consumer.

mod claims;
mod streams;

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use mercato_offload::forge;
use mercato_offload::placement::amounts;
use mercato_protocol::workload::{
    EventKind, Item, ObjectKey, ObjectKind, Outcome, PodEvent, PodId, Refusal, Report, Stage,
    ToGuest, ToHome, Uid,
};
use mercato_tests::step_timer::StepTimer;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use crate::Scene;
use crate::impostor::Impostor;
use crate::line::{LOOK, Line, PATIENCE};

const NODE: &str = "mercato-pisa";

pub(crate) struct Provider<'a> {
    pub(crate) line: Line<'a, ToHome>,
    pub(crate) impostor: &'a Impostor,
    /// The pod that it was sent.
    pub(crate) pod: PodId,
    /// Whatever it was asked to have.
    puts: Vec<Item>,
}

/// Everything that a provider may try, once; it leaves with a pod called victim.
pub(crate) async fn attack<'a>(
    scene: &Scene<'_>,
    impostor: &'a Impostor,
    honest: &Uid,
) -> Result<Provider<'a>> {
    let milan = impostor.meet(&scene.milan).await?;
    let mut line = Line::open(impostor, milan, scene.sold).await?;
    line.say(vec![ToHome::HaveEnd], &[]).await?;
    let lab = User::new(scene.milan.cluster, "lab").on(NODE);
    lab.start("victim", "sleep 3600", &[]).await?;
    let victim = PodId { uid: Uid(String::new()), namespace: String::new(), name: String::new() };
    let mut provider = Provider { line, impostor, pod: victim, puts: Vec::new() };
    provider.pod = provider.is_sent("victim").await?;
    let (it, mut timer) = (&mut provider, StepTimer::start());
    timer.take("restart counts that fall", counts_fall(&lab, it)).await?;
    timer.take("a status that is none", nonsense(&lab, it)).await?;
    timer.take("a thousand processors", processors(scene, &lab, it)).await?;
    timer.take("pods of others", of_others(scene, &lab, it, honest)).await?;
    timer.take("claims of others", claims::of_others(scene, &lab, it)).await?;
    timer.take("events without end", events_without_end(&lab, it)).await?;
    timer.take("a phase that goes backwards", from_the_dead(&lab, it)).await?;
    timer.take("answers to streams", streams::answers(scene, it)).await?;
    Ok(provider)
}

impl Provider<'_> {
    /// Waits for a pod of that name.
    async fn is_sent(&mut self, name: &str) -> Result<PodId> {
        loop {
            let found = self.puts.iter().find_map(|item| match item {
                Item::Pod(pod) if pod.name == name => Some(pod.clone()),
                Item::Pod(_) | Item::Object(_) => None,
            });
            if let Some(pod) = found {
                return Ok(pod);
            }
            let heard = self.line.hear().await?;
            self.note(heard);
        }
    }

    fn note(&mut self, heard: Vec<ToGuest>) {
        self.puts.extend(heard.into_iter().filter_map(|statement| match statement {
            ToGuest::Put { item, .. } => Some(item),
            ToGuest::Delete { .. }
            | ToGuest::Drop(_)
            | ToGuest::Discard(_)
            | ToGuest::Want(_)
            | ToGuest::Taken(_)
            | ToGuest::Forget(_)
            | ToGuest::Address { .. } => None,
        }));
    }

    /// Says how a pod is.
    pub(crate) async fn says(&mut self, pod: &PodId, status: &Value, stage: Stage) -> Result<()> {
        let report = Report { status: Some(forge::digest(status)), stage };
        let body = Bytes::from(status.to_string());
        self.line.say(vec![ToHome::Status { pod: pod.clone(), report }], &[body]).await
    }

    /// Listens until kubectl sees this of a pod.
    async fn until(&mut self, lab: &User<'_>, pod: &str, fields: &str, is: &str) -> Result<()> {
        let fields = format!("jsonpath={fields}");
        let seen = async {
            loop {
                let heard = self.line.heard().await?;
                self.note(heard);
                let seen = lab.kubectl(&["get", "pod", pod, "-o", &fields]).await?;
                if seen == is {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.with_context(|| format!("{pod} is not {is}"))?
    }
}

/// As a kubelet would say it, with a word by which it is known.
pub(crate) fn running(word: &str, restarts: u32) -> Value {
    json!({
        "phase": "Running", "message": word, "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{ "type": "ContainersReady", "status": "True" },
            { "type": "Ready", "status": "True" }],
        "containerStatuses": [{ "name": "victim", "image": "i", "imageID": "", "ready": true,
            "restartCount": restarts, "state": { "running": {} } }],
    })
}

const COUNT: &str = "{.status.phase} {.status.containerStatuses[0].restartCount} {.status.message}";

async fn counts_fall(lab: &User<'_>, provider: &mut Provider<'_>) -> Result<()> {
    let pod = provider.pod.clone();
    provider.says(&pod, &running("first", 5), Stage::Live).await?;
    provider.until(lab, "victim", COUNT, "Running 5 first").await?;
    provider.says(&pod, &running("second", 2), Stage::Live).await?;
    provider.until(lab, "victim", COUNT, "Running 5 second").await
}

/// The API server refuses it; the next that makes sense is written.
async fn nonsense(lab: &User<'_>, provider: &mut Provider<'_>) -> Result<()> {
    let pod = provider.pod.clone();
    let endless = (0..64).fold(json!(1), |value, _| json!([value]));
    for wrong in [
        json!({ "phase": 5, "startTime": "yesterday", "containerStatuses": { "a": 1 } }),
        json!({ "phase": "Running", "containerStatuses": [{ "name": "victim",
            "restartCount": 1e300, "state": { "running": {}, "terminated": {} } }] }),
        json!([1, 2, 3]),
        json!({ "conditions": endless, "message": "x".repeat(200_000) }),
    ] {
        provider.says(&pod, &wrong, Stage::Live).await?;
    }
    provider.says(&pod, &running("sensible", 6), Stage::Live).await?;
    provider.until(lab, "victim", COUNT, "Running 6 sensible").await
}

/// Home's quota adds up what statuses say: by one that lies a pod is let in as before.
async fn processors(scene: &Scene<'_>, lab: &User<'_>, provider: &mut Provider<'_>) -> Result<()> {
    let (pod, mut status) = (provider.pod.clone(), running("huge", 6));
    let huge = json!({ "limits": { "cpu": "1000" }, "requests": { "cpu": "1000" } });
    status["resources"] = huge.clone();
    status["allocatedResources"] = huge["requests"].clone();
    status["containerStatuses"][0]["resources"] = huge.clone();
    status["containerStatuses"][0]["allocatedResources"] = huge["requests"].clone();
    provider.says(&pod, &status, Stage::Live).await?;
    provider.until(lab, "victim", COUNT, "Running 6 huge").await?;
    let quota = ["-n", "lab", "create", "quota", "processors", "--hard=requests.cpu=10"];
    scene.milan.cluster.kubectl(&quota).await?.ok()?;
    let used = r"jsonpath={.status.used.requests\.cpu}";
    let used = ["-n", "lab", "get", "quota", "processors", "-o", used];
    let used = || async { anyhow::Ok(scene.milan.cluster.kubectl(&used).await?.ok()?) };
    wait::until("the quota is summed", PATIENCE, || async { Ok(!used().await?.is_empty()) })
        .await?;
    let sum = used().await?;
    let millis = amounts(&json!({ "cpu": sum })).get("cpu").copied();
    ensure!(millis.is_some_and(|millis| millis < 10_000), "it sums up {sum}");
    scene.milan.cluster.kubectl(&["-n", "lab", "delete", "quota", "processors"]).await?.ok()?;
    Ok(())
}

/// What it says of pods and objects that are not with it reaches nobody, and brings it
/// nothing of them.
async fn of_others(
    scene: &Scene<'_>,
    lab: &User<'_>,
    provider: &mut Provider<'_>,
    honest: &Uid,
) -> Result<()> {
    let named = |uid: &str, namespace: &str, name: &str| PodId {
        uid: Uid(uid.to_owned()),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let mut others = vec![named(&honest.0, "lab", "honest")];
    others.extend((0..100).map(|n| named(&format!("0000-{n}"), "kube-system", &format!("p{n}"))));
    let victim = &provider.pod;
    others.push(named(&victim.uid.0, "kube-system", "another-name"));
    let secret = ObjectKey {
        kind: ObjectKind::Secret,
        namespace: "kube-system".to_owned(),
        name: "everything".to_owned(),
    };
    let lie = running("taken over", 9);
    let status = Report { status: Some(forge::digest(&lie)), stage: Stage::Live };
    let refusal = Refusal { path: String::new(), reason: "because I can".to_owned() };
    let items = others.iter().cloned().map(Item::Pod).chain([Item::Object(secret)]);
    let mut all: Vec<ToHome> = others
        .iter()
        .map(|pod| ToHome::Status { pod: pod.clone(), report: status.clone() })
        .collect();
    for item in items {
        all.push(ToHome::Refused { item: item.clone(), refusal: refusal.clone() });
        all.push(ToHome::Have { item: item.clone(), digest: None, report: None });
        all.push(ToHome::Missing(item));
    }
    all.extend(others.into_iter().map(|pod| event(&pod, "because I can".to_owned())));
    provider.puts.clear();
    for some in all.chunks(64) {
        provider.line.say(some.to_vec(), &[lie.to_string().into()]).await?;
    }
    let pod = provider.pod.clone();
    provider.says(&pod, &running("after", 6), Stage::Live).await?;
    provider.until(lab, "victim", COUNT, "Running 6 after").await?;
    // Each is asked for at home; what is said of none of them is said after that.
    provider.until(lab, "honest", "{.status.phase} {.status.message}", "Running ").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let heard = provider.line.heard().await?;
    provider.note(heard);
    let foreign: Vec<&Item> =
        provider.puts.iter().filter(|item| **item != Item::Pod(pod.clone())).collect();
    ensure!(foreign.is_empty(), "it was sent {foreign:?}");
    let events = ["get", "events", "-A", "-o", "jsonpath={..message}"];
    let events = scene.milan.cluster.kubectl(&events).await?.ok()?;
    ensure!(!events.contains("because I can"), "{events}");
    Ok(())
}

/// Some are written, as a kubelet's; home's API server is not filled with the rest.
async fn events_without_end(lab: &User<'_>, provider: &mut Provider<'_>) -> Result<()> {
    const SAID: usize = 8_192;
    let pod = provider.pod.clone();
    for n in (0..SAID).step_by(64) {
        let some = (n..n + 64).map(|n| event(&pod, format!("flood {n}")));
        provider.line.say(some.collect(), &[]).await?;
    }
    provider.says(&pod, &running("flooded", 6), Stage::Live).await?;
    provider.until(lab, "victim", COUNT, "Running 6 flooded").await?;
    let kubelet = "reason=Flood,source=kubelet,involvedObject.name=victim";
    let fields = "jsonpath={.items[*].message}";
    let events = lab.kubectl(&["get", "events", "--field-selector", kubelet, "-o", fields]).await?;
    let written = events.matches("flood").count();
    // A thousand at once, and 5 a second for as long as the test may take.
    ensure!((1..SAID / 4).contains(&written), "{written} events of {SAID} were written");
    Ok(())
}

fn event(pod: &PodId, message: String) -> ToHome {
    let (reason, field) = ("Flood".to_owned(), String::new());
    let event = PodEvent { kind: EventKind::Warning, reason, field, message, count: 1 };
    ToHome::Event { pod: pod.clone(), event }
}

/// What has ended stays so, whatever is said of it later.
async fn from_the_dead(lab: &User<'_>, provider: &mut Provider<'_>) -> Result<()> {
    lab.start("dead", "true", &["--restart=Never"]).await?;
    let dead = provider.is_sent("dead").await?;
    let mut over = running("over", 0);
    over["phase"] = json!("Succeeded");
    over["containerStatuses"][0]["name"] = json!("dead");
    over["containerStatuses"][0]["state"] = json!({ "terminated": { "exitCode": 0 } });
    provider.says(&dead, &over, Stage::Ended(Outcome::Succeeded)).await?;
    let phase = "{.status.phase} {.status.message}";
    provider.until(lab, "dead", phase, "Succeeded over").await?;
    let failed = Outcome::Failed { reason: "Evicted".to_owned(), message: "no".to_owned() };
    for stage in [Stage::Live, Stage::Ended(Outcome::Succeeded), Stage::Ended(failed)] {
        provider.says(&dead, &running("alive", 0), stage).await?;
    }
    let pod = provider.pod.clone();
    provider.says(&pod, &running("last", 6), Stage::Live).await?;
    provider.until(lab, "victim", COUNT, "Running 6 last").await?;
    let phase = lab.kubectl(&["get", "pod", "dead", "-o", "jsonpath={.status.phase}"]).await?;
    if phase != "Succeeded" {
        bail!("it is {phase} again");
    }
    Ok(())
}
