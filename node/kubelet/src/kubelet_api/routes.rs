//! Answers what a request asks, once its user may: both go by the one parsed target.
//! What a kubelet serves and this one does not is 501; another method is 405: a 404
//! would tell a client to look elsewhere.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use mercato_protocol::kubelet_stream::RefusedReason;
use mercato_protocol::workload::Uid;
use serde_json::{Value, json};

use super::access::Verdict;
use super::figures::Figures;
use super::request::{Stream, upgrade};
use super::target::{Asked, Form, NotCanonical, Target};
use super::text::{as_status, text};
use super::user::User;
use super::virtual_kubelet::VirtualKubelet;
use super::{figures_text, pass, pods, run};
use crate::apiserver::callers::Caller;
use crate::apiserver::listener::Stop;
use crate::apiserver::long_line::LongQuery;
use crate::format::clock;
use crate::format::query::Query;
use crate::limits;

/// What [`Listener`](crate::Listener) serves of a node.
pub fn router(node: VirtualKubelet) -> Router {
    let served = Served { node, figures: Figures::default(), since: clock::now() };
    Router::new().fallback(answer).with_state(Arc::new(served))
}

struct Served {
    node: VirtualKubelet,
    figures: Figures,
    /// When the node's kubelet API began to serve.
    since: String,
}

async fn answer(
    State(served): State<Arc<Served>>,
    Extension(certified): Extension<Option<User>>,
    Extension(stop): Extension<Stop>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let asks_for_upgrade = upgrade(request.headers()).is_some();
    let answer = respond(&served, certified, stop, &caller, request).await;
    if asks_for_upgrade { as_status(answer).await } else { answer }
}

async fn respond(
    served: &Served,
    certified: Option<User>,
    stop: Stop,
    caller: &Caller,
    request: Request,
) -> Response {
    let node = &served.node;
    let asked = match Asked::parse(request.method(), request.uri().path()) {
        Ok(asked) => asked,
        Err(NotCanonical) => return text(StatusCode::BAD_REQUEST, &NotCanonical.to_string()),
    };
    let token = bearer(request.headers());
    match node.access.judge(certified, token, caller, asked.right()).await {
        Ok(Verdict::Allowed) => {}
        Ok(Verdict::Unknown) => return text(StatusCode::UNAUTHORIZED, "Unauthorized"),
        Ok(Verdict::Busy) => return text(StatusCode::TOO_MANY_REQUESTS, "Too many requests"),
        Ok(Verdict::Denied(why)) => return text(StatusCode::FORBIDDEN, &why),
        Err(_) => {
            return text(StatusCode::SERVICE_UNAVAILABLE, "the API server cannot be asked");
        }
    }
    let Some(target) = asked.served() else {
        return text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    };
    match target {
        Target::Pods => json_text(pods::all(&node.pods.list())),
        Target::RunningPods => Json(pods::running(&node.pods.list())).into_response(),
        Target::Figures(form) => served.figures(form).await,
        Target::Metrics => {
            let (pods, containers) = pods::count(&node.pods.list());
            metrics(figures_text::own(&node.name, pods, containers))
        }
        Target::Probes => metrics(String::new()),
        Target::Healthz => text(StatusCode::OK, "ok"),
        Target::Configz => Json(configz()).into_response(),
        Target::NotServed(_) => {
            text(StatusCode::NOT_IMPLEMENTED, "a virtual node does not serve this")
        }
        Target::Stream { kind, namespace, pod, uid } => {
            let known = node.pods.uid(&namespace, &pod);
            let Some(known) = known.filter(|known| uid.is_none_or(|uid| uid == *known)) else {
                let missing = format!("pod does not exist: {namespace}/{pod}");
                return text(StatusCode::NOT_FOUND, &missing);
            };
            if let Some(why) = node.pods.not_offloaded(&namespace, &pod) {
                let said = format!("nothing of pod {pod} runs here: {why}");
                return text(StatusCode::BAD_REQUEST, &said);
            }
            let runs = matches!(kind, Stream::Run(_));
            let long = request.extensions().get::<LongQuery>().map(|LongQuery(query)| &**query);
            let what = match kind.read(&Query::parse(long.or(request.uri().query()))) {
                Ok(what) => what,
                Err(why) => return text(StatusCode::BAD_REQUEST, &why),
            };
            let (contract, uid) = (node.contract, Uid(known));
            let upgrade = upgrade(request.headers());
            let asked = mercato_protocol::kubelet_stream::Request {
                contract,
                namespace,
                pod,
                uid,
                what,
                upgrade,
            };
            if runs {
                return run::run(node.peer.as_ref(), asked).await;
            }
            pass::through(node.peer.as_ref(), asked, request, stop.0).await
        }
    }
}

impl Served {
    /// Where the provider's cluster measures nothing, there are no figures; whoever asks for them
    /// every few seconds would take an error for a node that is down.
    async fn figures(&self, form: Form) -> Response {
        let (name, since) = (&self.node.name, &self.since);
        match (self.figures.read(&self.node).await, form) {
            (Ok(seen), Form::Summary) => {
                Json(figures_text::summary(name, since, &seen)).into_response()
            }
            (Ok(seen), Form::Resource) => metrics(figures_text::resource(&seen)),
            (Ok(seen), Form::Cadvisor) => metrics(figures_text::cadvisor(&seen)),
            (Err(refused), _) if refused.reason != RefusedReason::NotServed => {
                pass::refusal(&refused)
            }
            (Err(_), Form::Summary) => Json(figures_text::unmeasured(name, since)).into_response(),
            (Err(_), Form::Resource | Form::Cadvisor) => metrics(String::new()),
        }
    }
}

fn json_text(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn metrics(body: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], body).into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// What a kubelet would say of its configuration.
fn configz() -> Value {
    json!({ "kubeletconfig": {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "enableServer": true,
        "enableDebuggingHandlers": true,
        "nodeLeaseDurationSeconds": limits::LEASE_SECONDS,
        "nodeStatusReportFrequency": format!("{}s", limits::LEASE_RENEWAL.as_secs()),
    } })
}
