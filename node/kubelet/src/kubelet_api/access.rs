//! What a user may do: SubjectAccessReviews on the node's subresources, the
//! narrow one before `nodes/proxy`, as the kubelet of 1.35 asks them. Which right a
//! request needs is for `target` to say, from the same value that is then served.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::target::Right;
use super::user::User;
use crate::apiserver::callers::Caller;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::SUBJECT_ACCESS_REVIEW;
use crate::limits;
use crate::repeated::Repeated;
use crate::warn_once;

/// Who may do what at one virtual node. Answers are remembered for a moment.
pub struct Access {
    /// For tokens, which anybody may bring.
    for_tokens: Cluster,
    /// For the rights of known users.
    for_rights: Cluster,
    node: String,
    tokens: Mutex<Remembered<[u8; 32], User>>,
    /// Digests of tokens that the API server knows nobody for.
    unknown: Mutex<Remembered<[u8; 32], ()>>,
    decisions: Mutex<Remembered<(User, &'static str, &'static str), bool>>,
    /// Why the API server did not judge.
    failing: Mutex<Repeated>,
}

/// What became of a request's credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// 401: the credentials are of nobody whom the API server knows.
    Unknown,
    /// 403, and for the log who and what.
    Denied(String),
    /// 429: too many requests of its network wait to be judged, or its user or network has too
    /// many connections.
    Busy,
}

impl Access {
    /// Asks `cluster` about the node of this name.
    pub fn new(cluster: &Cluster, node: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            for_tokens: cluster.apart(limits::REVIEWS_IN_FLIGHT),
            for_rights: cluster.apart(limits::REVIEWS_IN_FLIGHT),
            node: node.into(),
            tokens: Mutex::default(),
            unknown: Mutex::default(),
            decisions: Mutex::default(),
            failing: Mutex::default(),
        })
    }

    /// Judges one request. A failure is the API server's: nobody is let in.
    pub(super) async fn judge(
        &self,
        certified: Option<User>,
        token: Option<&str>,
        caller: &Caller,
        right: Right,
    ) -> Result<Verdict, Failure> {
        let verdict = self.ask(certified, token, caller, right).await;
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match &verdict {
            Ok(_) => {
                failing.is_over();
            }
            Err(why) => warn_once!(failing, why; "a request to a kubelet API could not be judged"),
        }
        drop(failing);
        verdict
    }

    async fn ask(
        &self,
        certified: Option<User>,
        token: Option<&str>,
        caller: &Caller,
        right: Right,
    ) -> Result<Verdict, Failure> {
        // Held until it is judged what the user may: there are tokens of all pods of a cluster.
        let mut leave = None;
        let user = match (certified, token) {
            (Some(user), _) => user,
            (None, Some(token)) => {
                leave = caller.busy();
                if leave.is_none() {
                    return Ok(Verdict::Busy);
                }
                match self.holder(token).await? {
                    Some(user) => user,
                    None => return Ok(Verdict::Unknown),
                }
            }
            (None, None) => return Ok(Verdict::Unknown),
        };
        let Right { verb, subresources } = right;
        for subresource in subresources {
            if self.may(&user, verb, subresource).await? {
                drop(leave);
                let has_place = caller.is_allowed(&user.name);
                return Ok(if has_place { Verdict::Allowed } else { Verdict::Busy });
            }
        }
        Ok(Verdict::Denied(format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)={subresources:?})",
            user.name,
        )))
    }

    async fn holder(&self, token: &str) -> Result<Option<User>, Failure> {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = recall(&self.tokens, &key) {
            return Ok(Some(known));
        }
        if recall(&self.unknown, &key).is_some() {
            return Ok(None);
        }
        let user = User::from_token(&self.for_tokens, token).await?;
        match &user {
            Some(user) => remember(&self.tokens, limits::REVIEWS, key, user.clone()),
            None => remember(&self.unknown, limits::UNKNOWN_TOKENS, key, ()),
        }
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
        let answer = self.for_rights.create(SUBJECT_ACCESS_REVIEW, None, review).await?;
        let allowed = answer["status"]["allowed"] == true && answer["status"]["denied"] != true;
        remember(&self.decisions, limits::REVIEWS, key, allowed);
        Ok(allowed)
    }
}

/// Answers with the time until which they are believed.
type Remembered<K, V> = BTreeMap<K, (Instant, V)>;

fn recall<K: Ord, V: Clone>(answers: &Mutex<Remembered<K, V>>, key: &K) -> Option<V> {
    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    let (until, value) = answers.get(key)?;
    (Instant::now() < *until).then(|| value.clone())
}

fn remember<K: Ord, V>(answers: &Mutex<Remembered<K, V>>, most: usize, key: K, value: V) {
    let now = Instant::now();
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    if answers.len() >= most {
        answers.retain(|_, (until, _)| now < *until);
    }
    // Full of fresh answers: this one is simply asked for again.
    if answers.len() < most {
        answers.insert(key, (now + limits::REVIEW_TTL, value));
    }
}
