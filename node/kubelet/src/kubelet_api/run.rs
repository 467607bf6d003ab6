//! `/run`: a command in a container, and what it printed as the answer. Towards the
//! provider it is an exec like any other, whose client is this daemon.

use axum::http::StatusCode;
use axum::response::Response;
use futures::{SinkExt, StreamExt};
use mercato_protocol::kubelet_stream::{Ask, RefusedReason, Request, Transport, Upgrade};
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::pass;
use super::text::text;
use crate::guest::stream::{Duplex, Opened, PeerStreams, Refused};
use crate::limits;

/// Runs it, and waits for its end.
pub(super) async fn run(peer: &dyn PeerStreams, mut asked: Request) -> Response {
    let protocols = vec![PROTOCOL.to_owned()];
    asked.upgrade = Some(Upgrade { transport: Transport::WebSocket, protocols });
    let refused = |why: &str| pass::refusal(&Refused::new(RefusedReason::Unavailable, why));
    let io = match pass::open(peer, Ask::Open(asked)).await {
        Ok(Opened::Upgraded { protocol: Some(protocol), io }) if protocol == PROTOCOL => io,
        Ok(_) => return refused("the provider opened something else"),
        Err(why) => return pass::refusal(&why),
    };
    match tokio::time::timeout(limits::RUN_TIMEOUT, output(io)).await {
        Ok(Ok(Ran { printed, failure: None })) => text(StatusCode::OK, &printed),
        Ok(Ok(Ran { printed, failure: Some(why) })) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{why}: {printed}"))
        }
        Ok(Err(why)) => refused(&why),
        Err(_) => refused("the command takes too long"),
    }
}

struct Ran {
    printed: String,
    failure: Option<String>,
}

/// Reads both outputs as they come, to the status that ends them.
async fn output(io: Box<dyn Duplex>) -> Result<Ran, String> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits::RUN_OUTPUT))
        .max_frame_size(Some(limits::RUN_OUTPUT));
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Client, Some(config)).await;
    let (mut printed, mut status) = (Vec::new(), None);
    while let Some(message) = socket.next().await {
        let message = message.map_err(|error| error.to_string())?;
        let Message::Binary(bytes) = message else { continue };
        match bytes.split_first() {
            Some((&STDOUT | &STDERR, more)) => {
                if printed.len() + more.len() > limits::RUN_OUTPUT {
                    return Err("the command prints too much".into());
                }
                printed.extend_from_slice(more);
            }
            Some((&STATUS, more)) => {
                status = serde_json::from_slice::<Value>(more).ok();
                break;
            }
            _ => {}
        }
    }
    // It has ended, whether that is heard or not.
    let _ = socket.send(Message::Close(None)).await;
    let status = status.ok_or("the connection ended before the command did")?;
    let failed = status["status"] != "Success";
    let why = || status["message"].as_str().unwrap_or("the command failed").to_owned();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    Ok(Ran { printed, failure: failed.then(why) })
}

const PROTOCOL: &str = "v5.channel.k8s.io";
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
