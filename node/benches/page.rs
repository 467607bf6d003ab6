//! How long the market's screen takes out of a full order book: the real program on loopback, asked as a
//! browser asks it, in front of a real book behind an admin socket.
#![allow(clippy::unwrap_used, reason = "a bench may")]
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]
#![allow(missing_docs, reason = "criterion makes the functions")]

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../broker/tests/market/fair.rs"]
mod fair;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::routing::post;
use axum::{Json, Router};
use criterion::{Criterion, criterion_group, criterion_main};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use mercato_broker::{Broker, Demand};
use mercato_protocol::ad::Ad;
use serde_json::{Value, json};
use tokio::net::{TcpStream, UnixListener};
use tokio::runtime::Runtime;

use fair::{NOW, gpu, with_pool};

/// Providers in the book, each with so many pools: 22,000 offers.
const PROVIDERS: usize = 11_000;
const POOLS: usize = 2;
const OFFERS: usize = PROVIDERS * POOLS;
/// A search of each kind, as its address has it, and how it is called.
const SEARCHES: [(&str, &str); 3] = [
    ("all", "/market"),
    ("keystroke", "/market?q=gpu.model%3Dh100&cpu=8&memory=32Gi&gpu=h100%3D1&for=4h"),
    ("why not", "/market?q=gpu.model%3Dh100%2C+price.gpu.h100.EUR%3C%3D1%2Fh&tab=why"),
];

/// The nth provider of the book.
fn publisher(n: usize) -> Ad {
    const COUNTRIES: [&str; 5] = ["IT", "FR", "DE", "ES", "NO"];
    const MODELS: [(&str, u64); 4] = [("h100", 80), ("h200", 141), ("a100", 40), ("l4", 24)];
    let mut ad = fair::ad(&format!("provider-{n}"));
    fair::header(&mut ad).rows.clear();
    let body = fair::body(&mut ad);
    body.pools.clear();
    body.jurisdiction = Some(COUNTRIES[n % COUNTRIES.len()].to_owned());
    let price = format!(
        "cpu=0.0{} EUR/h, memory=0.00{} EUR/h, gpu.h100={}.{} EUR/h",
        1 + n % 9,
        1 + n % 9,
        1 + n % 3,
        n % 10
    );
    for pool in 0..POOLS {
        let kind = (n + pool) % 8;
        let gpus = MODELS.get(kind).map(|(model, gib)| gpu(model, 1 + n as u64 % 16, *gib));
        let free = format!("cpu={},memory={}Gi,pods=110", 8 + n % 64, 32 + n % 256);
        ad = with_pool(ad, &format!("p{pool:02}"), &free, &price, gpus);
    }
    ad
}

/// Answers as a daemon does that knows all these offers.
fn answer(book: &Broker, request: &Value) -> Value {
    if let Some(asked) = request.get("browse") {
        let demand: Demand = serde_json::from_value(asked["demand"].clone()).unwrap();
        let explain = asked["explain"].as_bool().unwrap_or_default();
        return json!({ "offers": book.browse(NOW, &demand, explain) });
    }
    match request.as_str() {
        Some("status") => json!({ "status": status() }),
        Some("deals") => json!({ "deals": [] }),
        Some("peers") => json!({ "peers": [] }),
        None if request.get("events").is_some() => json!({ "events": [] }),
        None | Some(_) => json!({ "share": { "policy": null, "ruled": false, "onSale": [] } }),
    }
}

fn status() -> Value {
    let id = "4f".repeat(32);
    json!({ "version": "0.1.0", "cluster": id, "name": "rome", "key": id, "dataDir": "/", "addresses": [],
        "health": null, "kubernetes": null, "kubernetesUid": null, "tunnels": [], "attention": [],
        "gateway": { "enabled": false, "port": null, "pool": null, "reason": null } })
}

/// The program, which ends with this.
struct Page(Child);

impl Drop for Page {
    fn drop(&mut self) {
        // It has ended, or is to.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it; where it is, and its token.
fn start(socket: &Path) -> (Page, String, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_mercato"));
    program.arg("page").arg("--socket").arg(socket).stdout(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (site, token) = line.trim().split_once("/#").unwrap();
    let host = site.trim_start_matches("http://").to_owned();
    (Page(child), host, token.to_owned())
}

async fn seen(
    sender: &mut SendRequest<Empty<Bytes>>,
    host: &str,
    token: &str,
    path: &str,
) -> Bytes {
    let request = Request::get(path).header("host", host).header("hx-request", "true");
    let request = request.header("mercato-token", token).body(Empty::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.into_body().collect().await.unwrap().to_bytes()
}

fn page(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let book = Arc::new(Mutex::new(fair::broker((0..PROVIDERS).map(publisher))));
    let listener = runtime.block_on(async { UnixListener::bind(&socket).unwrap() });
    let routes = Router::new().route(
        "/v1/ask",
        post(move |Json(request): Json<Value>| async move {
            Json(answer(&book.lock().unwrap(), &request))
        }),
    );
    runtime.spawn(async move { axum::serve(listener, routes).await });
    let (_page, host, token) = start(&socket);
    let mut sender = runtime.block_on(async {
        let stream = TcpStream::connect(&host).await.unwrap();
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    });
    let mut group = criterion.benchmark_group(format!("page/{OFFERS} offers"));
    group.sample_size(20);
    for (name, path) in SEARCHES {
        let bytes = runtime.block_on(seen(&mut sender, &host, &token, path)).len();
        println!("page/{name}: {bytes} bytes");
        group.bench_function(name, |bencher| {
            bencher.iter(|| runtime.block_on(seen(&mut sender, &host, &token, path)));
        });
    }
    group.finish();
}

criterion_group!(benches, page);
criterion_main!(benches);
