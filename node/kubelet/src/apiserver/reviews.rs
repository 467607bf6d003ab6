//! Who has a bearer token, and what a user may do: TokenReviews and SubjectAccessReviews. Answers
//! are remembered for a moment, and for so many alone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::apiserver::callers::Caller;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::SUBJECT_ACCESS_REVIEW;
use crate::kubelet_api::User;
use crate::limits;

/// Asks one API server about users and their rights.
pub struct Reviews {
    /// For tokens, which anybody may bring.
    for_tokens: Cluster,
    /// For the rights of known users.
    for_rights: Cluster,
    /// How long an answer is believed.
    believed: Duration,
    tokens: Mutex<Remembered<[u8; 32], User>>,
    /// Digests of tokens whose holders were allowed something.
    allowed: Mutex<Remembered<[u8; 32], ()>>,
    /// Digests of tokens that the API server knows nobody for.
    unknown: Mutex<Remembered<[u8; 32], ()>>,
    decisions: Mutex<Remembered<(User, Action), bool>>,
}

/// What is to be done, as a rule of RBAC has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Action {
    /// Such as `get` or `create`.
    pub verb: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version of the group; empty for any.
    pub version: &'static str,
    /// The plural of what it is done to.
    pub resource: &'static str,
    /// The part of it; empty for all of it.
    pub subresource: &'static str,
    /// Where it is; empty: in the whole cluster.
    pub namespace: String,
    /// Which one of them; empty: all.
    pub name: String,
}

/// Whom the credentials of a request are of.
#[derive(Debug)]
pub enum Holder {
    /// A user. What is held counts as work for a stranger until it is dropped: until it is known
    /// what the user may, since each pod of a cluster has a token.
    Known(User, Option<OwnedSemaphorePermit>),
    /// Nobody whom the API server knows.
    Unknown,
    /// Too many of the caller's network wait for that already.
    Busy,
}

impl Reviews {
    /// Asks this cluster, and believes each answer for so long.
    pub fn new(cluster: &Cluster, believed: Duration) -> Self {
        Self {
            for_tokens: cluster.apart(limits::REVIEWS_IN_FLIGHT),
            for_rights: cluster.apart(limits::REVIEWS_IN_FLIGHT),
            believed,
            tokens: Mutex::default(),
            allowed: Mutex::default(),
            unknown: Mutex::default(),
            decisions: Mutex::default(),
        }
    }

    /// Whose the credentials of a request are: the user of a client certificate that TLS has
    /// verified, or else the holder of a token.
    ///
    /// # Errors
    /// When the API server does not say. Nobody is known then.
    pub fn holder<'a>(
        &'a self,
        certified: Option<User>,
        token: Option<&'a str>,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Holder, Failure>> {
        async move {
            match (certified, token) {
                (Some(user), _) => Ok(Holder::Known(user, None)),
                (None, Some(token)) => {
                    let Some(leave) = caller.busy() else { return Ok(Holder::Busy) };
                    let user = self.of_token(token).await?;
                    Ok(user.map_or(Holder::Unknown, |user| Holder::Known(user, Some(leave))))
                }
                (None, None) => Ok(Holder::Unknown),
            }
        }
        .boxed()
    }

    /// The same for a listener whose callers all come from one network, where nobody may keep the
    /// others out by tokens of nobody: who shows a token waits until it is its turn, and of one
    /// connection one at a time. Nobody waits whose token was known a moment ago, or whose holder
    /// was [allowed](Reviews::was_allowed) something: about that the API server is asked apart.
    ///
    /// # Errors
    /// When the API server does not say. Nobody is known then.
    pub fn holder_in_turn<'a>(
        &'a self,
        certified: Option<User>,
        token: Option<&'a str>,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Holder, Failure>> {
        async move {
            let (None, Some(token)) = (&certified, token) else {
                return self.holder(certified, token, caller).await;
            };
            let key = digest(token);
            let user = if let Some(user) = recall(&self.tokens, &key) {
                Some(user)
            } else if recall(&self.allowed, &key).is_some() {
                self.whose(&self.for_rights, token).await?
            } else {
                let Some(_alone) = caller.alone() else { return Ok(Holder::Busy) };
                let _leave = caller.waits().await;
                self.of_token(token).await?
            };
            if user.is_some() {
                caller.is_certified();
            }
            Ok(user.map_or(Holder::Unknown, |user| Holder::Known(user, None)))
        }
        .boxed()
    }

    /// The holder of this token was allowed something, which is remembered for a while.
    pub fn was_allowed(&self, token: &str) {
        let until = Instant::now() + limits::ALLOWED_TOKEN;
        remember(&self.allowed, limits::REVIEWS, digest(token), until, ());
    }

    async fn of_token(&self, token: &str) -> Result<Option<User>, Failure> {
        let key = digest(token);
        if let Some(known) = recall(&self.tokens, &key) {
            return Ok(Some(known));
        }
        if recall(&self.unknown, &key).is_some() {
            return Ok(None);
        }
        self.whose(&self.for_tokens, token).await
    }

    /// Asks the API server whose it is, by way of this client.
    async fn whose(&self, by: &Cluster, token: &str) -> Result<Option<User>, Failure> {
        let user = User::from_token(by, token).await?;
        let (key, until) = (digest(token), Instant::now() + self.believed);
        match &user {
            Some(user) => remember(&self.tokens, limits::REVIEWS, key, until, user.clone()),
            None => remember(&self.unknown, limits::UNKNOWN_TOKENS, key, until, ()),
        }
        Ok(user)
    }

    /// Whether the user may do that.
    ///
    /// # Errors
    /// When the API server does not say. Nothing is allowed then.
    pub fn may<'a>(
        &'a self,
        user: &'a User,
        action: &'a Action,
    ) -> BoxFuture<'a, Result<bool, Failure>> {
        async move {
            let key = (user.clone(), action.clone());
            if let Some(known) = recall(&self.decisions, &key) {
                return Ok(known);
            }
            let review = review(user, action);
            let answer = self.for_rights.create(SUBJECT_ACCESS_REVIEW, None, review).await?;
            let allowed = answer["status"]["allowed"] == true && answer["status"]["denied"] != true;
            let until = Instant::now() + self.believed;
            remember(&self.decisions, limits::REVIEWS, key, until, allowed);
            Ok(allowed)
        }
        .boxed()
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn review(user: &User, action: &Action) -> Value {
    let extra: Value = serde_json::from_str(&user.extra).unwrap_or_default();
    json!({
        "apiVersion": SUBJECT_ACCESS_REVIEW.api_version(),
        "kind": SUBJECT_ACCESS_REVIEW.kind,
        "spec": {
            "user": user.name, "groups": user.groups, "uid": user.uid, "extra": extra,
            "resourceAttributes": {
                "verb": action.verb, "group": action.group, "version": action.version,
                "resource": action.resource, "subresource": action.subresource,
                "namespace": action.namespace, "name": action.name,
            },
        },
    })
}

/// Answers with the time until which they are believed.
type Remembered<K, V> = BTreeMap<K, (Instant, V)>;

fn remember<K: Ord, V>(
    answers: &Mutex<Remembered<K, V>>,
    most: usize,
    key: K,
    until: Instant,
    value: V,
) {
    let now = Instant::now();
    let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    if answers.len() >= most {
        answers.retain(|_, (until, _)| now < *until);
    }
    // Full of fresh answers: this one is simply asked for again.
    if answers.len() < most {
        answers.insert(key, (until, value));
    }
}

fn recall<K: Ord, V: Clone>(answers: &Mutex<Remembered<K, V>>, key: &K) -> Option<V> {
    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    let (until, value) = answers.get(key)?;
    (Instant::now() < *until).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::testing::scripted;

    fn action() -> Action {
        Action {
            verb: "create",
            group: "mercato.dev",
            resource: "orders",
            namespace: "shop".to_owned(),
            ..Action::default()
        }
    }

    #[tokio::test]
    async fn what_is_asked_has_all_of_it_and_is_believed_for_a_moment() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let cluster = scripted(move |method, path, body| {
            assert_eq!(
                (method.as_str(), path),
                ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
            );
            count.fetch_add(1, Ordering::Relaxed);
            let spec = &body["spec"];
            assert_eq!(spec["extra"], json!({ "scopes": ["a"] }));
            let wanted = json!({
                "verb": "create", "group": "mercato.dev", "version": "", "resource": "orders",
                "subresource": "", "namespace": "shop", "name": "",
            });
            assert_eq!(spec["resourceAttributes"], wanted);
            (201, json!({ "status": { "allowed": spec["user"] == "anna" } }))
        });
        let user = |name: &str| User {
            name: name.to_owned(),
            extra: r#"{"scopes":["a"]}"#.to_owned(),
            ..User::default()
        };
        let reviews = Reviews::new(&cluster, Duration::from_secs(600));
        for _ in 0..2 {
            assert!(reviews.may(&user("anna"), &action()).await.unwrap());
            assert!(!reviews.may(&user("bert"), &action()).await.unwrap());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        let forgetful = Reviews::new(&cluster, Duration::ZERO);
        for _ in 0..2 {
            assert!(forgetful.may(&user("anna"), &action()).await.unwrap());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn denied_counts_for_more_than_allowed_and_no_answer_for_nothing() {
        let cluster =
            scripted(|_, _, _| (201, json!({ "status": { "allowed": true, "denied": true } })));
        let reviews = Reviews::new(&cluster, Duration::ZERO);
        assert!(!reviews.may(&User::default(), &action()).await.unwrap());
        let cluster = scripted(|_, _, _| (403, json!({ "kind": "Status", "code": 403 })));
        let reviews = Reviews::new(&cluster, Duration::ZERO);
        assert!(reviews.may(&User::default(), &action()).await.is_err());
    }

    #[tokio::test]
    async fn a_certificate_comes_before_a_token_and_nothing_is_nobody() {
        let cluster = scripted(|_, _, body| {
            let known = body["spec"]["token"] == "good";
            let user = json!({ "username": "anna", "groups": ["b", "a"] });
            (201, json!({ "status": { "authenticated": known, "user": user } }))
        });
        let reviews = Reviews::new(&cluster, Duration::from_secs(600));
        let caller = Caller::of_test();
        let named = |holder: Holder| match holder {
            Holder::Known(user, leave) => Some((user.name, leave.is_some())),
            Holder::Unknown => None,
            Holder::Busy => panic!("there is room"),
        };
        let certified = User { name: "api".to_owned(), ..User::default() };
        let both = reviews.holder(Some(certified), Some("good"), &caller).await.unwrap();
        assert_eq!(named(both), Some(("api".to_owned(), false)));
        let holder = async |token| named(reviews.holder(None, token, &caller).await.unwrap());
        assert_eq!(holder(Some("good")).await, Some(("anna".to_owned(), true)));
        assert_eq!(holder(Some("bad")).await, None);
        assert_eq!(holder(None).await, None);
        let all: Vec<_> = (0..limits::UNKNOWN_REQUESTS).filter_map(|_| caller.busy()).collect();
        let busy = reviews.holder(None, Some("good"), &caller).await.unwrap();
        assert!(matches!(busy, Holder::Busy), "{} are under way", all.len());
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_of_nobody_keep_nobody_out() {
        let cluster = scripted(|_, _, body| {
            let known =
                ["seen", "allowed", "new"].contains(&body["spec"]["token"].as_str().unwrap());
            (201, json!({ "status": { "authenticated": known, "user": { "username": "anna" } } }))
        });
        let reviews = Reviews::new(&cluster, Duration::from_secs(3));
        let caller = Caller::of_test();
        let holder = |token| reviews.holder_in_turn(None, Some(token), &caller);
        assert!(matches!(holder("allowed").await.unwrap(), Holder::Known(..)));
        reviews.was_allowed("allowed");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(matches!(holder("seen").await.unwrap(), Holder::Known(..)));
        // Tokens of nobody are looked at, as many at a time as there may be.
        let mut others: Vec<_> =
            (0..limits::UNKNOWN_REQUESTS).filter_map(|_| caller.busy()).collect();
        for token in ["seen", "allowed"] {
            assert!(matches!(holder(token).await.unwrap(), Holder::Known(..)), "{token}");
        }
        let mut new = holder("new");
        assert!((&mut new).now_or_never().is_none(), "it waits until it is its turn");
        let second = holder("nobody").await.unwrap();
        assert!(matches!(second, Holder::Busy), "one of a connection waits");
        others.pop();
        assert!(matches!(new.await.unwrap(), Holder::Known(..)));
    }
}
