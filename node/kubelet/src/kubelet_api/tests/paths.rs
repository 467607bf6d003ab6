//! Whatever path and method are asked: the right that is asked for is that of what is served.

use axum::Extension;
use axum::body::Body;
use http::{Method, Request};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::super::User;
use super::super::target::Asked;
use super::*;
use crate::apiserver::callers::Caller;
use crate::apiserver::listener::Stop;

/// What became of one request of a user with these rights.
struct Outcome {
    status: u16,
    reviewed: Vec<String>,
    opened: Vec<Ask>,
}

async fn outcome(rights: &'static [&'static str], method: &Method, target: &str) -> Outcome {
    let (node, provider, reviews) = node(rights);
    let user = User { name: "anna".into(), ..User::default() };
    let stop = Stop(CancellationToken::new());
    let router = router(node).layer(Extension(Some(user))).layer(Extension(stop));
    let router = router.layer(Extension(Caller::of_test()));
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1")
        .header("x-stream-protocol-version", "v4.channel.k8s.io")
        .body(Body::empty())
        .unwrap();
    let status = router.oneshot(request).await.unwrap().status().as_u16();
    let reviewed = std::mem::take(&mut *reviews.lock().unwrap());
    let opened = std::mem::take(&mut *provider.asked.lock().unwrap());
    Outcome { status, reviewed, opened }
}

/// Whether it is a reader's: everything else runs something, or connects to it.
fn reads(ask: &Ask) -> bool {
    match ask {
        Ask::Usage { .. } | Ask::Node { .. } => true,
        Ask::Open(request) => match request.what {
            What::Logs(_) => true,
            What::Exec(_) | What::Attach(_) | What::PortForward { .. } => false,
        },
    }
}

/// Paths that mean something, and what people do to them.
fn path() -> impl Strategy<Value = String> {
    let real = prop::sample::select(vec![
        "/exec/shop/web/app",
        "/exec/shop/web/u1/app",
        "/attach/shop/web/app",
        "/attach/shop/web/u1/app",
        "/run/shop/web/runs",
        "/portForward/shop/web",
        "/portForward/shop/web/u1",
        "/containerLogs/shop/web/app",
        "/pods",
        "/runningpods/",
        "/stats/summary",
        "/healthz/ping",
    ]);
    let change = prop_oneof![
        Just("/"),
        Just("//"),
        Just("%2f"),
        Just("%2F"),
        Just("/."),
        Just("/.."),
        Just("/x/.."),
        Just("."),
        Just("%65"),
        Just("%00"),
        Just(";"),
        Just("\\"),
        Just("pods/"),
        Just("healthz/"),
        Just("stats/../"),
        Just("A"),
        Just(""),
    ];
    let before =
        prop::sample::select(vec!["", "/", "//", "/.", "/x/..", "/%2f", "/A/..", "/pods/.."]);
    let after = prop::sample::select(vec!["", "/", "//", "/.", "%2f"]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), change, 0..2_usize), 0..2);
    (real, before, after, edits).prop_map(|(real, before, after, edits)| {
        let mut path = format!("{before}{real}{after}");
        for (at, change, cut) in edits {
            let at = at.index(path.len() + 1);
            let until = (at + cut).min(path.len());
            path.replace_range(at..until, change);
        }
        path
    })
}

fn method() -> impl Strategy<Value = Method> {
    let others = [Method::HEAD, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
    let others = prop::sample::select(others.to_vec());
    prop_oneof![6 => Just(Method::GET), 3 => Just(Method::POST), 1 => others]
}

fn each(cases: u32, check: impl Fn(Method, String, &tokio::runtime::Runtime)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let any_path = prop_oneof![4 => path(), 1 => "/[a-zA-Z0-9/._%-]{0,40}"];
    runner
        .run(&(method(), any_path), |(method, path)| {
            check(method, path, &runtime);
            Ok(())
        })
        .unwrap();
}

/// As paths are before the query; what `http` itself does not take never comes here.
fn target(path: &str) -> Option<String> {
    let target = format!("{path}?command=id&cmd=id&input=1&output=1&port=80");
    let uri: http::Uri = target.parse().ok()?;
    uri.path().starts_with('/').then_some(target)
}

const READING: &[&str] = &[
    "get pods",
    "get proxy",
    "get healthz",
    "get configz",
    "get stats",
    "get metrics",
    "get log",
    "get checkpoint",
];

#[test]
fn a_right_to_read_never_runs_anything() {
    each(1000, |method, path, runtime| {
        let Some(target) = target(&path) else { return };
        let Outcome { status, opened, .. } = runtime.block_on(outcome(READING, &method, &target));
        assert!(opened.iter().all(reads), "{method} {target} is answered {status}: {opened:?}");
    });
}

const RUNNING: &[&str] = &["get proxy", "create proxy", "get pods", "get stats", "get healthz"];

#[test]
fn what_is_served_is_what_was_asked_for() {
    each(1000, |method, path, runtime| {
        let Some(target) = target(&path) else { return };
        let Outcome { status, reviewed, opened } =
            runtime.block_on(outcome(RUNNING, &method, &target));
        let Ok(asked) = Asked::parse(&method, &path) else {
            assert_eq!((status, reviewed.len(), opened.len()), (400, 0, 0), "{method} {target}");
            return;
        };
        let right = asked.right();
        let all = right.subresources.iter().map(|area| format!("{} {area}", right.verb));
        let all: Vec<_> = all.collect();
        // Asked in that order, to the first that is had.
        assert!(!reviewed.is_empty() && all.starts_with(&reviewed), "{reviewed:?} {all:?}");
        let has = reviewed.iter().any(|right| RUNNING.contains(&right.as_str()));
        assert_eq!(status == 403, !has, "{method} {target} is answered {status}");
        for ask in opened {
            assert!(has, "{method} {target} opens {ask:?}");
            assert!(reads(&ask) || reviewed == ["create proxy"], "{method} {target}");
        }
    });
}
