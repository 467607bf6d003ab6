//! One API server, reached with the daemon's own account: raw JSON in and out,
//! bounded concurrency, a time limit, failures classified. Which objects are
//! asked for is for others to say.

mod writes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use http::Request;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::{Kind, NAMESPACE};
use crate::apiserver::long_request;
use crate::apiserver::write_pace::{Held, WritePace};
use crate::limits;

pub(crate) use writes::Deletion;

/// What every request of this crate answers.
pub type Answer<T> = BoxFuture<'static, Result<T, Failure>>;

/// Some of the objects of a list.
pub(crate) struct Page {
    /// The objects of this page.
    pub(crate) items: Vec<Value>,
    /// Where the next page begins; none: there is none.
    next: Option<String>,
}

impl Page {
    /// Whether there are objects that are not in it.
    pub(crate) fn has_more(&self) -> bool {
        self.next.is_some()
    }
}

/// An API server and the right to use it. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    permits: Arc<Semaphore>,
    pace: Arc<WritePace>,
    /// How it is reached for what the client cannot say.
    reached: Option<Arc<Config>>,
}

impl Cluster {
    /// Takes the place of `client` for everything but watches and streams.
    pub fn new(client: Client) -> Self {
        let permits = Arc::new(Semaphore::new(limits::REQUESTS_IN_FLIGHT));
        Self { client, permits, pace: Arc::default(), reached: None }
    }

    /// The same, where it is also reached by this directly, without a proxy: for requests with a URI
    /// that is longer than the client's may be.
    #[must_use]
    pub fn reached_by(self, config: Config) -> Self {
        let reached = Some(config).filter(|config| config.proxy_url.is_none()).map(Arc::new);
        Self { reached, ..self }
    }

    /// Sends a request with this query, however long, besides its path; it does not count among the
    /// ordinary ones.
    pub(crate) fn send(
        &self,
        asked: Request<Body>,
        query: String,
    ) -> BoxFuture<'static, kube::Result<http::Response<Body>>> {
        match &self.reached {
            Some(config) => long_request::send(config, asked, query),
            None => {
                let why = "the URI is too long for the way to the API server";
                ready(Err(kube::Error::Service(why.into()))).boxed()
            }
        }
    }

    /// The same with permits of its own: what strangers can cause does not keep the rest
    /// waiting.
    pub(crate) fn apart(&self, requests: usize) -> Self {
        let permits = Arc::new(Semaphore::new(requests));
        Self { permits, ..self.clone() }
    }

    /// The objects that are written to as often as may be, and no more often.
    pub fn held(&self) -> Vec<Held> {
        self.pace.held(now())
    }

    /// How long so many writes to an object would wait for their turn.
    pub(crate) fn pace(&self, kind: Kind, ns: Option<&str>, name: &str, writes: u32) -> Duration {
        self.pace.wait(kind, ns, name, writes, now())
    }

    /// Waits until an object may be written to, without a request's permit.
    pub(crate) fn turn(&self, kind: Kind, ns: Option<&str>, name: &str) -> BoxFuture<'static, ()> {
        tokio::time::sleep(self.pace(kind, ns, name, 1)).boxed()
    }

    /// Counts a write to an object that is not paced otherwise, so that others have to wait for their turn.
    pub(crate) fn count_write(&self, kind: Kind, ns: Option<&str>, name: &str) {
        self.pace.count(kind, ns, name, now());
    }

    /// The client itself, for watches and streams, which are long and few.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client that asks nothing twice by itself, with a connection of its own.
    fn asks_once(&self) -> Result<Client, Failure> {
        match &self.reached {
            Some(config) => {
                let mut config = (**config).clone();
                config.default_retry = false;
                Ok(Client::try_from(config)?)
            }
            None => Ok(self.client()),
        }
    }

    /// The API server's version, `v1.35.4`: what a virtual node shows as its own.
    pub fn version(&self) -> Answer<String> {
        let answer = self.at("GET", Ok("/version".into()), "", None, "");
        async move { Ok(answer.await?["gitVersion"].as_str().unwrap_or_default().to_owned()) }
            .boxed()
    }

    /// What no other cluster has: the uid of its namespace `kube-system`.
    pub fn uid(&self) -> Answer<String> {
        let answer = self.at("GET", NAMESPACE.path(None, "kube-system"), "", None, "");
        async move {
            let uid = answer.await?["metadata"]["uid"].as_str().map(str::to_owned);
            uid.ok_or_else(|| Failure::refused("the namespace kube-system has no uid"))
        }
        .boxed()
    }

    /// The plurals of all kinds in a kind's group and version; none if there is no such group.
    pub(crate) fn resources(&self, of: Kind) -> Answer<Vec<String>> {
        let path = format!("/apis/{}", of.api_version());
        let answer = self.at("GET", Ok(path), "", None, "");
        async move {
            let list = match answer.await {
                Err(failure) if failure.class == Class::Missing => return Ok(Vec::new()),
                answer => answer?,
            };
            let plural = |kind: &Value| kind["name"].as_str().map(str::to_owned);
            Ok(list["resources"].as_array().into_iter().flatten().filter_map(plural).collect())
        }
        .boxed()
    }

    /// The object, or none if there is none.
    pub(crate) fn get(&self, kind: Kind, ns: Option<&str>, name: &str) -> Answer<Option<Value>> {
        let answer = self.at("GET", kind.path(ns, name), "", None, "");
        async move {
            match answer.await {
                Ok(object) => Ok(Some(object)),
                Err(failure) if failure.class == Class::Missing => Ok(None),
                Err(failure) => Err(failure),
            }
        }
        .boxed()
    }

    /// Every object of a kind that `query` selects (`labelSelector=…`, escaped
    /// by the caller), page by page.
    pub(crate) fn list(&self, kind: Kind, ns: Option<&str>, query: &str) -> Answer<Vec<Value>> {
        let (this, path, query) = (self.clone(), kind.collection(ns), query.to_owned());
        async move {
            let path = path?;
            let (mut items, mut next) = (Vec::new(), String::new());
            loop {
                let page = this.page(path.clone(), &query, &next).await?;
                items.extend(page.items);
                match page.next {
                    Some(token) => next = token,
                    None => return Ok(items),
                }
            }
        }
        .boxed()
    }

    /// The first page of what [`Self::list`] gives.
    pub(crate) fn first_page(&self, kind: Kind, ns: Option<&str>, query: &str) -> Answer<Page> {
        let (this, path, query) = (self.clone(), kind.collection(ns), query.to_owned());
        async move { this.page(path?, &query, "").await }.boxed()
    }

    fn page(&self, path: String, query: &str, from: &str) -> Answer<Page> {
        let query = format!("{query}&limit={}&continue={from}", limits::LIST_PAGE);
        let page = self.at("GET", Ok(path), &query, None, "");
        async move {
            let mut page = page.await?;
            let items = page["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            let next = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty());
            Ok(Page { next: next.map(str::to_owned), items })
        }
        .boxed()
    }

    fn at(
        &self,
        method: &'static str,
        path: Result<String, Failure>,
        query: &str,
        body: Option<Value>,
        content: &'static str,
    ) -> Answer<Value> {
        let (client, permits) = (self.client.clone(), self.permits.clone());
        let uri = path.map(|path| if query.is_empty() { path } else { format!("{path}?{query}") });
        async move {
            let body = body.map(|b| b.to_string().into_bytes()).unwrap_or_default();
            let mut request = Request::builder().method(method).uri(uri?);
            if !body.is_empty() {
                request = request.header("content-type", content);
            }
            let request = request.body(body).map_err(|e| Failure::refused(e.to_string()))?;
            let work = async {
                let _permit = permits.acquire().await;
                client.request::<Value>(request).await
            };
            match tokio::time::timeout(limits::REQUEST_TIMEOUT, work).await {
                Ok(answer) => Ok(answer?),
                Err(_) => Err(Failure::transient("the API server did not answer in time")),
            }
        }
        .boxed()
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn below(path: Result<String, Failure>, subresource: Option<&str>) -> Result<String, Failure> {
    path.map(|path| match subresource {
        Some(subresource) => format!("{path}/{subresource}"),
        None => path,
    })
}

/// What an object is sent as.
const JSON: &str = "application/json";
#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::apiserver::kind::{CONFIG_MAP, POD};
    use crate::testing::{scripted, status};

    #[tokio::test]
    async fn a_list_is_read_to_its_end() {
        let cluster = scripted(|_, path, _| {
            let last = path.contains("continue=next");
            let item = json!({ "metadata": { "name": if last { "b" } else { "a" } } });
            let token = if last { "" } else { "next" };
            (200, json!({ "items": [item], "metadata": { "continue": token } }))
        });
        assert_eq!(cluster.list(POD, None, "").await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn what_is_missing_is_none_and_what_is_refused_is_an_error() {
        let cluster = scripted(|_, path, _| {
            if path.contains("there") { status(403, "no") } else { status(404, "not found") }
        });
        assert_eq!(cluster.get(CONFIG_MAP, Some("shop"), "gone").await, Ok(None));
        assert!(cluster.get(CONFIG_MAP, Some("shop"), "there").await.is_err());
        assert!(cluster.get(CONFIG_MAP, Some("../kube-system"), "x").await.is_err());
    }
}
