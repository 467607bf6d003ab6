//! The page as a browser sees it, from a daemon that answers what a test says.

#![allow(clippy::wildcard_enum_match_arm, reason = "a script is of a few requests")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use axum::response::Response;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use mercato_broker::Market;
use mercato_protocol::negotiation::State;

use super::assets::{ASSETS, SHELL};
use super::serve::Page;
use super::serve::testing::{ask, by_browser};
use crate::admin::samples::{TURIN, deal, status};
use crate::admin::{Answer, Class, Deal, Event, EventKind, OperatorApi, Problem, Request};

/// The bytes of all files, and of each, that a browser is given at most.
const ASSET_BYTES: usize = 120 << 10;
/// The file as its authors publish it: htmx.org 4.0.1, `dist/htmx.min.js`.
const HTMX: &str = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130";

/// Answers what it was told to, and counts what it is asked.
#[derive(Default)]
struct Daemon {
    asked: Mutex<Vec<Request>>,
    deals: Mutex<Vec<Deal>>,
    events: Mutex<Vec<Event>>,
    away: Mutex<Option<Problem>>,
    market: Market,
}

impl OperatorApi for Daemon {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        self.asked.lock().unwrap().push(request.clone());
        let away = self.away.lock().unwrap().clone();
        let answer = match (away, request) {
            (Some(problem), _) => Err(problem),
            (None, Request::Status) => Ok(Answer::Status(status())),
            (None, Request::Deals) => Ok(Answer::Deals(self.deals.lock().unwrap().clone())),
            (None, Request::Peers) => Ok(Answer::Peers(Vec::new())),
            (None, Request::Browse { .. }) => Ok(Answer::Offers(self.market.clone())),
            (None, Request::Events(after)) => {
                let events = self.events.lock().unwrap();
                Ok(Answer::Events(events.iter().filter(|it| it.number > after).cloned().collect()))
            }
            (None, _) => Err(Problem::new(Class::Refused, "anna may not get marketpolicies")),
        };
        async move { answer }.boxed()
    }
}

/// A daemon from a desk: nobody is asked quietly before somebody has asked.
#[derive(Default)]
struct Desk {
    daemon: Daemon,
    is_open: AtomicBool,
}

impl OperatorApi for Desk {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        self.is_open.store(true, Ordering::Relaxed);
        self.daemon.ask(request)
    }

    fn ask_quietly(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        if self.is_open.load(Ordering::Relaxed) {
            return self.daemon.ask(request);
        }
        async { Err(Problem::new(Class::Unreachable, "the connection has ended")) }.boxed()
    }
}

async fn page(daemon: &Arc<Daemon>) -> Page {
    Page::listen(daemon.clone(), 0, Duration::from_secs(3_600)).await.unwrap()
}

async fn text(response: Response) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn seen(page: &Page, path: &str) -> String {
    text(ask(page, by_browser(page, path)).await).await
}

fn event(number: u64, kind: EventKind, said: &str) -> Event {
    Event { number, ..Event::of(kind, said) }
}

#[tokio::test]
async fn whichever_screen_comes_first_opens_the_connection_of_a_desk() {
    for path in ["/", "/market", "/leases", &format!("/offer/{TURIN}")] {
        let desk = Arc::new(Desk::default());
        let page = Page::listen(desk, 0, Duration::from_secs(3_600)).await.unwrap();
        let said = seen(&page, path).await;
        assert!(!said.contains("has ended"), "{path}: {said}");
    }
}

#[tokio::test]
async fn without_the_token_there_is_no_data() {
    let daemon = Arc::new(Daemon::default());
    let page = page(&daemon).await;
    for path in ["/", "/market", "/leases", "/news", "/again", "/doctor", "/save/x.csv", "/offer/x"]
    {
        let mut request = by_browser(&page, path);
        request.headers_mut().remove("mercato-token");
        let answer = ask(&page, request).await;
        assert_eq!(answer.status(), 403, "{path}");
        assert!(text(answer).await.contains("has not been given the page"), "{path}");
        let mut request = by_browser(&page, path);
        request.headers_mut().insert("mercato-token", "x".parse().unwrap());
        assert_eq!(ask(&page, request).await.status(), 403, "{path}");
    }
    for path in ["/", "/market?q=a", "/leases", "/lease/x", "/offer/x"] {
        let mut request = by_browser(&page, path);
        request.headers_mut().remove("hx-request");
        request.headers_mut().remove("mercato-token");
        assert_eq!(text(ask(&page, request).await).await, SHELL.text, "{path}");
    }
    assert!(daemon.asked.lock().unwrap().is_empty());
    // As htmx asks for an earlier screen.
    let mut request = by_browser(&page, "/market");
    request.headers_mut().remove("hx-request");
    assert!(text(ask(&page, request).await).await.contains("data-here=\"market\""));
}

#[tokio::test]
async fn what_a_browser_may_do_is_said_with_every_answer() {
    let page = page(&Arc::default()).await;
    for path in ["/", "/market", "/nothing", "/htmx.js", "/style.css", "/news"] {
        let answer = ask(&page, by_browser(&page, path)).await;
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{path}: {policy}");
        assert!(policy.ends_with("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
        let kept = if path.contains('.') { "no-cache" } else { "no-store" };
        assert_eq!(header("cache-control"), kept, "{path}");
        assert!(answer.headers().get("set-cookie").is_none(), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_daemon_is_asked_once_a_second_for_all_tabs_and_not_while_nobody_looks() {
    let daemon = Arc::new(Daemon::default());
    let page = page(&daemon).await;
    for _ in 0..10 {
        seen(&page, "/news").await;
    }
    let asked = std::mem::take(&mut *daemon.asked.lock().unwrap());
    assert_eq!(asked.iter().filter(|it| **it == Request::Status).count(), 1, "{asked:?}");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(daemon.asked.lock().unwrap().is_empty());
    seen(&page, "/news").await;
    let asked = std::mem::take(&mut *daemon.asked.lock().unwrap());
    assert!(asked.contains(&Request::Deals), "after a minute: {asked:?}");
    tokio::time::advance(Duration::from_secs(1)).await;
    seen(&page, "/news").await;
    let asked = std::mem::take(&mut *daemon.asked.lock().unwrap());
    assert_eq!(asked, [Request::Status, Request::Events(0)], "nothing has happened");
}

#[tokio::test(start_paused = true)]
async fn a_tab_is_told_what_is_old() {
    let daemon = Arc::new(Daemon::default());
    let page = page(&daemon).await;
    let told = async |after: u64| {
        tokio::time::advance(Duration::from_secs(1)).await;
        let answer = ask(&page, by_browser(&page, &format!("/news?after={after}"))).await;
        let trigger = answer.headers().get("hx-trigger").cloned();
        (trigger.map(|it| it.to_str().unwrap().to_owned()), text(answer).await)
    };
    let (_, first) = told(0).await;
    assert!(first.contains("/news?after=1\""), "{first}");
    assert_eq!(told(1).await.0, None);
    daemon.events.lock().unwrap().push(event(7, EventKind::OrderSent, "sent"));
    assert_eq!(told(1).await.0.as_deref(), Some("changed"));
    assert_eq!(told(1).await.0.as_deref(), Some("changed"), "another tab");
    assert_eq!(told(2).await.0, None);
    daemon.events.lock().unwrap().push(event(8, EventKind::OfferPublished, "turin offers"));
    assert_eq!(told(2).await.0.as_deref(), Some("changed, market"));
    assert!(seen(&page, "/").await.contains("turin offers"));
    *daemon.away.lock().unwrap() = Some(Problem::new(Class::Unreachable, "nobody is there"));
    let (trigger, news) = told(3).await;
    assert_eq!(trigger.as_deref(), Some("changed"));
    assert!(news.contains("class=\"trouble\"") && news.contains("nobody is there"), "{news}");
    assert!(seen(&page, "/").await.contains("turin offers"), "the last picture stays");
    *daemon.away.lock().unwrap() = None;
    // It begins to count anew.
    *daemon.events.lock().unwrap() = vec![event(1, EventKind::OfferPublished, "started")];
    let (trigger, news) = told(4).await;
    assert_eq!(trigger.as_deref(), Some("changed, market"));
    assert!(!news.contains("trouble"), "{news}");
    let now = seen(&page, "/").await;
    assert!(now.contains("started") && !now.contains("turin offers"), "{now}");
}

#[tokio::test]
async fn what_others_write_steers_nothing() {
    let evil = "<script>alert(1)</script>\u{202e}\u{1b}[31m".to_owned() + &"x".repeat(64 << 10);
    let mut bad = deal(State::Active);
    bad.peer_name = Some(evil.clone());
    bad.reason = Some(evil.clone());
    bad.note = evil.clone();
    bad.node = Some(evil.clone());
    let daemon = Arc::new(Daemon::default());
    daemon.deals.lock().unwrap().push(bad.clone());
    let mut said = event(1, EventKind::ContractActive, &evil);
    said.order = Some(bad.id);
    daemon.events.lock().unwrap().push(said);
    let page = page(&daemon).await;
    let lease = format!("/lease/{}", bad.id);
    for path in ["/", "/leases", &lease, &format!("/offer/{TURIN}"), "/news"] {
        let text = seen(&page, path).await;
        assert!(!text.contains("<script") && !text.contains("alert(1)<"), "{path}");
        assert!(text.chars().all(|c| c == '\n' || mercato_protocol::text::is_plain(c)), "{path}");
        assert!(text.len() < 20 << 10, "{path}: {} bytes", text.len());
    }
    assert!(seen(&page, &lease).await.contains("&#60;script&#62;"));
}

#[tokio::test]
async fn what_one_may_not_see_is_said() {
    let daemon = Arc::new(Daemon::default());
    let denied = Problem::new(Class::Refused, "anna may not list contracts")
        .todo("an administrator gives that right by the role mercato-viewer:");
    *daemon.away.lock().unwrap() = Some(denied);
    let page = page(&daemon).await;
    for path in ["/", "/leases", "/market"] {
        let text = seen(&page, path).await;
        assert!(text.contains("anna may not list contracts"), "{path}: {text}");
        assert!(text.contains("by the role mercato-viewer"), "{path}: {text}");
    }
    assert!(!seen(&page, "/news").await.contains("trouble"), "the daemon is there");
}

#[tokio::test]
async fn lists_are_bounded_however_much_there_is() {
    let daemon = Arc::new(Daemon::default());
    let many = (0..2_000_u32).map(|n| {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_be_bytes());
        Deal { id: mercato_protocol::id::NegotiationId(id), ..deal(State::Active) }
    });
    daemon.deals.lock().unwrap().extend(many);
    let page = page(&daemon).await;
    let text = seen(&page, "/leases").await;
    assert_eq!(text.matches("id=\"row-").count(), 250);
    assert!(text.contains("and 1750 more"), "{}", text.len());
}

#[test]
fn what_the_browser_is_given_is_small_and_known() {
    let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
    assert!(bytes + SHELL.text.len() < ASSET_BYTES, "{bytes}");
    let script = ASSETS.iter().find(|asset| asset.path == "/page.js").unwrap();
    assert!(script.text.lines().count() < 150);
    let htmx = ASSETS.iter().find(|asset| asset.path == "/htmx.js").unwrap();
    assert_eq!(hex::encode(digest(&SHA256, htmx.text.as_bytes())), HTMX);
    assert!(!SHELL.text.contains("style=") && !SHELL.text.contains("onclick"));
}
