//! Writes to the objects of an API server: under the one field manager that is the daemon's, each once it
//! is the object's turn ([`write_pace`](crate::apiserver::write_pace)).

use futures::FutureExt;
use http::Request;
use serde_json::{Value, json};

use super::{Answer, Cluster, JSON, below, now};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::Kind;
use crate::limits;
use crate::names::FIELD_MANAGER;

/// What must hold for a deletion to happen, and how gently it does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deletion {
    /// Delete only the object with this uid: another of the same name survives.
    pub(crate) uid: Option<String>,
    /// Seconds; the object's own period if none.
    pub(crate) grace: Option<u64>,
}

/// A patch, and what type it is of.
struct Patch(Value, &'static str);

impl Cluster {
    /// Creates an object; one that exists is a conflict.
    pub(crate) fn create(&self, kind: Kind, ns: Option<&str>, object: Value) -> Answer<Value> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let answer = self.at("POST", kind.collection(ns), "", Some(object), JSON);
        self.paced(kind, ns, &name, answer)
    }

    /// Whether an object would be created: it is asked for, and not made.
    pub(crate) fn would_create(&self, kind: Kind, ns: Option<&str>, object: Value) -> Answer<()> {
        let answer = self.at("POST", kind.collection(ns), "dryRun=All", Some(object), JSON);
        async move { answer.await.map(drop) }.boxed()
    }

    /// Creates at a subresource: `token`, `eviction`.
    pub(crate) fn create_at(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Answer<Value> {
        let path = below(kind.path(ns, name), Some(subresource));
        self.at("POST", path, "", Some(object), JSON)
    }

    /// The same once, whatever is answered: the usual client asks again by itself where that is 429, which
    /// a budget says as well.
    pub(crate) fn create_once_at(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Answer<()> {
        let (client, path) = (self.asks_once(), below(kind.path(ns, name), Some(subresource)));
        async move {
            let body = object.to_string().into_bytes();
            let request = Request::post(path?).header("content-type", JSON).body(body);
            let request = request.map_err(|error| Failure::refused(error.to_string()))?;
            let client = client?;
            let asking = client.request::<Value>(request);
            match tokio::time::timeout(limits::REQUEST_TIMEOUT, asking).await {
                Ok(answer) => Ok(answer.map(drop)?),
                Err(_) => Err(Failure::transient("the API server did not answer in time")),
            }
        }
        .boxed()
    }

    /// Server-side apply under our one field manager; the fields are ours.
    pub(crate) fn apply(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        object: Value,
    ) -> Answer<Value> {
        self.patch(kind, ns, name, None, Patch(typed(kind, name, object), APPLY))
    }

    /// The same for the status subresource.
    pub(crate) fn apply_status(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        object: Value,
    ) -> Answer<Value> {
        self.patch(kind, ns, name, Some("status"), Patch(typed(kind, name, object), APPLY))
    }

    /// A JSON merge patch, of the object or of a subresource.
    pub(crate) fn merge(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        patch: Value,
    ) -> Answer<Value> {
        self.patch(kind, ns, name, subresource, Patch(patch, MERGE))
    }

    /// A strategic merge patch: lists with a key, as conditions, are merged by it.
    pub(crate) fn strategic(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        patch: Value,
    ) -> Answer<Value> {
        self.patch(kind, ns, name, subresource, Patch(patch, STRATEGIC))
    }

    /// Replaces an object; its `resourceVersion` guards against another's write.
    pub(crate) fn replace(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        object: Value,
    ) -> Answer<Value> {
        let answer = self.at("PUT", kind.path(ns, name), &managed(), Some(object), JSON);
        self.paced(kind, ns, name, answer)
    }

    /// Deletes an object. True if it was there, and the one that was meant.
    pub(crate) fn delete(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        how: Deletion,
    ) -> Answer<bool> {
        let mut options = json!({ "propagationPolicy": "Background" });
        let present = how.uid.as_ref().map(|_| self.get(kind, ns, name));
        if let Some(uid) = &how.uid {
            options["preconditions"] = json!({ "uid": uid });
        }
        if let Some(seconds) = how.grace {
            options["gracePeriodSeconds"] = seconds.into();
        }
        let answer = self.at("DELETE", kind.path(ns, name), "", Some(options), JSON);
        let (pace, ns, name) = (self.pace.clone(), ns.map(str::to_owned), name.to_owned());
        async move {
            match answer.await {
                Ok(_) => {
                    pace.forget(kind, ns.as_deref(), &name);
                    Ok(true)
                }
                Err(failure) if failure.class == Class::Missing => Ok(false),
                Err(failure) => match present {
                    // Another may have the name; or it was only changed at that moment.
                    Some(present) if failure.class == Class::Conflict => match present.await? {
                        Some(found) if found["metadata"]["uid"] == json!(how.uid) => Err(failure),
                        Some(_) | None => Ok(false),
                    },
                    Some(_) | None => Err(failure),
                },
            }
        }
        .boxed()
    }

    /// A patch and its type, for an object or a subresource, once it is the object's turn.
    fn patch(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        Patch(patch, content): Patch,
    ) -> Answer<Value> {
        let query = if content == APPLY { forced() } else { managed() };
        let path = below(kind.path(ns, name), subresource);
        let answer = self.at("PATCH", path, &query, Some(patch), content);
        self.paced(kind, ns, name, answer)
    }

    /// A write to an object, once it is the object's turn.
    fn paced(
        &self,
        kind: Kind,
        ns: Option<&str>,
        name: &str,
        answer: Answer<Value>,
    ) -> Answer<Value> {
        let (pace, ns, name) = (self.pace.clone(), ns.map(str::to_owned), name.to_owned());
        async move {
            let wait = pace.take(kind, ns.as_deref(), &name, now());
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            answer.await
        }
        .boxed()
    }
}

/// The object with the type and name that server-side apply demands.
fn typed(kind: Kind, name: &str, mut object: Value) -> Value {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.into();
    object["metadata"]["name"] = name.into();
    object
}

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn managed() -> String {
    format!("fieldManager={FIELD_MANAGER}")
}

fn forced() -> String {
    format!("{}&force=true", managed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::kind::POD;
    use crate::testing::{scripted, status};

    #[tokio::test]
    async fn another_object_of_the_name_survives() {
        let cluster = scripted(|method, _, body| {
            if method == "GET" {
                return (200, json!({ "metadata": { "uid": "u3" } }));
            }
            assert_eq!(body["gracePeriodSeconds"], 0);
            if body["preconditions"]["uid"] == "u1" { (200, json!({})) } else { status(409, "uid") }
        });
        let delete = |uid: &str| {
            let how = Deletion { uid: Some(uid.into()), grace: Some(0) };
            cluster.delete(POD, Some("shop"), "web", how)
        };
        assert_eq!(delete("u1").await, Ok(true));
        assert_eq!(delete("u2").await, Ok(false));
        assert!(delete("u3").await.is_err(), "it is there, and was changed as it was deleted");
    }
}
