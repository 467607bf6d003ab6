//! Which path is what, and who may ask it. What a kubelet serves and this one
//! does not is 501; another method is 405: a 404 would tell a client to look
//! elsewhere.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use mercato_protocol::id::ContractId;
use mercato_protocol::workload::Uid;
use serde_json::{Value, json};

use super::access::{Access, Verdict};
use super::figures::Figures;
use super::request::{Stream, upgrade};
use super::user::User;
use super::{figures_text, pass, pods, run};
use crate::listener::Stop;
use crate::packed::Packed;
use crate::query::Query;
use crate::stream::PeerStreams;
use crate::{clock, limits};

/// The pods of one virtual node, as home has them.
pub trait NodePods: Send + Sync + 'static {
    /// The uid of the pod of this name.
    fn uid(&self, namespace: &str, name: &str) -> Option<String>;
    /// All of them, as a kubelet lists them.
    fn list(&self) -> Vec<Packed>;
}

/// What stands behind one virtual node's listener.
pub struct VirtualKubelet {
    /// The node's name.
    pub name: String,
    /// The lease that the node stands for.
    pub contract: ContractId,
    /// Who may ask.
    pub access: Arc<Access>,
    /// The node's pods.
    pub pods: Arc<dyn NodePods>,
    /// The way to the provider.
    pub peer: Arc<dyn PeerStreams>,
}

impl VirtualKubelet {
    /// What [`Listener`](crate::Listener) serves.
    pub fn router(self) -> Router {
        let served = Served { node: self, figures: Figures::default(), since: clock::now() };
        Router::new().fallback(answer).with_state(Arc::new(served))
    }
}

struct Served {
    node: VirtualKubelet,
    figures: Figures,
    /// When it began.
    since: String,
}

/// A path that was understood.
enum Target {
    Stream { kind: Stream, namespace: String, pod: String, uid: Option<String> },
    Pods,
    RunningPods,
    Figures(Form),
    Metrics,
    Healthz,
    Configz,
    NotServed,
}

/// A form in which figures are given.
#[derive(Clone, Copy)]
enum Form {
    Summary,
    Resource,
    Cadvisor,
}

impl Target {
    fn parse(path: &str) -> Self {
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        let stream = |kind, namespace: &str, pod: &str, uid: Option<&str>| Self::Stream {
            kind,
            namespace: namespace.into(),
            pod: pod.into(),
            uid: uid.map(str::to_owned),
        };
        let in_container = |what: &str, container: &str| match what {
            "exec" => Stream::Exec(container.into()),
            "run" => Stream::Run(container.into()),
            _ => Stream::Attach(container.into()),
        };
        match parts[..] {
            ["containerLogs", ns, pod, container] => {
                stream(Stream::Logs(container.into()), ns, pod, None)
            }
            [what @ ("exec" | "attach" | "run"), ns, pod, container] => {
                stream(in_container(what, container), ns, pod, None)
            }
            [what @ ("exec" | "attach" | "run"), ns, pod, uid, container] => {
                stream(in_container(what, container), ns, pod, Some(uid))
            }
            ["portForward", ns, pod] => stream(Stream::PortForward, ns, pod, None),
            ["portForward", ns, pod, uid] => stream(Stream::PortForward, ns, pod, Some(uid)),
            ["pods"] => Self::Pods,
            ["runningpods"] => Self::RunningPods,
            ["stats", "summary"] => Self::Figures(Form::Summary),
            ["metrics", "resource"] => Self::Figures(Form::Resource),
            ["metrics", "cadvisor"] => Self::Figures(Form::Cadvisor),
            ["metrics"] => Self::Metrics,
            ["healthz", ..] => Self::Healthz,
            ["configz"] => Self::Configz,
            _ => Self::NotServed,
        }
    }

    fn takes(&self, method: &Method) -> bool {
        let (get, post) = (method == Method::GET, method == Method::POST);
        match self {
            Self::Stream { kind: Stream::Logs(_), .. } | Self::Pods | Self::RunningPods => get,
            Self::Figures(_) | Self::Metrics | Self::Healthz | Self::Configz => get,
            Self::Stream { kind: Stream::Run(_), .. } => post,
            Self::Stream { .. } => get || post,
            Self::NotServed => true,
        }
    }
}

async fn answer(
    State(served): State<Arc<Served>>,
    Extension(certified): Extension<Option<User>>,
    Extension(stop): Extension<Stop>,
    request: Request,
) -> Response {
    let node = &served.node;
    let (method, path) = (request.method(), request.uri().path());
    let token = bearer(request.headers());
    match node.access.judge(certified, token, method, path).await {
        Ok(Verdict::Allowed) => {}
        Ok(Verdict::Unknown) => return text(StatusCode::UNAUTHORIZED, "Unauthorized"),
        Ok(Verdict::Denied(why)) => return text(StatusCode::FORBIDDEN, &why),
        Err(error) => {
            tracing::warn!(%error, "a request to a kubelet API could not be judged");
            return text(StatusCode::SERVICE_UNAVAILABLE, "the API server cannot be asked");
        }
    }
    let target = Target::parse(path);
    if !target.takes(method) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    }
    match target {
        Target::Pods => json_text(pods::all(&node.pods.list())),
        Target::RunningPods => Json(pods::running(&node.pods.list())).into_response(),
        Target::Figures(form) => served.figures(form).await,
        Target::Metrics => {
            let (pods, containers) = pods::count(&node.pods.list());
            metrics(figures_text::own(&node.name, pods, containers))
        }
        Target::Healthz => text(StatusCode::OK, "ok"),
        Target::Configz => Json(configz()).into_response(),
        Target::NotServed => {
            text(StatusCode::NOT_IMPLEMENTED, "a virtual node does not serve this")
        }
        Target::Stream { kind, namespace, pod, uid } => {
            let known = node.pods.uid(&namespace, &pod);
            let Some(known) = known.filter(|known| uid.is_none_or(|uid| uid == *known)) else {
                let missing = format!("pod does not exist: {namespace}/{pod}");
                return text(StatusCode::NOT_FOUND, &missing);
            };
            let runs = matches!(kind, Stream::Run(_));
            let what = match kind.read(&Query::parse(request.uri().query())) {
                Ok(what) => what,
                Err(why) => return text(StatusCode::BAD_REQUEST, &why),
            };
            let (contract, uid) = (node.contract, Uid(known));
            let upgrade = upgrade(request.headers());
            let asked =
                mercato_protocol::stream::Request { contract, namespace, pod, uid, what, upgrade };
            if runs {
                return run::run(node.peer.as_ref(), asked).await;
            }
            pass::through(node.peer.as_ref(), asked, request, stop.0).await
        }
    }
}

impl Served {
    async fn figures(&self, form: Form) -> Response {
        let seen = match self.figures.read(&self.node).await {
            Ok(seen) => seen,
            Err(refused) => return pass::refusal(&refused),
        };
        match form {
            Form::Summary => {
                Json(figures_text::summary(&self.node.name, &self.since, &seen)).into_response()
            }
            Form::Resource => metrics(figures_text::resource(&seen)),
            Form::Cadvisor => metrics(figures_text::cadvisor(&seen)),
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

pub(super) fn text(status: StatusCode, body: &str) -> Response {
    let mut response = (status, body.to_owned()).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = header::HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}
