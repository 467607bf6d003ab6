//! The gates of guests ask here whether their pod is closed, by TCP from their pod's own address. Only
//! pods of this machine are heard, a question of each at a time, and only what is asked for a guest
//! gets as far as the task that closes guests. Whoever else connects has one of a few places until
//! it is known that no pod here has its address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use mercato_kubelet::{Repeated, warn_once};
use mercato_protocol::gate::{Answer, GuestUid};
use mercato_protocol::limits::GATE_QUESTION_BYTES;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::pods::{Asking, Pods, Queued};
use super::rules::ClosingRules;
use super::sandboxes::Sandboxes;
use crate::limits;
use crate::strangers::Strangers;

/// What somebody asks for a pod.
pub(super) struct Asked {
    pub(super) uid: GuestUid,
    /// The address that it asks from.
    pub(super) from: IpAddr,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// What the task that closes guests hears of gates.
pub(super) enum FromGate {
    Asked(Asked),
    Heard(Heard),
}

/// A gate that was told to wait has hung up: its pod's address may change.
pub(super) struct Heard {
    pub(super) uid: GuestUid,
    pub(super) from: IpAddr,
    /// Is dropped once that is done.
    pub(super) done: oneshot::Sender<()>,
}

/// What each connection is answered by.
struct Gate<S> {
    pods: Pods<S>,
    rules: Rules,
    ask: mpsc::Sender<FromGate>,
}

type Rules = watch::Receiver<Option<Arc<ClosingRules>>>;

/// Answers at the port that the rules name, for as long as there may be others.
pub(super) async fn answer<S: Sandboxes>(
    sandboxes: Arc<S>,
    mut rules: Rules,
    ask: mpsc::Sender<FromGate>,
) {
    let gate = Gate { pods: Pods::new(sandboxes), rules: rules.clone(), ask };
    let gate = Arc::new(gate);
    let port_of = |rules: &Option<Arc<ClosingRules>>| rules.as_ref().map_or(0, |rules| rules.port);
    loop {
        let port = port_of(&rules.borrow_and_update());
        let other = rules.wait_for(|rules| port_of(rules) != port);
        let answering = async {
            match port {
                0 => std::future::pending().await,
                port => listen(port, &gate).await,
            }
        };
        tokio::select! {
            changed = other => if changed.is_err() { return },
            () = answering => {}
        }
    }
}

async fn listen<S: Sandboxes>(port: u16, gate: &Arc<Gate<S>>) {
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
    let (mut connections, asking) = (JoinSet::new(), Asking::default());
    let strangers = Strangers::new(limits::GATE_STRANGERS);
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(limits::NODE_ACCEPT_AGAIN).await;
            continue;
        };
        let (gate, from) = (gate.clone(), from.ip().to_canonical());
        if gate.pods.knows(from) {
            // Whoever has too many of them asks again.
            let Some(queued) = asking.enter(from) else { continue };
            connections.spawn(async move { gate.hear(stream, from, queued).await });
            continue;
        }
        let (place, asking) = (strangers.enter(from), asking.clone());
        connections.spawn(async move {
            let is_pod = tokio::select! {
                is_pod = gate.pods.has(from) => is_pod,
                () = place.is_taken() => false,
            };
            drop(place);
            if let Some(queued) = asking.enter(from).filter(|_| is_pod) {
                gate.hear(stream, from, queued).await;
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

impl<S: Sandboxes> Gate<S> {
    /// Answers a pod when it is its turn, and makes it wait a little before it asks again.
    async fn hear(&self, stream: TcpStream, from: IpAddr, queued: Queued) {
        let heard = async {
            let Some(turn) = queued.turn().await else { return };
            // Whoever hangs up or says something else is gone, and gates ask again.
            if !matches!(self.serve(stream, from).await, Ok(Answer::Open)) {
                tokio::time::sleep(limits::GATE_PACE).await;
            }
            drop(turn);
        };
        // Who is late asks again.
        let _ = timeout(limits::GATE_TIME, heard).await;
    }

    async fn serve(&self, mut stream: TcpStream, from: IpAddr) -> io::Result<Answer> {
        stream.set_nodelay(true)?;
        let (mut heard, mut length) = ([0; GATE_QUESTION_BYTES], 0);
        let uid = loop {
            let more = stream.read(&mut heard[length..]).await?;
            if more == 0 {
                return Ok(Answer::Wait);
            }
            length += more;
            let question = GuestUid::read_question(&heard[..length]);
            let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            if let Some(uid) = question.map_err(wrong)? {
                break uid;
            }
        };
        let said = self.ask(uid.clone(), from).await;
        stream.write_all(said.line().as_bytes()).await?;
        stream.shutdown().await?;
        if said == Answer::Wait && self.is_called(&uid, from) {
            // With its pod's address a connection would go on without an end.
            let hangs_up = async { while stream.read(&mut heard).await.is_ok_and(|it| it > 0) {} };
            let _ = timeout(limits::GATE_CLOSES, hangs_up).await;
            let (done, is_done) = oneshot::channel();
            let heard = FromGate::Heard(Heard { uid, from, done });
            if self.ask.send(heard).await.is_ok() {
                let _ = is_done.await;
            }
        }
        Ok(said)
    }

    /// Whether everybody is to know this guest by another address than it asks from.
    fn is_called(&self, uid: &GuestUid, from: IpAddr) -> bool {
        let rules = self.rules.borrow();
        let rule = rules.as_ref().and_then(|rules| rules.rule_of(uid, from));
        rule.is_some_and(|rule| rule.called.is_some())
    }

    /// What is said to a pod of this machine that asks for this guest.
    async fn ask(&self, uid: GuestUid, from: IpAddr) -> Answer {
        let is_ruled = |rules: &Arc<ClosingRules>| rules.rule_of(&uid, from).is_some();
        if !self.rules.borrow().as_ref().is_some_and(is_ruled) {
            return Answer::Wait;
        }
        let (answer, answered) = oneshot::channel();
        match self.ask.send(FromGate::Asked(Asked { uid, from, answer })).await {
            Ok(()) => answered.await.unwrap_or(Answer::Wait),
            Err(_) => Answer::Wait,
        }
    }
}
