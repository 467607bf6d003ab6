//! Somebody with the key of a cluster, and a program of their own.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use mercato_net::{Event, KubeletAnswer, Limits, Net, NetConfig, WorkloadReceiver};
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::Signed;
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::hello::Hello;
use mercato_protocol::id::{ClusterId, ContractId, FederationId, PublicKey};
use mercato_protocol::identity::Identity;
use mercato_protocol::kubelet_stream::Ask;
use mercato_protocol::time::Now;
use mercato_protocol::workload::{Message, Open};
use mercato_tests::daemon::{Daemon, PART};
use tokio::sync::mpsc;

use crate::gateway::Lists;

/// Streams of one kind that wait to be looked at.
const WAITING: usize = 64;
pub(crate) const UNHARMED: &str = "nobody panics with it";

/// The stream that the other party of a contract has opened last.
type Opened = Arc<Mutex<BTreeMap<(ContractId, bool), WorkloadReceiver>>>;

/// See the module. It says who it is, and takes what others open.
pub(crate) struct Impostor {
    pub(crate) net: Net,
    pub(crate) cluster: ClusterId,
    /// What it says of gateways.
    pub(crate) lists: Lists,
    hello: Bytes,
    opened: Opened,
    asked: Mutex<mpsc::Receiver<(Bytes, KubeletAnswer)>>,
}

impl Impostor {
    /// Ends a daemon and takes its place.
    pub(crate) async fn replace(daemon: &Daemon<'_>) -> Result<Self> {
        daemon.cluster.stop(PART)?;
        let dir = daemon.cluster.data_outside().join(PART);
        let seed = fs::read(dir.join("identity.seed"))?.try_into();
        let Ok(seed): Result<[u8; 32], _> = seed else { bail!("a seed of another length") };
        let identity = Signed::<Identity>::from_bytes(fs::read(dir.join("identity.cbor"))?);
        let cluster = identity.open_identity(now()?)?.cluster_id();
        let lists = Lists::new(cluster, &seed);
        let hello = Hello {
            identity,
            federation: FederationId::lan(),
            software: "impostor/1".to_owned(),
            addresses: Vec::new(),
            rotations: Vec::new(),
            certificates: Vec::new(),
            time_ms: Some(now()?.wall_ms),
        };
        let said = Bytes::from(hello.to_bytes()?);
        let hello = Bytes::from(FirstFrame::Hello(hello).to_bytes()?);
        let (net, events) = Net::start(NetConfig::new(seed, Vec::new(), Limits::default()))?;
        let opened = Opened::default();
        let (ask, asked) = mpsc::channel(WAITING);
        tokio::spawn(take(events, said, opened.clone(), ask, lists.clone()));
        Ok(Self { net, cluster, lists, hello, opened, asked: asked.into() })
    }

    /// Connects to a daemon and says hello.
    pub(crate) async fn meet(&self, victim: &Daemon<'_>) -> Result<PublicKey> {
        let status = victim.json(&["status"]).await?;
        let addresses = status["daemon"]["addresses"].as_array().context("addresses")?.iter();
        let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok()).collect();
        let key = self.net.dial(None, addresses).await?;
        self.net.request(key, self.hello.clone()).await?;
        Ok(key)
    }

    /// Hands on what the other party of a contract says, by whatever streams, for as long as
    /// it is wanted.
    pub(crate) fn forward(&self, contract: ContractId, heard: mpsc::Sender<Message>) {
        for acks in [false, true] {
            let (opened, heard) = (self.opened.clone(), heard.clone());
            tokio::spawn(async move {
                while !heard.is_closed() {
                    let stream = opened.lock().expect(UNHARMED).remove(&(contract, acks));
                    let Some(mut frames) = stream else {
                        tokio::time::sleep(crate::line::LOOK).await;
                        continue;
                    };
                    while let Ok(Some(frame)) = frames.recv().await {
                        let Ok(message) = Message::from_bytes(&frame.header) else { return };
                        if heard.send(message).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    }

    /// A kubelet stream that the other party asks for, if there is one.
    pub(crate) fn asked(&self) -> Option<(Bytes, KubeletAnswer)> {
        self.asked.lock().expect(UNHARMED).try_recv().ok()
    }
}

async fn take(
    mut events: mpsc::Receiver<Event>,
    hello: Bytes,
    opened: Opened,
    ask: mpsc::Sender<(Bytes, KubeletAnswer)>,
    lists: Lists,
) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Request { request, responder, .. } => {
                let greeting = matches!(FirstFrame::from_bytes(&request), Ok(FirstFrame::Hello(_)));
                responder.respond(if greeting { hello.clone() } else { Bytes::new() });
            }
            // Whoever does not look at it has no use for it.
            Event::Workload { header, frames, .. } => {
                if let Ok(Open { contract, acks, .. }) = Open::from_bytes(&header) {
                    opened.lock().expect(UNHARMED).insert((contract, acks), frames);
                }
            }
            // What its nodes are like is asked from time to time, by nobody who waits for it.
            Event::Kubelet { request, .. }
                if matches!(Ask::from_bytes(&request), Ok(Ask::Node { .. })) => {}
            Event::Kubelet { request, answer, .. } => drop(ask.try_send((request, answer))),
            Event::Tunnel { peer, ask, responder, .. } => {
                responder.respond(lists.answer(peer, &ask));
            }
            Event::Connected { .. }
            | Event::Disconnected { .. }
            | Event::Silent { .. }
            | Event::Heard { .. }
            | Event::Rtt { .. }
            | Event::Addresses { .. }
            | Event::Gossip { .. }
            | Event::Listening { .. }
            | Event::NotListening { .. }
            | Event::PortTaken { .. }
            | Event::ListenFailed { .. } => {}
        }
    }
}

pub(crate) fn now() -> Result<Now> {
    let wall_ms = u64::try_from(std::time::UNIX_EPOCH.elapsed()?.as_millis())?;
    Ok(Now { mono_ms: 0, wall_ms })
}

/// How many lines of a daemon's log hold this.
pub(crate) fn lines(daemon: &Daemon<'_>, text: &str) -> Result<usize> {
    let log = fs::read_to_string(daemon.cluster.data_outside().join("logs").join(PART))?;
    Ok(log.lines().filter(|line| line.contains(text)).count())
}

/// No peer can make a daemon say that it is broken.
pub(crate) fn nothing_is_broken(daemon: &Daemon<'_>) -> Result<()> {
    let log = fs::read_to_string(daemon.cluster.data_outside().join("logs").join(PART))?;
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).take(5).collect();
    ensure!(errors.is_empty(), "{} logged {errors:#?}", daemon.cluster.name());
    Ok(())
}
