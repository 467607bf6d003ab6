//! Requests to the API server, counted on their way, watches and streams included.

use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use tower::{Layer, Service};

use super::Metrics;

/// Counts what a client asks.
#[derive(Clone)]
pub(crate) struct Requests(pub(crate) Metrics);

/// A client whose requests are counted.
#[derive(Clone)]
pub(crate) struct Counting<S> {
    inner: S,
    metrics: Metrics,
}

impl<S> Layer<S> for Requests {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { inner, metrics: self.0.clone() }
    }
}

impl<S, B, A> Service<Request<B>> for Counting<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (metrics, verb) = (self.metrics.clone(), verb(&request));
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            let code = |answer: &Response<A>| answer.status().as_u16().to_string();
            metrics.requested(verb, answer.as_ref().map_or("none".to_owned(), code));
            answer
        }
        .boxed()
    }
}

/// As Kubernetes names them, but that a list is a `get` as well.
fn verb<B>(request: &Request<B>) -> &'static str {
    let query = request.uri().query().unwrap_or_default();
    let watches = form_urlencoded::parse(query.as_bytes())
        .any(|(name, value)| name == "watch" && matches!(&*value, "true" | "1"));
    match *request.method() {
        Method::GET if watches => "watch",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}
