//! Pods that wait for a virtual node when their namespace comes home, or names other nodes. The webhook has
//! had them require one, which no write takes back: they would wait for ever. Those that somebody makes again
//! are ended, and come as their namespace says now; of all others it is said. Where pods may leave, only
//! those are ended that say that the webhook placed them (docs/adr/0058).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::placement::export::{OptIn, Strategy, is_outdated, must_leave, placed_by};
use serde_json::Value;

use crate::apiserver::cluster::{Answer, Cluster, Deletion};
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::POD;
use crate::limits;

/// What an event on such a pod is called.
pub const STRANDED: &str = "Stranded";

/// A pod that waits for a virtual node for ever, as its namespace lets none leave any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranded {
    /// The name of the pod.
    pub name: String,
    /// Which pod of that name.
    pub uid: Option<String>,
    /// Somebody makes it again once it is deleted.
    pub is_remade: bool,
    /// It says that the webhook placed it.
    pub is_placed: bool,
}

impl Stranded {
    /// Reads a pod, an object of an API server; none: it does not wait so.
    pub fn read(pod: &Value) -> Option<Self> {
        let metadata = &pod["metadata"];
        if !metadata["deletionTimestamp"].is_null() || !must_leave(pod) {
            return None;
        }
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        Some(Self {
            name: metadata["name"].as_str()?.to_owned(),
            uid: metadata["uid"].as_str().map(str::to_owned),
            is_remade: owners.into_iter().any(|owner| owner["controller"] == true),
            is_placed: placed_by(pod).is_some(),
        })
    }
}

/// The command that deletes these pods of a namespace.
pub fn deletion(namespace: &str, pods: &[String]) -> String {
    format!("kubectl -n {namespace} delete pod {}", pods.join(" "))
}

/// Pods of a namespace that wait for a virtual node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many there are, of those that were looked at.
    pub pods: usize,
    /// Not all were looked at.
    pub more: bool,
}

/// How many pods of a namespace wait: bound to no node, and for virtual ones alone. No more than a page
/// of them is looked at.
pub fn waiting(cluster: &Cluster, namespace: &str) -> Answer<Waiting> {
    let page = cluster.first_page(POD, Some(namespace), UNBOUND);
    async move {
        let page = page.await?;
        let pods = page.items.iter().filter_map(Stranded::read).count();
        Ok(Waiting { pods, more: page.has_more() })
    }
    .boxed()
}

/// Those of a namespace that would be made otherwise by what is said of it now (nothing: none may leave):
/// ends those that somebody makes again; where pods leave, of those alone that say that the webhook placed
/// them. Gives the names of the others, of which an event says so.
///
/// # Errors
/// When the API server does not answer. What it does not permit is among the others.
pub fn free(
    cluster: &Cluster,
    namespace: &str,
    how: Option<OptIn>,
) -> BoxFuture<'static, Result<Vec<String>, Failure>> {
    let (cluster, namespace) = (cluster.clone(), namespace.to_owned());
    let all_stay = how.as_ref().is_none_or(|how| how.strategy == Strategy::Local);
    let in_vain = move |pod: &&Value| {
        how.as_ref().is_none_or(|how| is_outdated(how.strategy, &how.targets, pod))
    };
    async move {
        let pods = cluster.list(POD, Some(&namespace), UNBOUND).await?;
        let (mut left, mut tries) = (Vec::new(), limits::STRANDED_TRIES);
        for pod in pods.iter().filter(in_vain).filter_map(Stranded::read) {
            let may_end = pod.is_remade && (all_stay || pod.is_placed);
            if may_end && ended(&cluster, &namespace, &pod, &mut tries).await? {
                continue;
            }
            let about = About::core(POD.kind, &namespace, &pod.name, pod.uid.clone());
            let line = deletion(&namespace, std::slice::from_ref(&pod.name));
            let message = format!(
                "it requires a virtual node that its namespace named when it was made, and does not name \
                 any more: delete it, and make it again: {line}"
            );
            let said = events::write_once(&cluster, about, EventType::Warning, STRANDED, &message);
            match said.await {
                Err(failure) if failure.is_transient() => return Err(failure),
                Ok(()) | Err(_) => left.push(pod.name),
            }
        }
        Ok(left)
    }
    .boxed()
}

/// The namespaces of which no pod waits in vain any more: each is looked at until that is done, and not
/// again before something else holds there.
#[derive(Debug, Default)]
pub struct Freed(Mutex<BTreeSet<String>>);

impl Freed {
    /// This one is looked at again, since something else holds there from now on.
    pub fn forget(&self, namespace: &str) {
        self.done().remove(namespace);
    }

    /// Forgets all namespaces but these.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.done().retain(|namespace| is_there(namespace));
    }

    /// Frees the pods of a namespace, unless that was done.
    pub fn free_once(
        &self,
        cluster: &Cluster,
        namespace: &str,
        how: &OptIn,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        let (cluster, namespace, how) = (cluster.clone(), namespace.to_owned(), how.clone());
        async move {
            if !self.done().contains(&namespace) {
                // Of those that are left their events tell.
                free(&cluster, &namespace, Some(how)).await?;
                self.done().insert(namespace);
            }
            Ok(())
        }
        .boxed()
    }

    fn done(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether such a pod goes, or is gone; not where the API server does not permit it. Its policies look at
/// the namespace as they know it, which takes a moment after the marks are gone: it is asked again, as often
/// as all pods together have tries.
async fn ended(
    cluster: &Cluster,
    namespace: &str,
    pod: &Stranded,
    tries: &mut u32,
) -> Result<bool, Failure> {
    loop {
        let how = Deletion { uid: pod.uid.clone(), grace: None };
        let Err(failure) = cluster.delete(POD, Some(namespace), &pod.name, how).await else {
            return Ok(true);
        };
        match failure.class {
            Class::Missing | Class::Conflict => return Ok(true),
            Class::Transient => return Err(failure),
            Class::Refused if *tries == 0 => return Ok(false),
            Class::Refused => {
                *tries -= 1;
                tokio::time::sleep(limits::STRANDED_AGAIN).await;
            }
        }
    }
}

const UNBOUND: &str = "fieldSelector=spec.nodeName%3D";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mercato_offload::placement::export::{Targets, admitted};
    use serde_json::json;

    use super::*;
    use crate::testing::{scripted, status};

    fn pod(name: &str, owner: Option<&str>, strategy: Strategy) -> Value {
        let mut pod =
            json!({ "metadata": { "name": name, "uid": format!("u-{name}") }, "spec": {} });
        if let Some(kind) = owner {
            pod["metadata"]["ownerReferences"] = json!([{ "kind": kind, "controller": true }]);
        }
        admitted(&OptIn { strategy, ..OptIn::default() }, pod)
    }

    fn going(mut pod: Value) -> Value {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        pod
    }

    /// What is written where these pods wait, and which are left, with these answers to deletions, of
    /// which the last holds on.
    async fn freed(
        pods: Vec<Value>,
        how: Option<OptIn>,
        answers: &'static [u16],
    ) -> (Result<Vec<String>, Failure>, Vec<String>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let cluster = scripted(move |method, path, body| {
            let name = path.split(['/', '?']).nth(6).unwrap_or_default().to_owned();
            match method.as_str() {
                "GET" if name.is_empty() || name.contains("fieldSelector") => {
                    (200, json!({ "items": pods }))
                }
                "GET" => {
                    let of = pods.iter().find(|pod| pod["metadata"]["name"] == *name);
                    (200, of.cloned().unwrap_or_default())
                }
                "DELETE" => {
                    let mut seen = seen.lock().unwrap();
                    let answer = answers[seen.len().min(answers.len() - 1)];
                    seen.push(format!("delete {name}"));
                    if answer == 200 { (200, json!({})) } else { status(answer, "no") }
                }
                _ => {
                    let of = body["involvedObject"]["name"].as_str().unwrap_or_default();
                    let (reason, line) = (&body["reason"], &body["message"]);
                    assert!(line.as_str().unwrap().ends_with(&format!("shop delete pod {of}")));
                    seen.lock().unwrap().push(format!("{} {of}", reason.as_str().unwrap()));
                    (201, json!({}))
                }
            }
        });
        let left = free(&cluster, "shop", how).await;
        let asked = asked.lock().unwrap().clone();
        (left, asked)
    }

    #[tokio::test]
    async fn who_waits_is_counted_by_the_page() {
        let page = |more: &'static str| {
            scripted(move |method, path, _| {
                assert!(method == "GET" && path.contains("spec.nodeName%3D&limit="), "{path}");
                let pods = [
                    pod("web", None, Strategy::Remote),
                    pod("home", None, Strategy::Both),
                    going(pod("going", None, Strategy::Remote)),
                ];
                (200, json!({ "metadata": { "continue": more }, "items": pods }))
            })
        };
        let count = async |more| waiting(&page(more), "shop").await;
        assert_eq!(count("").await, Ok(Waiting { pods: 1, more: false }));
        assert_eq!(count("x").await, Ok(Waiting { pods: 1, more: true }));
        let away = scripted(|_, _, _| status(503, "later"));
        assert!(waiting(&away, "shop").await.is_err());
    }

    #[tokio::test]
    async fn a_namespace_is_looked_at_until_that_is_done() {
        let (asked, freed) = (Arc::new(Mutex::new(0)), Freed::default());
        let seen = asked.clone();
        let cluster = scripted(move |_, _, _| {
            let mut asked = seen.lock().unwrap();
            *asked += 1;
            if *asked == 1 { status(503, "later") } else { (200, json!({ "items": [] })) }
        });
        let asks = || *asked.lock().unwrap();
        let local = OptIn { strategy: Strategy::Local, ..OptIn::default() };
        assert!(freed.free_once(&cluster, "shop", &local).await.is_err(), "the API server is away");
        for _ in 0..2 {
            freed.free_once(&cluster, "shop", &local).await.unwrap();
            assert_eq!(asks(), 2, "until it is done, and not again");
        }
        freed.keep(|namespace| namespace == "shop");
        freed.free_once(&cluster, "shop", &local).await.unwrap();
        assert_eq!(asks(), 2);
        freed.forget("shop");
        freed.free_once(&cluster, "shop", &local).await.unwrap();
        freed.keep(|_| false);
        freed.free_once(&cluster, "shop", &local).await.unwrap();
        assert_eq!(asks(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_made_again_is_ended_and_of_the_others_it_is_said() {
        let pods = || {
            vec![
                pod("web", Some("ReplicaSet"), Strategy::Remote),
                pod("bare", None, Strategy::Remote),
                pod("free", Some("ReplicaSet"), Strategy::Both),
                going(pod("going", Some("Job"), Strategy::Remote)),
            ]
        };
        let (left, asked) = freed(pods(), None, &[200]).await;
        assert_eq!(left.unwrap(), ["bare"]);
        assert_eq!(asked, ["delete web", "Stranded bare"]);
        // The policies learn a moment later that the marks are gone.
        let (left, asked) = freed(pods(), None, &[403, 403, 200]).await;
        assert_eq!(left.unwrap(), ["bare"]);
        assert_eq!(asked, ["delete web", "delete web", "delete web", "Stranded bare"]);
        // Those of an earlier release do not let it: it is said, and nothing waits for it.
        let two = [pods(), vec![pod("shop", Some("ReplicaSet"), Strategy::Remote)]].concat();
        let (left, asked) = freed(two, None, &[403]).await;
        assert_eq!(left.unwrap(), ["web", "bare", "shop"]);
        let deletions = asked.iter().filter(|asked| asked.starts_with("delete")).count();
        assert_eq!(deletions, limits::STRANDED_TRIES as usize + 2, "{asked:?}");
        assert_eq!(asked.last().unwrap(), "Stranded shop");
        assert_eq!(freed(pods(), None, &[404]).await.0.unwrap(), ["bare"]);
        assert!(freed(pods(), None, &[503]).await.0.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_node_that_is_not_named_any_more_is_made_again() {
        let these = |name: &str| Targets::new(vec![name.to_owned()]);
        let slip = these("mercato-turino");
        let waits = |name: &str, owners: Value| {
            let bare = json!({ "metadata": { "name": name, "uid": format!("u-{name}"),
                "ownerReferences": owners }, "spec": {} });
            let (strategy, targets) = (Strategy::Remote, slip.clone());
            admitted(&OptIn { strategy, targets, ..OptIn::default() }, bare)
        };
        let owned = || json!([{ "kind": "ReplicaSet", "controller": true }]);
        // Nothing tells that the webhook of an earlier release placed it.
        let mut earlier = waits("earlier", owned());
        earlier["metadata"]["annotations"] = Value::Null;
        let pods = [waits("web", owned()), waits("bare", json!([])), earlier];
        let how = |strategy, targets| Some(OptIn { strategy, targets, ..OptIn::default() });
        for how in [
            how(Strategy::Remote, these("mercato-turin")),
            how(Strategy::Both, these("mercato-turin")),
        ] {
            let (left, asked) = freed(pods.to_vec(), how, &[403, 200]).await;
            assert_eq!(left.unwrap(), ["bare", "earlier"]);
            assert_eq!(asked, ["delete web", "delete web", "Stranded bare", "Stranded earlier"]);
        }
        for strategy in [Strategy::Remote, Strategy::Both] {
            let (left, asked) = freed(pods.to_vec(), how(strategy, Targets::All), &[200]).await;
            assert_eq!(left.unwrap(), ["bare"]);
            assert_eq!(asked, ["delete web", "Stranded bare"], "{strategy:?}");
        }
        let same = how(Strategy::Remote, slip.clone());
        let (left, asked) = freed(pods.to_vec(), same, &[200]).await;
        assert!(left.unwrap().is_empty() && asked.is_empty(), "it waits for what is named");
    }
}
