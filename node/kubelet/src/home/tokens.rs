//! Service-account tokens of pods that left home: requested from home's API
//! server, bound to the home pod's uid, for the audience that the pod asks for,
//! and renewed before they expire. They end with the pod, whoever holds them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::body::Way;
use mercato_offload::forge::told::Note;
use mercato_offload::forge::{self, TokenRequest};
use mercato_offload::home::Input;
use mercato_offload::key::{Item, ObjectKey};
use mercato_offload::placement::export::{Departure, refusal_text};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::shared::Shared;
use super::write;
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::{POD, SERVICE_ACCOUNT};
use crate::limits;
use crate::pace::every;
use crate::repeated::Repeated;
use crate::warn_once;

/// The tokens that are watched; bounded by the pods.
#[derive(Default)]
pub(super) struct Tokens(Mutex<BTreeMap<ObjectKey, Token>>);

struct Token {
    due: Instant,
    /// Why it could not be had.
    repeated: Repeated,
}

impl Tokens {
    pub(super) fn watch(self: &Arc<Self>, shared: &Arc<Shared>, key: ObjectKey) {
        let due = Instant::now() + limits::TOKEN_RETRY;
        self.lock().insert(key.clone(), Token { due, repeated: Repeated::default() });
        let (this, shared) = (self.clone(), shared.clone());
        tokio::spawn(async move { this.renew(&shared, key).await });
    }

    pub(super) fn unwatch(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    /// Renews what is due, for ever.
    pub(super) fn keep_fresh(self: Arc<Self>, shared: Arc<Shared>) -> BoxFuture<'static, ()> {
        async move {
            let mut tick = every(limits::TOKEN_RETRY);
            let renewing = async {
                loop {
                    tick.tick().await;
                    for key in self.due() {
                        self.renew(&shared, key).await;
                    }
                }
            };
            tokio::select! { () = shared.stop.cancelled() => {} () = renewing => {} }
        }
        .boxed()
    }

    async fn renew(&self, shared: &Arc<Shared>, key: ObjectKey) {
        let pod = forge::token_pod(&key.name).and_then(|uid| shared.pods.get(&uid));
        let requests = pod.map(|pod| leaving(shared, &pod.open())).unwrap_or_default();
        let Some(request) = requests.into_iter().find(|request| request.key == key) else { return };
        // No token is given in a namespace that is ending.
        if shared.life(&key.namespace).is_none() {
            return self.postpone(&key, limits::TOKEN_RETRY);
        }
        let (digest, wait) = match issue(shared, &request).await {
            Ok((object, wait)) => {
                match shared.bodies.keep(Way::ToGuest, &Item::Object(key.clone()), &object) {
                    Ok(digest) => (Some(digest), wait),
                    Err(refusal) => {
                        if let Some(token) = self.lock().get_mut(&key) {
                            let why = refusal_text(&refusal);
                            warn_once!(token.repeated, why; %key, "a token cannot cross");
                        }
                        return self.postpone(&key, limits::TOKEN_RETRY);
                    }
                }
            }
            Err(failure) => {
                self.failed(shared, &request, &failure);
                if failure.class != Class::Missing {
                    return self.postpone(&key, limits::TOKEN_RETRY);
                }
                (None, limits::TOKEN_RETRY)
            }
        };
        if let Some(token) = self.lock().get_mut(&key).filter(|_| digest.is_some()) {
            token.repeated = Repeated::default();
        }
        self.postpone(&key, wait);
        shared.tell(Input::Object { key, digest }).await;
    }

    /// The pod's owner is told of what does not pass by itself: over there the guest waits for a file
    /// that never comes.
    fn failed(&self, shared: &Arc<Shared>, request: &TokenRequest, failure: &Failure) {
        let TokenRequest { key, pod, audience, .. } = request;
        let mut tokens = self.lock();
        let Some(token) = tokens.get_mut(key) else { return };
        if token.repeated.is_news(failure) {
            // Once for each reason.
            tracing::warn!(%failure, %key, "no token");
            if failure.class == Class::Refused {
                let note = Note::token_refused(audience.as_deref(), &failure.message);
                tokio::spawn(write::told(shared.clone(), pod.key(), vec![note]));
            }
        }
    }

    fn due(&self) -> Vec<ObjectKey> {
        let now = Instant::now();
        let tokens = self.lock();
        tokens.iter().filter(|(_, token)| token.due <= now).map(|(key, _)| key.clone()).collect()
    }

    fn postpone(&self, key: &ObjectKey, wait: Duration) {
        if let Some(token) = self.lock().get_mut(key) {
            token.due = Instant::now() + wait;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Token>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tokens that leave with a pod, by what is known of its namespace now.
fn leaving(shared: &Shared, pod: &Value) -> Vec<TokenRequest> {
    match shared.departure(pod, &shared.opted_in.borrow()) {
        Departure::Leaves(permit) => permit.token_requests(pod),
        Departure::Undecided | Departure::Stays { .. } => Vec::new(),
    }
}

/// A fresh token as the object that crosses, and how long until the next.
async fn issue(shared: &Shared, request: &TokenRequest) -> Result<(Value, Duration), Failure> {
    let pod = &request.pod;
    let seconds = i64::try_from(request.expiration_s).unwrap_or(i64::MAX);
    let seconds = seconds.clamp(SHORTEST, limits::TOKEN_SECONDS);
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": request.audience.iter().collect::<Vec<_>>(),
            "expirationSeconds": seconds,
            "boundObjectRef": {
                "apiVersion": POD.api_version(), "kind": POD.kind, "name": pod.name,
                "uid": pod.uid,
            },
        },
    });
    let (ns, name) = (Some(pod.namespace.as_str()), request.service_account.as_str());
    let answer = shared.cluster.create_at(SERVICE_ACCOUNT, ns, name, "token", review).await?;
    let token = answer["status"]["token"].as_str();
    let token = token.ok_or_else(|| Failure::transient("the API server gave no token"))?;
    let object = forge::export_token(&pod.namespace, &request.key.name, token);
    // As a kubelet: after 80 % of its life.
    let wait = Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).mul_f64(0.8);
    Ok((object, wait))
}

/// The API server's own minimum, seconds.
const SHORTEST: i64 = 600;
