//! What a user may do: SubjectAccessReviews on the node's subresources, the
//! narrow one before `nodes/proxy`, as the kubelet of 1.35 asks them.
//!
//! In one point stricter than that kubelet: what runs something in a pod needs
//! the verb `create` also when it is asked with GET, as WebSocket does; a
//! right to read `nodes/proxy` is not a right to a shell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::user::User;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kind::SUBJECT_ACCESS_REVIEW;
use crate::limits;

/// Who may do what at one virtual node. Answers are remembered for a moment.
pub struct Access {
    cluster: Cluster,
    node: String,
    tokens: Mutex<Remembered<[u8; 32], Option<User>>>,
    decisions: Mutex<Remembered<(User, &'static str, &'static str), bool>>,
}

/// What became of a request's credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// 401: nobody we know.
    Unknown,
    /// 403, and for the log who and what.
    Denied(String),
}

impl Access {
    /// Asks `cluster` about the node of this name.
    pub fn new(cluster: Cluster, node: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            node: node.into(),
            tokens: Mutex::default(),
            decisions: Mutex::default(),
        })
    }

    /// Judges one request. A failure is the API server's: nobody is let in.
    pub(super) async fn judge(
        &self,
        certified: Option<User>,
        token: Option<&str>,
        method: &Method,
        path: &str,
    ) -> Result<Verdict, Failure> {
        let user = match (certified, token) {
            (Some(user), _) => user,
            (None, Some(token)) => match self.holder(token).await? {
                Some(user) => user,
                None => return Ok(Verdict::Unknown),
            },
            (None, None) => return Ok(Verdict::Unknown),
        };
        let verb = verb(method, path);
        for subresource in subresources(path) {
            if self.may(&user, verb, subresource).await? {
                return Ok(Verdict::Allowed);
            }
        }
        Ok(Verdict::Denied(format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)={:?})",
            user.name,
            subresources(path),
        )))
    }

    async fn holder(&self, token: &str) -> Result<Option<User>, Failure> {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = recall(&self.tokens, &key) {
            return Ok(known);
        }
        let user = User::from_token(&self.cluster, token).await?;
        remember(&self.tokens, key, user.clone());
        Ok(user)
    }

    async fn may(
        &self,
        user: &User,
        verb: &'static str,
        subresource: &'static str,
    ) -> Result<bool, Failure> {
        let key = (user.clone(), verb, subresource);
        if let Some(known) = recall(&self.decisions, &key) {
            return Ok(known);
        }
        let extra: Value = serde_json::from_str(&user.extra).unwrap_or_default();
        let review = json!({
            "apiVersion": SUBJECT_ACCESS_REVIEW.api_version(),
            "kind": SUBJECT_ACCESS_REVIEW.kind,
            "spec": {
                "user": user.name, "groups": user.groups, "uid": user.uid, "extra": extra,
                "resourceAttributes": {
                    "verb": verb, "version": "v1", "resource": "nodes",
                    "subresource": subresource, "name": self.node,
                },
            },
        });
        let answer = self.cluster.create(SUBJECT_ACCESS_REVIEW, None, review).await?;
        let allowed = answer["status"]["allowed"] == true && answer["status"]["denied"] != true;
        remember(&self.decisions, key, allowed);
        Ok(allowed)
    }
}

/// Which subresources of the node stand for a path, in the order asked.
fn subresources(path: &str) -> &'static [&'static str] {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match first {
        "pods" | "runningpods" => &["pods", "proxy"],
        "healthz" => &["healthz", "proxy"],
        "configz" => &["configz", "proxy"],
        "stats" => &["stats"],
        "metrics" => &["metrics"],
        "logs" => &["log"],
        "checkpoint" => &["checkpoint"],
        _ => &["proxy"],
    }
}

fn verb(method: &Method, path: &str) -> &'static str {
    let runs = ["/exec/", "/attach/", "/run/", "/portForward/"];
    match method.as_str() {
        _ if runs.iter().any(|prefix| path.starts_with(prefix)) => "create",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "get",
    }
}

/// Answers with the time until which they are believed.
type Remembered<K, V> = BTreeMap<K, (Instant, V)>;

fn recall<K: Ord, V: Clone>(answers: &Mutex<Remembered<K, V>>, key: &K) -> Option<V> {
    let answers = answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (until, value) = answers.get(key)?;
    (Instant::now() < *until).then(|| value.clone())
}

fn remember<K: Ord, V>(answers: &Mutex<Remembered<K, V>>, key: K, value: V) {
    let now = Instant::now();
    let mut answers = answers.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if answers.len() >= limits::REVIEWS {
        answers.retain(|_, (until, _)| now < *until);
    }
    // Full of fresh answers: this one is simply asked for again.
    if answers.len() < limits::REVIEWS {
        answers.insert(key, (now + limits::REVIEW_TTL, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrow_subresource_comes_first() {
        assert_eq!(subresources("/pods"), ["pods", "proxy"]);
        assert_eq!(subresources("/runningpods/"), ["pods", "proxy"]);
        assert_eq!(subresources("/healthz/ping"), ["healthz", "proxy"]);
        assert_eq!(subresources("/configz"), ["configz", "proxy"]);
        assert_eq!(subresources("/metrics/cadvisor"), ["metrics"]);
        assert_eq!(subresources("/stats/summary"), ["stats"]);
        assert_eq!(subresources("/containerLogs/a/b/c"), ["proxy"]);
        // Not a subpath of /pods, so not readable with nodes/pods.
        assert_eq!(subresources("/podsx"), ["proxy"]);
    }

    #[test]
    fn reading_is_not_running() {
        assert_eq!(verb(&Method::GET, "/containerLogs/a/b/c"), "get");
        assert_eq!(verb(&Method::GET, "/exec/a/b/c"), "create");
        assert_eq!(verb(&Method::GET, "/portForward/a/b"), "create");
        assert_eq!(verb(&Method::POST, "/exec/a/b/c"), "create");
    }
}
