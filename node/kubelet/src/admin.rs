//! How the admin API of the daemon's pod is found, and reached, from outside of the cluster: the
//! daemon writes its port and its certificate into a config map; whoever may read that and forward
//! ports of the pod reaches it, and knows it by the certificate. What is asked there, and by whom,
//! is not for here.

use std::fmt;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::{CONFIG_MAP, POD};
use crate::guest::stream::Duplex;
use crate::limits;
use crate::names::{ADMIN, DAEMON_NAMESPACE, DAEMON_POD, FIELD_MANAGER, MANAGED_BY};

/// Where the daemon's admin API is, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The port, of the loopback of the pod's network.
    pub port: u16,
    /// The certificate that is shown there (PEM): this one and no other.
    pub certificate: String,
}

/// Why the daemon's pod is not reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// The person may not do that: the right, as in a rule, and what the API server said.
    #[error("{message}")]
    NoRight {
        /// The verb and the resource, such as `create pods/portforward`.
        right: &'static str,
        /// In the API server's words.
        message: String,
    },
    /// No daemon has said where it is: none is installed, or it does not offer this.
    #[error("the config map {ADMIN} in the namespace {DAEMON_NAMESPACE} {0}")]
    NotSaid(&'static str),
    /// The daemon has no pod.
    #[error("there is no pod of the daemon in the namespace {DAEMON_NAMESPACE}")]
    NoPod,
    /// Its pod is not ready: its name, and how it is.
    #[error("the daemon's pod {0} is not ready: {1}")]
    NotReady(String, String),
    /// The API server does not know who asks.
    #[error("the API server does not know who asks: {0}")]
    Unknown(String),
    /// The API server, or the way to it, fails.
    #[error("{0}")]
    Failed(String),
}

/// A port of the pod, until it is dropped.
pub struct Forwarded {
    /// The way to the port.
    pub stream: Box<dyn Duplex>,
    /// Why the pod's node does not take it there, should that be said.
    pub refused: BoxFuture<'static, Option<String>>,
}

impl fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarded").finish_non_exhaustive()
    }
}

/// Says where the admin API is, and how it is known. The config map is there already.
pub fn tell(cluster: &Cluster, notice: &Notice) -> Answer<()> {
    let object = json!({
        "metadata": { "labels": { MANAGED_BY: FIELD_MANAGER } },
        "data": { "port": notice.port.to_string(), "certificate": notice.certificate },
    });
    let said = cluster.apply(CONFIG_MAP, Some(DAEMON_NAMESPACE), ADMIN, object);
    async move { said.await.map(drop).map_err(Failure::of_install) }.boxed()
}

/// What the daemon has said, by the rights of whoever asks.
///
/// # Errors
/// When it is not to be had, or is nothing that a daemon writes.
pub fn notice(client: &Client) -> BoxFuture<'static, Result<Notice, ReachError>> {
    let found = Cluster::new(client.clone()).get(CONFIG_MAP, Some(DAEMON_NAMESPACE), ADMIN);
    async move {
        let found = found.await.map_err(|failure| refused("get configmaps", failure))?;
        let found = found.ok_or(ReachError::NotSaid("is not there"))?;
        read(&found["data"])
    }
    .boxed()
}

fn read(data: &Value) -> Result<Notice, ReachError> {
    let (port, certificate) = match (data["port"].as_str(), data["certificate"].as_str()) {
        (Some(port), Some(certificate)) => (port, certificate),
        _ => return Err(ReachError::NotSaid("says nothing: no daemon has written it")),
    };
    let port = port.parse().ok().filter(|port| *port != 0);
    let port = port.ok_or(ReachError::NotSaid("names no port"))?;
    if !(1..=limits::ADMIN_CERTIFICATE).contains(&certificate.len()) {
        return Err(ReachError::NotSaid("has no certificate of a daemon"));
    }
    Ok(Notice { port, certificate: certificate.to_owned() })
}

/// The name of the daemon's pod, which is ready.
///
/// # Errors
/// When there is none, it is not ready, or that is not to be known.
pub fn pod(client: &Client) -> BoxFuture<'static, Result<String, ReachError>> {
    let which = format!("labelSelector={}", DAEMON_POD.replace('=', "%3D").replace(',', "%2C"));
    let found = Cluster::new(client.clone()).list(POD, Some(DAEMON_NAMESPACE), &which);
    async move {
        let found = found.await.map_err(|failure| refused("list pods", failure))?;
        pick(&found)
    }
    .boxed()
}

/// The one that is ready; of others, the one that is not being ended.
fn pick(pods: &[Value]) -> Result<String, ReachError> {
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if let Some(pod) = pods.iter().find(|pod| state(pod).is_none()) {
        return Ok(name(pod));
    }
    let ends = |pod: &&Value| !pod["metadata"]["deletionTimestamp"].is_null();
    let pod = pods.iter().min_by_key(ends).ok_or(ReachError::NoPod)?;
    Err(ReachError::NotReady(name(pod), state(pod).unwrap_or_default()))
}

/// How a pod is that is not ready; none: it is.
fn state(pod: &Value) -> Option<String> {
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return Some("it is being ended".to_owned());
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let status = &pod["status"];
    let conditions = list(&status["conditions"]);
    let of = |kind: &str| conditions.iter().find(|one| one["type"] == kind).cloned();
    if of("Ready").is_some_and(|ready| ready["status"] == "True") {
        return None;
    }
    let waits = list(&status["containerStatuses"])
        .into_iter()
        .find_map(|container| container["state"]["waiting"]["reason"].as_str().map(str::to_owned));
    let unplaced = of("PodScheduled").filter(|placed| placed["status"] == "False");
    let unplaced = unplaced.and_then(|placed| placed["message"].as_str().map(str::to_owned));
    let phase = status["phase"].as_str().unwrap_or("Unknown").to_owned();
    Some(waits.or(unplaced).unwrap_or(phase))
}

/// Opens a port of the daemon's pod, by the rights of whoever asks.
///
/// # Errors
/// When the API server does not let them, or does not get there.
pub fn forward(
    client: &Client,
    pod: &str,
    port: u16,
) -> BoxFuture<'static, Result<Forwarded, ReachError>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), DAEMON_NAMESPACE);
    let pod = pod.to_owned();
    async move {
        let forwarding = pods.portforward(&pod, &[port]).await;
        let mut forwarding =
            forwarding.map_err(|error| refused("create pods/portforward", error.into()))?;
        let unopened = || ReachError::Failed("no port is forwarded".to_owned());
        let stream = forwarding.take_stream(port).ok_or_else(unopened)?;
        let refused = forwarding.take_error(port).ok_or_else(unopened)?.boxed();
        Ok(Forwarded { stream: Box::new(stream), refused })
    }
    .boxed()
}

fn refused(right: &'static str, failure: Failure) -> ReachError {
    match failure.code {
        401 => ReachError::Unknown(failure.message),
        403 => ReachError::NoRight { right, message: failure.message },
        _ => ReachError::Failed(failure.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{scripted, status as failed};

    fn pod_of(name: &str, ready: bool) -> Value {
        let ready = if ready { "True" } else { "False" };
        json!({
            "metadata": { "name": name },
            "status": {
                "phase": "Running",
                "conditions": [{ "type": "Ready", "status": ready }],
            },
        })
    }

    #[test]
    fn what_a_daemon_has_said_is_read_and_nothing_else() {
        let said = json!({ "port": "7480", "certificate": "c" });
        assert_eq!(read(&said).unwrap(), Notice { port: 7_480, certificate: "c".to_owned() });
        let long = "x".repeat(limits::ADMIN_CERTIFICATE + 1);
        for wrong in [
            Value::Null,
            json!({}),
            json!({ "port": "7480" }),
            json!({ "port": 7480, "certificate": "c" }),
            json!({ "port": "0", "certificate": "c" }),
            json!({ "port": "74800", "certificate": "c" }),
            json!({ "port": "7480", "certificate": long }),
        ] {
            assert!(matches!(read(&wrong), Err(ReachError::NotSaid(_))), "{wrong}");
        }
    }

    #[test]
    fn the_pod_that_is_ready_is_taken_and_another_says_how_it_is() {
        let (old, new) = (pod_of("old", true), pod_of("new", false));
        assert_eq!(pick(&[new.clone(), old.clone()]), Ok("old".to_owned()));
        let ending = |mut pod: Value| {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            pod
        };
        let not_ready =
            |name: &str, why: &str| Err(ReachError::NotReady(name.to_owned(), why.to_owned()));
        assert_eq!(pick(&[ending(old.clone()), new.clone()]), not_ready("new", "Running"));
        assert_eq!(pick(&[ending(old)]), not_ready("old", "it is being ended"));
        assert_eq!(pick(&[]), Err(ReachError::NoPod));
        let mut waits = new.clone();
        waits["status"]["containerStatuses"] =
            json!([{ "state": { "waiting": { "reason": "ImagePullBackOff" } } }]);
        assert_eq!(pick(&[waits]), not_ready("new", "ImagePullBackOff"));
        let mut unplaced = new;
        unplaced["status"]["conditions"] =
            json!([{ "type": "PodScheduled", "status": "False", "message": "no room" }]);
        assert_eq!(pick(&[unplaced]), not_ready("new", "no room"));
    }

    #[tokio::test]
    async fn a_person_without_the_right_is_told_which() {
        let cluster = scripted(|_, path, _| match path.contains("configmaps") {
            true => failed(403, "anna may not"),
            false => failed(401, "Unauthorized"),
        });
        let missing = notice(&cluster.client()).await.unwrap_err();
        let message = "anna may not".to_owned();
        assert_eq!(missing, ReachError::NoRight { right: "get configmaps", message });
        let unknown = pod(&cluster.client()).await.unwrap_err();
        assert_eq!(unknown, ReachError::Unknown("Unauthorized".to_owned()));
        let cluster = scripted(|_, _, _| failed(404, "not found"));
        let absent = notice(&cluster.client()).await.unwrap_err();
        assert!(absent.to_string().ends_with("is not there"), "{absent}");
    }

    #[tokio::test]
    async fn the_daemon_says_it_in_the_one_config_map() {
        let cluster = scripted(|method, path, body| {
            let place = "/api/v1/namespaces/mercato/configmaps/mercato-admin?";
            assert!(method == "PATCH" && path.starts_with(place), "{method} {path}");
            let notice = read(&body["data"]).unwrap();
            assert_eq!(notice.port, 7_480);
            (200, body)
        });
        let notice = Notice { port: 7_480, certificate: "c".to_owned() };
        tell(&cluster, &notice).await.unwrap();
        let cluster = scripted(|_, _, _| failed(403, "no"));
        let failure = tell(&cluster, &notice).await.unwrap_err();
        assert!(failure.message.contains("config/deploy/"), "{failure}");
    }
}
