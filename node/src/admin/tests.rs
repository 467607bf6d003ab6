//! Server and client, over a real socket.

#![allow(clippy::wildcard_enum_match_arm, reason = "a script is of a few requests")]

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tempfile::TempDir;

use super::server::{may_pass, serve};
use super::{Answer, Class, Client, OperatorApi, Problem, Request, Server};
use crate::limits;

/// Knows what each namespace name is to bring.
struct Scripted;

impl OperatorApi for Scripted {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        async move {
            match request {
                Request::Unoffload(name) if name == "never" => std::future::pending().await,
                Request::Unoffload(name) => {
                    Err(Problem::new(Class::Refused, name).todo("do this").todo("or that"))
                }
                _ => Ok(Answer::Done),
            }
        }
        .boxed()
    }
}

fn client(folder: &TempDir, timeout_ms: u64) -> Client {
    Client::new(folder.path().join("admin.sock"), Duration::from_millis(timeout_ms))
}

fn start(folder: &TempDir) -> Server {
    Server::start(&folder.path().join("admin.sock"), Arc::new(Scripted)).unwrap()
}

#[tokio::test]
async fn answers_and_problems_come_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder);
    let client = client(&folder, 30_000);
    assert_eq!(client.ask(Request::Share).await, Ok(Answer::Done));
    let problem = client.ask(Request::Unoffload("no".to_owned())).await.unwrap_err();
    let said = Problem::new(Class::Refused, "no").todo("do this").todo("or that");
    assert_eq!(problem, said);
    assert_eq!(problem.to_string(), "no\n  do this\n  or that");
    let other = (&client as &dyn OperatorApi).status().await.unwrap_err();
    assert_eq!(other.class, Class::Failed);
    drop(server);
    assert_eq!(client.ask(Request::Share).await.unwrap_err().class, Class::Unreachable);
}

#[tokio::test]
async fn the_socket_is_its_owners_and_replaces_a_dead_one() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let gone = client(&folder, 30_000).ask(Request::Share).await.unwrap_err();
    assert_eq!(gone.class, Class::Unreachable);
    assert!(gone.to_string().contains("mercato run"), "{gone}");
    let _server = start(&folder);
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(client(&folder, 30_000).ask(Request::Share).await, Ok(Answer::Done));
}

#[tokio::test]
async fn a_socket_that_cannot_be_made_yet_is_made_later() {
    for (code, passes) in [(28, true), (30, true), (13, false), (98, false)] {
        assert_eq!(may_pass(&io::Error::from_raw_os_error(code)), passes, "{code}");
    }
    let folder = tempfile::tempdir().unwrap();
    let later = folder.path().join("later/admin.sock");
    assert!(Server::start(&later, Arc::new(Scripted)).is_err(), "a folder that is not there");
    let serving = tokio::spawn(serve(later.clone(), None, Arc::new(Scripted)));
    std::fs::create_dir(folder.path().join("later")).unwrap();
    let client = Client::new(later, Duration::from_secs(30));
    let answers = async {
        while client.ask(Request::Share).await != Ok(Answer::Done) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), answers).await.unwrap();
    serving.abort();
}

#[tokio::test]
async fn who_waits_for_nothing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let _server = start(&folder);
    let late = client(&folder, 50).ask(Request::Unoffload("never".to_owned())).await;
    assert_eq!(late.unwrap_err().class, Class::TimedOut);
}

#[tokio::test]
async fn too_long_a_request_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _server = start(&folder);
    let long = "x".repeat(limits::ADMIN_REQUEST_BYTES);
    let refused = client(&folder, 30_000).ask(Request::Unoffload(long)).await.unwrap_err();
    assert_eq!(refused.class, Class::Failed);
}

#[test]
fn exit_codes_are_those_of_the_documentation() {
    use Class::{Failed, NoMatch, Refused, TimedOut, Unreachable, Usage};
    let codes = [Failed, Usage, NoMatch, Refused, Unreachable, TimedOut].map(Class::exit_code);
    assert_eq!(codes, [1, 2, 3, 4, 5, 6]);
}
