//! The gates of guests ask here whether their pod is closed, by TCP from their pod's own address. A
//! stranger may ask too: it has a place for a moment, and is told to wait.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mercato_kubelet::{Repeated, warn_once};
use mercato_protocol::gate::{Answer, GuestUid};
use mercato_protocol::limits::GATE_QUESTION_BYTES;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::strangers::Strangers;
use super::rules::ClosingRules;
use crate::limits;

/// What somebody asks for a pod.
pub(super) struct Asked {
    pub(super) uid: GuestUid,
    /// The address that it asks from.
    pub(super) from: IpAddr,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// Answers at the port that the rules name, for as long as there may be others.
pub(super) async fn answer(
    mut rules: watch::Receiver<Option<ClosingRules>>,
    ask: mpsc::Sender<Asked>,
) {
    let port_of = |rules: &Option<ClosingRules>| rules.as_ref().map_or(0, |rules| rules.port);
    loop {
        let port = port_of(&rules.borrow_and_update());
        let other = rules.wait_for(|rules| port_of(rules) != port);
        let answering = async {
            match port {
                0 => std::future::pending().await,
                port => listen(port, &ask).await,
            }
        };
        tokio::select! {
            changed = other => if changed.is_err() { return },
            () = answering => {}
        }
    }
}

async fn listen(port: u16, ask: &mpsc::Sender<Asked>) {
    let mut failing = Repeated::default();
    let listener = loop {
        match bind(port).await {
            Ok(listener) => break listener,
            Err(error) => {
                let what = format!(
                    "gates of guests are not answered at TCP port {port}; end who has it, or set \
                     another one (gateway.nodes.gatePort)"
                );
                warn_once!(failing, error; "{what}");
                tokio::time::sleep(limits::GATE_BIND).await;
            }
        }
    };
    let (mut connections, strangers) = (JoinSet::new(), Strangers::new(limits::CLOSED));
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(limits::NODE_ACCEPT_AGAIN).await;
            continue;
        };
        let (ask, from) = (ask.clone(), from.ip().to_canonical());
        let place = strangers.enter(from);
        connections.spawn(async move {
            let served = timeout(limits::GATE_TIME, serve(stream, from, &ask));
            tokio::select! {
                // Whoever hangs up or says something else is gone, and gates ask again.
                _ = served => {}
                () = place.is_taken() => {}
            }
        });
    }
}

async fn bind(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).await {
        // A kernel without IPv6.
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await
        }
        bound => bound,
    }
}

async fn serve(mut stream: TcpStream, from: IpAddr, ask: &mpsc::Sender<Asked>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut heard, mut length) = ([0; GATE_QUESTION_BYTES], 0);
    let uid = loop {
        let more = stream.read(&mut heard[length..]).await?;
        if more == 0 {
            return Ok(());
        }
        length += more;
        let question = GuestUid::read_question(&heard[..length]);
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        if let Some(uid) = question.map_err(wrong)? {
            break uid;
        }
    };
    let (answer, answered) = oneshot::channel();
    let said = match ask.send(Asked { uid, from, answer }).await {
        Ok(()) => answered.await.unwrap_or(Answer::Wait),
        Err(_) => Answer::Wait,
    };
    stream.write_all(said.line().as_bytes()).await?;
    stream.shutdown().await
}
