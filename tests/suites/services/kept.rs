//! What the provider's people do to the Services of guests, and to their slices.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::wait;
use serde_json::{Value, json};

use super::shop::{GUESTS, PATIENCE, Shop};

/// How somebody would change what a Service or a slice says.
const EDITS: [(&str, &str); 2] = [
    ("service", r#"{"spec": {"selector": {"app": "other"}}}"#),
    ("endpointslice", r#"{"endpoints": []}"#),
];
const MANAGER: &str = "--field-manager=a-program";
/// Within so long each is as it was.
const SOON: Duration = Duration::from_secs(5);

/// What stands for the shop over there.
pub(crate) struct Kept<'a>(pub(crate) &'a Shop<'a>);

impl Kept<'_> {
    /// Each is changed, deleted, and given a label: it is as it was within five seconds, with one event, and
    /// the label stays.
    pub(crate) async fn is_put_back(&self, provider: &Daemon<'_>) -> Result<()> {
        self.call(&["label", "service", "web", "team=a"]).await?;
        let slice = self.slice().await?;
        let named = [("service", "web"), ("endpointslice", slice.as_str())];
        for ((kind, edit), (_, name)) in EDITS.into_iter().zip(named) {
            let before = self.says(kind, name).await?;
            self.call(&["patch", kind, name, "--type", "merge", "-p", edit, MANAGER]).await?;
            self.returns(kind, name, &before).await.context("changed")?;
            self.call(&["delete", kind, name]).await?;
            self.returns(kind, name, &before).await.context("deleted")?;
        }
        self.told(provider, &slice).await
    }

    /// The daemon is killed, and the Service changed meanwhile: it is as it was, and goes on.
    pub(crate) async fn outlives_a_restart_with_edits(&self, provider: &Daemon<'_>) -> Result<()> {
        self.call(&["label", "service", "web", "team=b"]).await?;
        let whole = self.0.get(self.0.provider, GUESTS, "service", "web").await?;
        let (kind, edit) = EDITS[0];
        let before = self.says(kind, "web").await?;
        self.0.provider.kill(PART)?;
        self.call(&["patch", kind, "web", "--type", "merge", "-p", edit, MANAGER]).await?;
        self.0.provider.restart(PART)?;
        provider.answers().await?;
        self.returns(kind, "web", &before).await.context("while the daemon was away")?;
        let labels = ["get", kind, "web", "-o", "jsonpath={.metadata.labels.team}"];
        ensure!(self.call(&labels).await? == "b", "a label of others is gone");
        self.0.goes_on(&whole).await
    }

    async fn call(&self, args: &[&str]) -> Result<String> {
        self.0.provider.kubectl(&[&["-n", GUESTS], args].concat()).await?.ok()
    }

    async fn slice(&self) -> Result<String> {
        let selector = "kubernetes.io/service-name=web";
        let name = "jsonpath={.items[0].metadata.name}";
        self.call(&["get", "endpointslices", "-l", selector, "-o", name]).await
    }

    /// Another that takes its place has another address.
    async fn says(&self, kind: &str, name: &str) -> Result<Value> {
        let mut found: Value =
            serde_json::from_str(&self.call(&["get", kind, name, "-o", "json"]).await?)?;
        ensure!(found["metadata"]["deletionTimestamp"].is_null(), "{kind} {name} goes");
        for address in ["clusterIP", "clusterIPs"] {
            found["spec"].as_object_mut().map(|spec| spec.remove(address));
        }
        Ok(json!([found["spec"], found["endpoints"], found["ports"]]))
    }

    async fn returns(&self, kind: &str, name: &str, before: &Value) -> Result<()> {
        wait::until(&format!("{kind} {name} is as it was"), SOON, || async {
            let now = self.says(kind, name).await?;
            ensure!(now == *before, "{now}, not {before}");
            Ok(true)
        })
        .await
    }

    /// One event for each object, and a line of `status` with how often and what.
    async fn told(&self, provider: &Daemon<'_>, slice: &str) -> Result<()> {
        wait::until("people are told", PATIENCE, || async {
            let events = self.call(&["get", "events", "-o", "json"]).await?;
            let events: Value = serde_json::from_str(&events)?;
            let events = events["items"].as_array().context("a list")?;
            let ours = events.iter().filter(|event| event["reason"] == "PutBack");
            let mut told: Vec<_> = ours
                .map(|event| (event["involvedObject"]["kind"].to_string(), event["count"].clone()))
                .collect();
            told.sort_by(|one, other| one.0.cmp(&other.0));
            let once = ["\"EndpointSlice\"", "\"Service\""].map(|kind| (kind.to_owned(), json!(1)));
            ensure!(told == once, "{told:?}");
            Ok(true)
        })
        .await?;
        let status = provider.mercato(&["status"]).await?.ok()?;
        let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
        for (kind, name) in [("Service", "web"), ("EndpointSlice", slice)] {
            let line = format!(
                "{kind} {GUESTS}/{name} was put back 2 times in the last hour: it was deleted"
            );
            ensure!(status.contains(&line), "{line}: {status}");
        }
        Ok(())
    }
}
