//! A command by `/run`, with a provider's API server at the other end of a WebSocket.

use futures::{SinkExt, StreamExt};
use mercato_protocol::kubelet_stream::Exec;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;

/// Prints the command on both outputs and ends; badly, if the command is `false`.
pub(super) fn exec(exec: &Exec) -> Opened {
    let (ours, theirs) = tokio::io::duplex(64);
    let words = exec.command.iter().map(|word| String::from_utf8(word.0.to_vec()).unwrap());
    let command: Vec<_> = words.collect();
    assert!(!exec.attach.stdin && exec.attach.stdout && exec.attach.stderr);
    tokio::spawn(async move {
        let mut socket = WebSocketStream::from_raw_socket(ours, Role::Server, None).await;
        let status = match command[0].as_str() {
            "false" => json!({ "status": "Failure", "message": "terminated with exit code 1" }),
            _ => json!({ "status": "Success" }),
        };
        for (channel, bytes) in [(1, command.join("|")), (2, "!".into()), (3, status.to_string())] {
            let message = [&[channel], bytes.as_bytes()].concat();
            socket.send(Message::Binary(message.into())).await.unwrap();
        }
        // The client says that it has heard it.
        let _ = socket.next().await;
    });
    Opened::Upgraded { protocol: Some("v5.channel.k8s.io".into()), io: Box::new(theirs) }
}

#[tokio::test]
async fn a_command_is_run_and_what_it_prints_is_the_answer() {
    let bed = bed(&["create proxy"]).await;
    let path = "/run/shop/web/u1/runs?cmd=ls+-l+/tmp";
    let answer = bed.ask("POST", path, Some("good")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "ls|-l|/tmp!"));
    let answer = bed.ask("POST", "/run/shop/web/runs?cmd=false", Some("good")).await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.body, "terminated with exit code 1: false!");
    // One that agrees to another protocol is not understood.
    assert_eq!(bed.ask("POST", "/run/shop/web/app?cmd=ls", Some("good")).await.status, 503);
}
