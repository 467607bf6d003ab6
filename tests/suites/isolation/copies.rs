//! What people of the provider's cluster do with the marks of guests: pods that copy them are nobody to
//! home, and a guest whose marks are taken off stays the guest.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::Sender;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::LOCAL;
use super::found::IMAGE;

/// How long the API server's word takes to be acted on, at most.
const SOON: Duration = Duration::from_secs(30);
/// Label that says which contract a guest is of.
const CONTRACT: &str = "mercato.dev/contract";
/// Label of the uid at home.
const HOME_UID: &str = "mercato.dev/home-uid";
/// The containers of a copy that does not do as it is told.
const GATE: &str = "mercato-gate";

/// The guest `far` of `home`, which `near` there calls, and its copies in `elsewhere`.
pub(crate) struct Marked<'a> {
    pub(crate) home: User<'a>,
    pub(crate) guests: User<'a>,
    pub(crate) elsewhere: User<'a>,
    pub(crate) turin: &'a Cluster,
}

impl Marked<'_> {
    /// Neither makes a mark a guest, nor is one none without it.
    pub(crate) async fn prove_nothing(&self) -> Result<()> {
        self.copies_are_nobody().await.context("copies of a guest")?;
        self.marks_come_back().await.context("a guest without its marks")
    }

    /// A pod elsewhere that has all of a guest's marks is nobody's: ready or not, failing, deleted.
    async fn copies_are_nobody(&self) -> Result<()> {
        let before = self.seen_at_home().await?;
        let guest = get(&self.guests).await?;
        for (name, phase, script, has_gate) in [
            ("waits", "Pending", "sleep 3600", true),
            ("ready", "Running", "sleep 3600", false),
            ("fails", "Failed", "exit 1", false),
        ] {
            let copy = copied(&guest, name, script, has_gate);
            self.turin.apply(&copy.to_string()).await?;
            wait::until(&format!("the copy {name} is {phase}"), SOON, || async {
                let is = ["get", "pod", name, "-o", "jsonpath={.status.phase}/{.status.podIP}"];
                let is = self.elsewhere.kubectl(&is).await?;
                Ok(is.split_once('/').is_some_and(|(is, ip)| is == phase && !ip.is_empty()))
            })
            .await?;
            self.is_as(&before).await.with_context(|| format!("beside the copy {name}"))?;
        }
        self.elsewhere.kubectl(&["annotate", "pod", "ready", "touched=yes"]).await?;
        let all = ["delete", "pod", "waits", "ready", "fails", "--grace-period=1"];
        self.elsewhere.kubectl(&all).await?;
        self.is_as(&before).await.context("after the copies are gone")
    }

    /// Each mark is taken off the guest: home shows it as it is, and the mark comes back.
    async fn marks_come_back(&self) -> Result<()> {
        let before = self.seen_at_home().await?;
        let guest = get(&self.guests).await?;
        let of = |map: &str| -> Vec<String> {
            let marks = guest["metadata"][map].as_object().into_iter().flatten();
            let marks = marks.map(|(mark, _)| mark).filter(|mark| mark.starts_with("mercato.dev/"));
            marks.cloned().collect()
        };
        let [labels, annotations] = ["labels", "annotations"].map(of);
        ensure!(labels == [CONTRACT, HOME_UID] && annotations.len() >= 7, "{annotations:?}");
        for (verb, map, marks) in
            [("label", "labels", labels), ("annotate", "annotations", annotations)]
        {
            for mark in marks {
                self.guests.kubectl(&[verb, "pod", "far", &format!("{mark}-")]).await?;
                wait::until(&format!("{mark} comes back"), SOON, || async {
                    let now = get(&self.guests).await?;
                    Ok(now["metadata"][map][&mark] == guest["metadata"][map][&mark])
                })
                .await?;
                self.is_as(&before).await.with_context(|| format!("after {mark} was taken off"))?;
            }
        }
        let events = ["get", "events", "--field-selector=reason=GuestMarksChanged"];
        let told = self.home.kubectl(&events).await?;
        ensure!(told.contains("pod/far"), "nobody is told: {told}");
        let uid = &guest["metadata"]["uid"];
        ensure!(get(&self.guests).await?["metadata"]["uid"] == *uid, "it is another pod");
        Ok(())
    }

    /// What home shows of the guest, which answers it.
    async fn seen_at_home(&self) -> Result<Value> {
        let mut seen = get(&self.home).await?;
        Ok(json!({ "uid": seen["metadata"]["uid"].take(), "status": seen["status"].take() }))
    }

    async fn is_as(&self, before: &Value) -> Result<()> {
        let far = self.home.address_of("far").await?;
        Sender::Pod(self.home, "near").tcp(far, 1_000, "closed").await.context("calls")?;
        let now = self.seen_at_home().await?;
        ensure!(now == *before, "home shows {now}, and showed {before}");
        Ok(())
    }
}

async fn get(user: &User<'_>) -> Result<Value> {
    Ok(serde_json::from_str(&user.kubectl(&["get", "pod", "far", "-o", "json"]).await?)?)
}

/// What somebody who can read guests makes of one: a pod of his own image, that nobody answers in.
fn copied(guest: &Value, name: &str, script: &str, has_gate: bool) -> Value {
    let from = &guest["metadata"];
    let (labels, annotations) = (&from["labels"], &from["annotations"]);
    let gates = guest["spec"]["initContainers"].as_array().into_iter().flatten();
    let gates: Vec<&Value> = gates.filter(|one| has_gate && one["name"] == GATE).collect();
    let app = json!({ "name": "far", "image": IMAGE, "command": ["sh", "-c", script] });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": LOCAL, "labels": labels,
            "annotations": annotations },
        "spec": { "restartPolicy": "Never", "initContainers": gates, "containers": [app] },
    })
}
