//! The daemon's end: the admin API over TLS, at the loopback of its pod's node. Everybody on that
//! node reaches it, so that nobody is answered whom the API server does not know, and nothing
//! that it does not allow.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use axum::extract::{DefaultBodyLimit, Request as Asked, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use mercato_kubelet::admin::{Notice, tell};
use mercato_kubelet::kubelet_api::{Tls, User, certified_key, follow_client_ca};
use mercato_kubelet::{Caller, Cluster, Holder, Listener, Repeated, Reviews, warn_once};
use mercato_protocol::names::is_label;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::places::{Entered, Places, taken};
use super::rights::{self, Right};
use super::standing::Standing;
use crate::admin::{Answer, Class, OperatorApi, PATH, Problem, Request, status};
use crate::kubernetes::Kubernetes;
use crate::limits;
use crate::nodes::control::Certificate;

/// Answers until it is dropped.
pub(super) struct Desk {
    _listener: Listener,
    notice: Notice,
    tls: Arc<Tls>,
}

struct Served {
    api: Arc<dyn OperatorApi>,
    reviews: Reviews,
    places: Places,
    /// One looks at all that there is at a time: it takes many requests of the API server.
    doctor: Semaphore,
    /// Why the API server did not judge.
    failing: Mutex<Repeated>,
}

/// Serves the admin API to the people of this cluster, for ever: once the cluster answers, and once
/// the port is free. None: nobody is served.
pub(crate) async fn serve(
    kubernetes: Arc<dyn Kubernetes>,
    port: Option<u16>,
    api: Arc<dyn OperatorApi>,
    standing: Standing,
) {
    let Some(port) = port else { return };
    // A simulated one has no people.
    let Some(cluster) = kubernetes.resources().await else { return };
    let mut repeated = Repeated::default();
    let desk = loop {
        match Desk::open(&cluster, port, api.clone()).await {
            Ok(desk) => break desk,
            Err(error) => {
                let why = format!("{error:#}");
                standing.unheard(&why);
                warn_once!(repeated, why; "nobody is answered from a desk for now");
            }
        }
        tokio::time::sleep(limits::ADMIN_RETRY).await;
    };
    tokio::join!(
        follow_client_ca(&cluster, desk.tls.clone()),
        desk.keep_telling(&cluster, &standing)
    );
}

impl Desk {
    /// Listens, with a certificate that nobody has seen before.
    pub(super) async fn open(
        cluster: &Cluster,
        port: u16,
        api: Arc<dyn OperatorApi>,
    ) -> anyhow::Result<Self> {
        let drawn = Certificate::draw()?;
        let certificate = Certificate::read(&drawn)?.pem;
        let tls = Tls::new(certified_key(&drawn, &drawn)?)?;
        let served = Served {
            api,
            reviews: Reviews::new(cluster, mercato_kubelet::limits::ADMIN_REVIEW_TTL),
            places: Places::new(),
            doctor: Semaphore::new(1),
            failing: Mutex::default(),
        };
        let routes = Router::new()
            .route(PATH, post(answer))
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::new(served));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let time = Some(mercato_kubelet::limits::STRANGERS_TIME);
        let listener = Listener::bind(address, tls.clone(), routes, time);
        let listener = listener.await.with_context(|| format!("cannot listen at {address}"))?;
        let notice = Notice { port: listener.address().port(), certificate };
        Ok(Self { _listener: listener, notice, tls })
    }

    /// Says how it is known, and again: whoever takes that away is made good for.
    async fn keep_telling(&self, cluster: &Cluster, standing: &Standing) {
        let mut repeated = Repeated::default();
        loop {
            let wait = match tell(cluster, &self.notice).await {
                Ok(()) => {
                    repeated.is_over();
                    standing.served(self.notice.port);
                    limits::NODE_TELL
                }
                Err(failure) => {
                    standing.untold(self.notice.port, &failure.to_string());
                    warn_once!(repeated, failure; "nobody is told how the daemon is reached from a desk");
                    limits::ADMIN_TELL_AGAIN
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Where it listens, and how it is known.
    #[cfg(test)]
    pub(super) fn notice(&self) -> &Notice {
        &self.notice
    }

    /// Believes certificates of clients that this CA (PEM) has signed.
    #[cfg(test)]
    pub(super) fn set_client_ca(&self, pem: &str) {
        self.tls.set_client_ca(pem).unwrap();
    }
}

async fn answer(
    State(served): State<Arc<Served>>,
    Extension(certified): Extension<Option<User>>,
    Extension(caller): Extension<Caller>,
    asked: Asked,
) -> Response {
    match served.answer(certified, &caller, asked).await {
        Ok((answer, place)) => match serde_json::to_vec(&answer) {
            Ok(answer) => {
                let kind = [(CONTENT_TYPE, "application/json")];
                (kind, taken(answer.into(), place, limits::ADMIN_TAKEN)).into_response()
            }
            Err(error) => {
                let problem = Problem::failed(format!("the answer cannot be written: {error}"));
                (StatusCode::INTERNAL_SERVER_ERROR, Json(problem)).into_response()
            }
        },
        Err((code, problem)) => (code, Json(problem)).into_response(),
    }
}

impl Served {
    async fn answer(
        &self,
        certified: Option<User>,
        caller: &Caller,
        asked: Asked,
    ) -> Result<(Answer, Entered), (StatusCode, Problem)> {
        let token = bearer(asked.headers()).map(str::to_owned);
        let holder = self.reviews.holder_in_turn(certified, token.as_deref(), caller).await;
        let user = match self.judged(holder)? {
            Holder::Known(user, _) => user,
            Holder::Unknown => return Err((StatusCode::UNAUTHORIZED, unknown())),
            Holder::Busy => return Err((StatusCode::TOO_MANY_REQUESTS, busy())),
        };
        let too_many = || (StatusCode::TOO_MANY_REQUESTS, busy());
        let waiting = self.places.wait(&user.name).ok_or_else(too_many)?;
        let (request, right) = tokio::select! {
            judged = self.judge(&user, asked) => judged?,
            () = waiting.is_taken() => return Err(too_many()),
        };
        let place = self.places.is_allowed(&user.name, waiting).ok_or_else(too_many)?;
        if let Some(token) = &token {
            self.reviews.was_allowed(token);
        }
        if !caller.is_allowed(&user.name) {
            return Err(too_many());
        }
        let looks = matches!(request, Request::Doctor);
        let _turn = if looks { self.doctor.acquire().await.ok() } else { None };
        if !right.only_looks() {
            let Right { verb, resource, .. } = right;
            tracing::info!(user = user.name, verb, resource, "asked from a desk");
        }
        let answer = self.api.ask(request).await;
        let answer = answer.map_err(|problem| (status(problem.class), problem))?;
        Ok((answer, place))
    }

    /// What is asked, as soon as it has come, and the right to it, which the user has.
    async fn judge(
        &self,
        user: &User,
        asked: Asked,
    ) -> Result<(Request, Right), (StatusCode, Problem)> {
        let body = Limited::new(asked.into_body(), limits::ADMIN_REQUEST_BYTES).collect();
        let body = timeout(limits::ADMIN_ARRIVES, body).await;
        let unread = |what: &str| {
            let problem = Problem::new(Class::Usage, format!("the request {what}"));
            (StatusCode::BAD_REQUEST, problem.todo("run the daemon's own release of mercato"))
        };
        let late = unread("took too long to arrive");
        let body = body.map_err(|_| late)?;
        let body = body.map_err(|_| unread("is too long, or broke off"))?.to_bytes();
        let request: Request =
            serde_json::from_slice(&body).map_err(|_| unread("is none that this daemon knows"))?;
        let right = rights::needed(&request);
        if right.namespace.as_ref().is_some_and(|name| !name.is_empty() && !is_label(name)) {
            let problem = Problem::new(Class::Usage, "that is no name of a namespace");
            return Err((StatusCode::BAD_REQUEST, problem));
        }
        let allowed = self.reviews.may(user, &right.action()).await;
        if !self.judged(allowed)? {
            return Err((StatusCode::FORBIDDEN, denied(&user.name, &right)));
        }
        Ok((request, right))
    }

    /// What the API server has said. A failure is its own: nobody is let in.
    fn judged<T>(
        &self,
        said: Result<T, mercato_kubelet::Failure>,
    ) -> Result<T, (StatusCode, Problem)> {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match said {
            Ok(said) => {
                failing.is_over();
                Ok(said)
            }
            Err(why) => {
                warn_once!(failing, why; "a request from a desk could not be judged");
                let what = "the daemon could not ask its API server who you are and what you may";
                let problem = Problem::new(Class::Failed, what)
                    .todo("try again in a moment; see the daemon's log")
                    .because(&why);
                Err((StatusCode::SERVICE_UNAVAILABLE, problem))
            }
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

fn unknown() -> Problem {
    let what = "the daemon's API server does not know who you are";
    Problem::new(Class::Refused, what).todo("see who you are there: kubectl auth whoami").todo(
        "a token or a client certificate is shown to the daemon, as to the API server; \
               nothing else is",
    )
}

fn busy() -> Problem {
    Problem::failed("the daemon is busy with too many requests").todo("try again in a moment")
}

/// Who lacks which right, and what to ask for.
fn denied(user: &str, right: &Right) -> Problem {
    let Right { verb, resource, namespace } = right;
    let place = namespace.as_ref().map_or_else(
        || "in the whole cluster".to_owned(),
        |namespace| format!("in the namespace {namespace:?}"),
    );
    let what = format!("user {user:?} may not {verb} {resource}.mercato.dev {place}");
    let problem = Problem::new(Class::Refused, what)
        .todo(format!("an administrator gives that right by the role {}", right.role()));
    match (subject(user), bound(namespace.as_deref())) {
        (Some(subject), Some(bound)) => {
            problem.todo(format!("kubectl {bound} NAME --clusterrole {} {subject}", right.role()))
        }
        _ => problem,
    }
}

/// How a role is bound where it is needed; none: a shell might read something else in the name.
fn bound(namespace: Option<&str>) -> Option<String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match namespace {
        None => Some("create clusterrolebinding".to_owned()),
        Some(name) if !name.is_empty() && !name.starts_with('-') && name.chars().all(plain) => {
            Some(format!("-n {name} create rolebinding"))
        }
        Some(_) => None,
    }
}

/// As kubectl takes it; none: a shell might read something else in the name.
fn subject(user: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._@:/".contains(c);
    if user.is_empty() || !user.chars().all(plain) {
        return None;
    }
    let account = user.strip_prefix("system:serviceaccount:");
    Some(match account {
        Some(account) => format!("--serviceaccount {account}"),
        None => format!("--user {user}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_a_right_is_told_which_and_what_to_ask_for() {
        let right = rights::needed(&Request::RotateKey);
        let said = denied("anna", &right);
        assert_eq!(said.class.exit_code(), 4);
        let said = said.to_string();
        for part in [
            "user \"anna\" may not update keys.mercato.dev in the whole cluster",
            "the role mercato-owner",
            "kubectl create clusterrolebinding NAME --clusterrole mercato-owner --user anna",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let right = rights::needed(&Request::Unoffload("shop".to_owned()));
        let said = denied("system:serviceaccount:shop:ci", &right).to_string();
        assert!(said.contains("in the namespace \"shop\""), "{said}");
        let command = "kubectl -n shop create rolebinding NAME --clusterrole mercato-offloader \
            --serviceaccount shop:ci";
        assert!(said.contains(command), "{said}");
        for odd in ["", "-n", "a b", "a;rm", "Shop"] {
            assert_eq!(bound(Some(odd)), None);
        }
        for odd in ["", "a b", "a;rm", "a\u{202e}b", "$(a)"] {
            assert_eq!(subject(odd), None);
        }
    }
}
