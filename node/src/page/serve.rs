//! The listener on loopback, and which screen an address is.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use http::header::CONTENT_DISPOSITION;
use http::{HeaderMap, HeaderValue, StatusCode};
use mercato_broker::{Demand, Sort};
use mercato_protocol::id::{ClusterId, NegotiationId};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::answer::{html, plain, protect, with};
use super::assets::{ASSETS, SHELL};
use super::guard::{self, Names};
use super::memory::{Memory, Picture, is_gone};
use super::screens::{self, Asked, Frame, ProblemScreen};
use super::token::Token;
use crate::admin::{Class, Deal, OperatorApi, Problem};
use crate::limits;
use crate::present::text::now_ms;

/// A page that is served until the program ends.
pub(crate) struct Page {
    port: u16,
    listeners: Vec<TcpListener>,
    site: Arc<Site>,
}

/// What all requests have in common.
struct Site {
    names: Names,
    token: Token,
    memory: Memory,
    room: Semaphore,
    /// The file by which a browser is led here, until it has come.
    lead: Mutex<Option<NamedTempFile>>,
}

type Shared = State<Arc<Site>>;

impl Page {
    /// Listens on loopback, by IPv4 and, where there is that, by IPv6; at a free port if it is 0. Without
    /// a look for `idle` nothing more is shown.
    ///
    /// # Errors
    /// When the port is not to be had.
    pub(crate) async fn listen(
        api: Arc<dyn OperatorApi>,
        port: u16,
        idle: Duration,
    ) -> io::Result<Self> {
        let listeners = listen(port).await?;
        let port = listeners.first().map_or(Ok(port), |it| it.local_addr().map(|at| at.port()))?;
        let site = Site {
            names: Names::of(port),
            token: Token::new(idle),
            memory: Memory::new(api),
            room: Semaphore::new(limits::PAGE_REQUESTS),
            lead: Mutex::default(),
        };
        Ok(Self { port, listeners, site: Arc::new(site) })
    }

    /// The port at which it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The address for the person who has started the program, and for nobody else.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/#{}", self.port, self.site.token.text())
    }

    /// Keeps a file that leads to the address until a browser has come by it.
    pub(crate) fn lead(&self, file: NamedTempFile) {
        *self.site.lead.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    }

    /// Answers browsers until it is dropped.
    ///
    /// # Errors
    /// When a listener fails.
    pub(crate) async fn serve(self) -> io::Result<()> {
        let routes = routes(self.site);
        let serving = self.listeners.into_iter().map(|it| {
            let routes = routes.clone();
            async move { axum::serve(it, routes).await }
        });
        futures::future::try_join_all(serving).await.map(|_| ())
    }
}

/// One listener for each family, at the same port.
async fn listen(port: u16) -> io::Result<Vec<TcpListener>> {
    for _ in 0..TRIES {
        let first = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let port_there = first.local_addr()?.port();
        match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port_there))).await {
            Ok(second) => return Ok(vec![first, second]),
            // A free port was asked for, and somebody has it by IPv6: another one.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && port == 0 => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            // There is no IPv6 here.
            Err(_) => return Ok(vec![first]),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Ports that are tried where any will do.
const TRIES: usize = 8;

fn routes(site: Arc<Site>) -> Router {
    let routes = Router::new()
        .route("/", get(now))
        .route("/market", get(market))
        .route("/offer/{cluster}", get(offer))
        .route("/leases", get(leases))
        .route("/lease/{id}", get(lease))
        .route("/save/{file}", get(save))
        .route("/news", get(news))
        .route("/again", get(again))
        .route("/doctor", get(doctor));
    let routes = ASSETS.into_iter().fold(routes, |routes, asset| {
        routes.route(asset.path, get(move |asked: HeaderMap| async move { asset.response(&asked) }))
    });
    routes
        .fallback(|| async { plain(StatusCode::NOT_FOUND, "There is no such page.\n") })
        .layer(from_fn_with_state(site.clone(), guarded))
        .with_state(site)
}

/// Refuses who may not see, gives the shell to who has not asked by the script, and counts the rest.
async fn guarded(State(site): Shared, request: Request, next: Next) -> Response {
    let mut response = answered(&site, request, next).await;
    protect(response.headers_mut());
    response
}

async fn answered(site: &Site, request: Request, next: Next) -> Response {
    if let Err(refused) = guard::admit(&site.names, &request) {
        return refused;
    }
    let target = request.uri().path_and_query().map_or(0, |it| it.as_str().len());
    if target > limits::PAGE_TARGET {
        return plain(StatusCode::URI_TOO_LONG, "The address is too long.\n");
    }
    if guard::is_data(request.headers(), request.uri()) {
        if let Err(refused) = guard::shows_token(&site.token, &request) {
            return refused;
        }
        drop(site.lead.lock().unwrap_or_else(PoisonError::into_inner).take());
    } else if is_screen(request.uri().path()) {
        return SHELL.response(request.headers());
    }
    let Ok(_permit) = site.room.try_acquire() else {
        let text = "Too much is asked at once: try again in a moment.\n";
        return plain(StatusCode::SERVICE_UNAVAILABLE, text);
    };
    next.run(request).await
}

/// Whether a person may have the address in the address bar.
fn is_screen(path: &str) -> bool {
    let [fixed, by_id] = [&["/", "/market", "/leases"][..], &["/offer/", "/lease/"][..]];
    fixed.contains(&path) || by_id.iter().any(|start| path.starts_with(start))
}

async fn now(State(site): Shared) -> Response {
    html(&screens::now(&site.memory.look().await, now_ms()))
}

async fn leases(State(site): Shared, RawQuery(query): RawQuery) -> Response {
    let all = query.is_some_and(|query| query.split('&').any(|it| it == "all=1"));
    html(&screens::leases(&site.memory.look().await, all, now_ms()))
}

/// A search that cannot be read is said at its field, and what was found before stays.
async fn market(State(site): Shared, RawQuery(query): RawQuery, asked: HeaderMap) -> Response {
    let search = Asked::read(&query.unwrap_or_default());
    // The first look of all opens the connection, for which a login may be needed.
    site.memory.look().await;
    let found = match search.demand() {
        Some(demand) => Some(site.memory.api().browse(demand, search.explains()).await),
        None => None,
    };
    let source = asked.get("hx-source").map(HeaderValue::as_bytes);
    let is_away = matches!(&found, Some(Err(problem)) if is_gone(problem));
    let by_clock = source == Some(b"main#screen") && !asked.contains_key("mercato-first");
    if is_away && by_clock {
        // The clock has asked: what was found stays, and the line at the top says why.
        return with(StatusCode::NO_CONTENT, "text/html", String::new());
    }
    let is_wrong = found.is_none();
    let url = search.url();
    let mut response = html(&screens::market(search, found, now_ms()));
    if source != Some(b"form#search") {
        return response;
    }
    let mut told = |name, value| response.headers_mut().insert(name, value);
    if is_wrong {
        let wrong = HeaderValue::from_static("#wrong");
        told("hx-retarget", wrong.clone());
        told("hx-reselect", wrong);
    } else if let Ok(url) = HeaderValue::from_str(&url) {
        told("hx-replace-url", url);
    }
    response
}

async fn offer(State(site): Shared, Path(cluster): Path<String>) -> Response {
    let picture = site.memory.look().await;
    let Ok(cluster) = cluster.parse::<ClusterId>() else {
        return nothing("market", "/market", "a provider");
    };
    let demand = Demand { from: Some(cluster), sort: Sort::Price, ..Demand::default() };
    let found = site.memory.api().browse(demand, false).await.map(|market| market.offers);
    html(&screens::offer(cluster, found, &picture, now_ms()))
}

async fn lease(State(site): Shared, Path(id): Path<String>) -> Response {
    let picture = site.memory.look().await;
    let deal = match sought(&picture, &id) {
        Ok(deal) => deal,
        Err(problem) => return problem_screen("leases", "/leases", &problem),
    };
    let statement = match deal.billed {
        Some(_) => Some(site.memory.api().statement(deal.contract()).await),
        None => None,
    };
    html(&screens::lease(&deal, statement, &picture, now_ms()))
}

/// The statement of one lease, as a file.
async fn save(State(site): Shared, Path(file): Path<String>) -> Response {
    let picture = site.memory.look().await;
    let Some(id) = file.strip_suffix(".csv") else {
        return plain(StatusCode::NOT_FOUND, "There is no such file.\n");
    };
    let saved = async {
        let deal = sought(&picture, id)?;
        let statement = site.memory.api().statement(deal.contract()).await?;
        let us = picture.status.as_ref().map(|status| status.name.clone()).unwrap_or_default();
        Ok((deal.id.short(), screens::saved(&statement, &deal, &us)))
    };
    let found: Result<(String, String), Problem> = saved.await;
    match found {
        Ok((short, text)) => {
            let mut response = with(StatusCode::OK, "text/csv; charset=utf-8", text);
            let name = format!("attachment; filename=\"mercato-{short}.csv\"");
            if let Ok(name) = HeaderValue::from_str(&name) {
                response.headers_mut().insert(CONTENT_DISPOSITION, name);
            }
            response
        }
        Err(problem) => plain(StatusCode::NOT_FOUND, format!("{problem}\n")),
    }
}

fn sought(picture: &Picture, id: &str) -> Result<Deal, Problem> {
    let deals = picture.deals.as_ref().map_err(Clone::clone)?;
    let id: Option<NegotiationId> = id.parse().ok();
    let found = deals.iter().find(|deal| Some(deal.id) == id).cloned();
    found.ok_or_else(|| {
        Problem::new(Class::NoMatch, "there is no order or lease of this id, or none any more")
            .todo("see what there is: mercato contracts list --all")
    })
}

async fn news(State(site): Shared, RawQuery(query): RawQuery) -> Response {
    let picture = site.memory.look().await;
    told(&picture, after(query.as_deref()))
}

/// A person has asked for another try.
async fn again(State(site): Shared) -> Response {
    told(&site.memory.again().await, 0)
}

/// The number of the picture that a tab has.
fn after(query: Option<&str>) -> u64 {
    let number = query.and_then(|query| query.strip_prefix("after="));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// How the daemon is, and whether what the tab shows is old.
fn told(picture: &Picture, after: u64) -> Response {
    let mut response = html(&screens::news(picture));
    let events = match (picture.number > after, picture.market > after) {
        (_, true) => "changed, market",
        (true, false) => "changed",
        (false, false) => return response,
    };
    response.headers_mut().insert("hx-trigger", HeaderValue::from_static(events));
    response
}

async fn doctor(State(site): Shared, asked: HeaderMap) -> Response {
    if !guard::is_by_script(&asked) {
        return plain(StatusCode::NOT_FOUND, "There is no such page.\n");
    }
    html(&screens::findings(site.memory.api().doctor().await))
}

fn nothing(here: &'static str, list: &str, what: &str) -> Response {
    let problem = Problem::new(Class::NoMatch, format!("this is not the id of {what}"));
    problem_screen(here, list, &problem)
}

fn problem_screen(here: &'static str, list: &str, problem: &Problem) -> Response {
    let mut frame = Frame::empty(here);
    frame.lead_to(list);
    html(&ProblemScreen::new(frame, problem))
}

#[cfg(test)]
pub(super) mod testing {
    use axum::body::Body;

    use super::*;

    /// The answer to one request, without a listener.
    pub(in super::super) async fn ask(page: &Page, request: Request) -> Response {
        use tower::ServiceExt as _;
        let Ok(answer) = routes(page.site.clone()).oneshot(request).await;
        answer
    }

    /// A request as a browser makes it that has the token.
    pub(in super::super) fn by_browser(page: &Page, path: &str) -> Request {
        http::Request::get(path)
            .header("host", format!("127.0.0.1:{}", page.port))
            .header("hx-request", "true")
            .header(guard::TOKEN, page.site.token.text())
            .body(Body::empty())
            .unwrap()
    }
}
