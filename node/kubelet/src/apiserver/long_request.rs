//! A request whose URI is longer than hyper writes: by a connection of its own, which ends with it.

use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{FutureExt, TryFutureExt};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::util::option_layer;
use tower::{BoxError, Layer, Service, service_fn};

use super::long_line::Lengthened;

/// Asks the API server that `config` names, with this query besides the request's path.
pub(super) fn send(
    config: &Config,
    asked: Request<Body>,
    query: String,
) -> BoxFuture<'static, kube::Result<Response<Body>>> {
    let config = config.clone();
    async move {
        let server = config.cluster_url.clone();
        let stream = config.rustls_https_connector()?.call(server.clone());
        let stream = stream.await.map_err(kube::Error::Service)?;
        let stream = TokioIo::new(Lengthened::new(TokioIo::new(stream), query));
        let (sender, connection) =
            http1::handshake(stream).await.map_err(kube::Error::HyperError)?;
        tokio::spawn(connection.with_upgrades());
        // Layers ask for a service of which there may be several; there is one request.
        let sender = Arc::new(Mutex::new(sender));
        let ask = service_fn(move |mut asked: Request<Body>| {
            // As hyper's own client writes it, which this goes around.
            let path = asked.uri().path_and_query().cloned();
            *asked.uri_mut() = Uri::from(path.unwrap_or(PathAndQuery::from_static("/")));
            let host = server.authority().and_then(|it| HeaderValue::from_str(it.as_str()).ok());
            asked.headers_mut().extend(host.map(|host| (header::HOST, host)));
            let mut sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
            sender.send_request(asked).map_err(BoxError::from)
        });
        let ask = config.extra_headers_layer()?.layer(ask);
        let ask = option_layer(config.auth_layer()?).layer(ask);
        let ask = config.base_uri_layer().layer(ask);
        Client::new(ask, config.default_namespace).send(asked).await
    }
    .boxed()
}
