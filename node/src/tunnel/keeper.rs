//! The task that keeps the gateway, the machine and each peer in step with leases and pods.

mod peers;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use futures::StreamExt as _;
use ipnet::IpNet;
use mercato_agent::{Config, Input, TunnelInput, TunnelNews};
use mercato_discovery::Host;
use mercato_host::Marks;
use mercato_offload::key::Uid;
use mercato_protocol::envelope::Verified;
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::tunnel::Gateways;
use mercato_session::Link;
use mercato_tunnel::LinkEvent;
use tokio::sync::mpsc;
use tokio::task::block_in_place;

use super::end::End;
use super::exchange::said;
use super::machine::{self, GatewaySettings};
use super::own::Content;
use super::peer::Peer;
use super::secrets::Secrets;
use super::seen::Seen;
use super::words::{Asked, Heard, Said, TunnelHandle};
use crate::admin::{OwnGateway, Tunnels};
use crate::driver::{Handle, clock::Clock};
use crate::kubernetes::{Kubernetes, PodPlace};
use crate::limits;

/// What happens to the task, besides what the driver says.
pub(super) enum Event {
    /// What came of a question to a peer.
    Answered {
        cluster: ClusterId,
        number: u64,
        answer: Outcome,
    },
    Link(LinkEvent),
    Pods(Vec<PodPlace>),
}

/// What came of a question.
pub(super) enum Outcome {
    Answer(said::Heard),
    Failed(String),
    Unsupported,
}

/// All that the task knows and does.
pub(crate) struct Keeper {
    driver: Handle,
    config: Config,
    clock: Clock,
    /// What the owner says; the reason why no gateway can run here.
    gateway: Result<GatewaySettings, String>,
    secrets: Secrets,
    heard: Heard,
    seen: Arc<Seen>,
    events: mpsc::Receiver<Event>,
    tell: mpsc::Sender<Event>,
    peers: BTreeMap<ClusterId, Peer>,
    own: Option<(Content, Verified<Gateways>)>,
    end: End,
    /// Peers whose secrets cannot be read, and why.
    unread: BTreeMap<ClusterId, String>,
    pods: Vec<PodPlace>,
    blocks: BTreeSet<IpNet>,
    ranges_told: BTreeMap<ClusterId, BTreeSet<IpNet>>,
    /// What the agent was told, and for which of its words.
    news: BTreeMap<ContractId, (u64, TunnelNews)>,
    mapped: BTreeMap<(ContractId, Uid), (u64, bool)>,
}

/// What the task is made of.
pub(crate) struct Parts<'a> {
    pub(crate) config: Config,
    pub(crate) data_dir: &'a Path,
    /// What the owner says of it.
    pub(crate) gateway: GatewaySettings,
}

/// Opens what is kept and finds out whether a gateway can run here; gives the way to the task, the
/// task, which [`Keeper::keep`] starts, and why there is no gateway, if so.
pub(crate) fn start(parts: Parts<'_>) -> anyhow::Result<(TunnelHandle, Before)> {
    let Parts { config, data_dir, gateway: settings } = parts;
    let secrets = Secrets::open(data_dir, config.copied)?;
    let marks = Marks::default();
    let probed = block_in_place(|| machine::probe(&settings, &marks));
    let gateway = probed.map(|()| settings).map_err(|error| format!("{error:#}"));
    let (tunnels, heard) = TunnelHandle::new();
    let own = OwnGateway {
        enabled: gateway.is_ok(),
        port: gateway.as_ref().ok().map(|settings| settings.port),
        pool: gateway.as_ref().ok().map(|settings| settings.pool),
        reason: gateway.as_ref().err().cloned(),
    };
    let seen = Arc::new(Seen::new(own));
    Ok((tunnels, Before { config, gateway, marks, secrets, heard, seen }))
}

/// The task before the driver is there.
pub(crate) struct Before {
    config: Config,
    gateway: Result<GatewaySettings, String>,
    marks: Marks,
    secrets: Secrets,
    heard: Heard,
    seen: Arc<Seen>,
}

impl Before {
    /// What people are to see of it.
    pub(crate) fn seen(&self) -> Arc<dyn Tunnels> {
        self.seen.clone()
    }

    /// Why there is no gateway here, if so.
    pub(crate) fn off(&self) -> Option<&str> {
        self.gateway.as_ref().err().map(String::as_str)
    }

    /// The task of this driver, which has it from then on.
    pub(crate) async fn begin(self, driver: Handle, kubernetes: Arc<dyn Kubernetes>) -> Keeper {
        let Self { config, gateway, marks, secrets, heard, seen } = self;
        let (tell, events) = mpsc::channel(limits::TUNNEL_EVENTS);
        let (links, told) = sync_channel(limits::TUNNEL_EVENTS);
        let passed_on = tell.clone();
        // Ends with the task, whose end is the last sender's.
        std::thread::spawn(move || {
            while let Ok(event) = told.recv() {
                if passed_on.blocking_send(Event::Link(event)).is_err() {
                    return;
                }
            }
        });
        let pool = gateway.as_ref().ok().map(|settings| settings.pool);
        driver.tell(Input::Tunnel(TunnelInput::Pool(pool))).await;
        if pool.is_some() {
            let (mut pods, tell) = (kubernetes.pods(), tell.clone());
            tokio::spawn(async move {
                while let Some(pods) = pods.next().await {
                    if tell.send(Event::Pods(pods)).await.is_err() {
                        return;
                    }
                }
            });
        }
        Keeper {
            driver,
            config,
            clock: Clock::start(),
            gateway,
            secrets,
            heard,
            seen,
            events,
            tell,
            peers: BTreeMap::new(),
            own: None,
            end: End::new(marks, links),
            unread: BTreeMap::new(),
            pods: Vec::new(),
            blocks: BTreeSet::new(),
            ranges_told: BTreeMap::new(),
            news: BTreeMap::new(),
            mapped: BTreeMap::new(),
        }
    }
}

impl Keeper {
    /// Keeps everything in step until it is dropped.
    pub(crate) async fn keep(mut self) {
        self.begin();
        loop {
            let said = self.heard.now();
            self.step(&said).await;
            let pause = if self.peers.is_empty() && self.end.key().is_none() {
                limits::TUNNEL_IDLE
            } else {
                limits::TUNNEL_LOOK
            };
            tokio::select! {
                () = self.heard.more() => {}
                Some(asked) = self.heard.asks.recv() => self.on_asked(asked),
                Some(event) = self.events.recv() => self.on_event(event),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// What a run before this one has left goes, unless a lease needs it.
    fn begin(&mut self) {
        let said = self.heard.now();
        let partners = said.partners();
        if let Err(error) = block_in_place(|| self.secrets.retain(&partners)) {
            // Once at the start.
            tracing::warn!("{error:#}");
        }
        if partners.is_empty() && self.gateway.is_ok() {
            self.end.clean();
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Answered { cluster, number, answer } => {
                self.on_answered(cluster, number, answer);
            }
            Event::Link(LinkEvent { key, link: Link::Up }) => self.on_up(&key),
            // That it is down is no news for a lease: pods stay where they are.
            Event::Link(LinkEvent { link: Link::Down, .. }) => {}
            Event::Pods(pods) => self.pods = pods,
        }
    }

    /// Where other gateways reach this one.
    fn addresses(&self, settings: &GatewaySettings) -> Vec<SocketAddr> {
        if !settings.addresses.is_empty() {
            return settings.addresses.clone();
        }
        let (mut of, net) = (BTreeSet::new(), self.driver.net());
        for address in net.published_addresses().into_iter().chain(net.local_addresses()) {
            if let Host::Ip(ip) = address.host
                && !ip.is_loopback()
                && !ip.is_unspecified()
                && !settings.pool.contains(&ip)
            {
                of.insert(SocketAddr::new(ip, settings.port));
            }
        }
        of.into_iter().collect()
    }
}
