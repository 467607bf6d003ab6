//! Health and metrics, as a monitor reads them, and a cluster that answers late.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::Daemon;

/// Status and body of a page.
pub(crate) fn page(daemon: &Daemon, path: &str) -> (u16, String) {
    let status = daemon.json(&["status", "-o", "json"]);
    let mut stream = TcpStream::connect(status["daemon"]["health"].as_str().unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

#[test]
fn two_daemons_are_watched_on_one_machine() {
    let rome = Daemon::start("rome", &[]);
    let turin = Daemon::start("turin", &[]);
    for daemon in [&rome, &turin] {
        assert_eq!(page(daemon, "/livez"), (200, "ok driver\n".to_owned()));
        let all = "ok driver\nok store\nok kubernetes\n".to_owned();
        assert_eq!(page(daemon, "/readyz"), (200, all.clone()));
        assert_eq!(page(daemon, "/healthz"), (200, all));
        let (status, metrics) = page(daemon, "/metrics");
        assert_eq!(status, 200);
        assert!(metrics.contains("\nmercato_kubernetes_up{} 1\n"), "{metrics}");
        assert!(metrics.contains("\nmercato_degraded 0\n"), "{metrics}");
        assert_eq!(page(daemon, "/other").0, 404);
    }
    rome.stop();
    turin.stop();
}

/// An API server that knows of nothing.
struct Empty {
    address: String,
    ends: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Empty {
    fn start(address: &str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let (ended, address) = (ends.clone(), address.to_owned());
        let serving = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                answer(stream.unwrap());
            }
        });
        Self { address, ends, serving: Some(serving) }
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(&self.address);
        self.serving.take().unwrap().join().unwrap();
    }
}

/// Answers one request, and closes.
fn answer(stream: TcpStream) {
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    if lines.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let (mut length, mut line) = (0, String::new());
    while lines.read_line(&mut line).unwrap_or(0) > 2 {
        if let Some(bytes) = line.to_lowercase().strip_prefix("content-length: ") {
            length = bytes.trim().parse().unwrap();
        }
        line.clear();
    }
    let _ = lines.read_exact(&mut vec![0; length]);
    let (status, body) = object(&first);
    let (mut stream, body) = (lines.into_inner(), body.to_string());
    let _ = write!(
        stream,
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
}

fn object(request: &str) -> (u16, Value) {
    if request.contains(" /version ") {
        (200, json!({ "gitVersion": "v1.35.7" }))
    } else if request.contains("selfsubjectreviews") {
        (201, json!({ "status": { "userInfo": { "username": "anna" } } }))
    } else if request.contains("selfsubjectaccessreviews") {
        (201, json!({ "status": { "allowed": true } }))
    } else {
        (
            404,
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "nothing is here", "reason": "NotFound", "code": 404 }),
        )
    }
}

#[test]
fn a_cluster_that_does_not_answer_is_waited_for() {
    // A port that is free now.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let dir = TempDir::new().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let config = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "c", "user": { "token": "t" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c" } }] });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let rome = Daemon::start_with("rome", &["--kubeconfig", kubeconfig.to_str().unwrap()]);
    let silent = format!("no cluster for now: http://{address}/ does not answer: ");
    let attention = |status: &Value| status["daemon"]["attention"].to_string();
    let status = ["status", "-o", "json"];
    rome.wait_for(&status, |status| attention(status).contains(&silent));
    let (code, text) = page(&rome, "/readyz");
    assert_eq!(code, 503);
    assert!(text.contains(&format!("\nfailed kubernetes: http://{address}/ does not")), "{text}");
    assert_eq!(page(&rome, "/livez").0, 200);

    let server = Empty::start(&address);
    rome.wait_for(&status, |status| !attention(status).contains("no cluster"));
    let described = rome.json(&status)["daemon"]["kubernetes"].to_string();
    assert!(described.contains("(v1.35.7), as anna"), "{described}");
    assert_eq!(page(&rome, "/readyz").0, 200);

    drop(server);
    rome.wait_for(&status, |status| attention(status).contains(&silent));
    let (_, metrics) = page(&rome, "/metrics");
    assert!(metrics.contains("\nmercato_kubernetes_up{} 0\n"), "{metrics}");
    let counted = "mercato_kubernetes_requests_total{verb=\"get\",code=\"none\"}";
    assert!(metrics.contains(counted), "{metrics}");

    let _server = Empty::start(&address);
    rome.wait_for(&status, |status| !attention(status).contains("no cluster"));
}
