//! The operator's service: requests of the admin API as commands to the agent, as looks at it,
//! or as words to network and cluster.

mod attention;
pub(in crate::driver) mod domains;
pub(in crate::driver) mod events;
mod federations;
mod known;
pub(in crate::driver) mod news;
mod offloads;
mod share;
mod status;
pub(in crate::driver) mod told;
pub(in crate::driver) mod view;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_agent::{Ask, BrokerInput, Input};
use mercato_broker::{Command, Demand, Reply};
use mercato_discovery::{Address, Report, Sighting};
use mercato_net::PeerInfo;
use mercato_protocol::id::{ContractId, PublicKey};
use tokio::sync::{Notify, watch};

use super::workload::stuck;
use super::{Driver, Gone, Handle, records};
use crate::admin::{
    Answer, Attention, Class, Event, EventKind, OperatorApi, Peer, Pong, Problem, Provider,
    Request, Tunnels,
};
use crate::daemon::identity::Identity;
use crate::daemon::portable::State;
use crate::desk::Standing;
use crate::doctor::{self, Finding, gateway, machine, peers};
use crate::kubernetes::Kubernetes;
use crate::limits;
use crate::resources::Ruling;
use domains::Domains;
use events::Events;

/// What a daemon knows of itself.
#[derive(Clone)]
pub(crate) struct About {
    /// What its owner calls it.
    pub(crate) name: String,
    pub(crate) data_dir: PathBuf,
    /// Where health and metrics are to be had, if anywhere.
    pub(crate) health: Option<String>,
    /// The port that others would try; none: the owner chose where to listen.
    pub(crate) usual_port: Option<u16>,
    /// Addresses of the owner's list.
    pub(crate) listed: Vec<Address>,
    /// The parts of the daemon that are off, and why.
    pub(crate) off: Vec<Attention>,
    /// Whoever runs the tunnels of the daemon.
    pub(crate) tunnels: Arc<dyn Tunnels>,
    /// How people of the cluster are served.
    pub(crate) desk: Standing,
    /// Starts the daemon again; none: whoever started it has to.
    pub(crate) restart: Option<Arc<Notify>>,
}

/// Answers the operator for one driver.
pub(crate) struct OperatorService {
    pub(super) driver: Handle,
    pub(super) about: About,
    pub(super) domains: Domains,
    pub(super) kubernetes: Option<Arc<dyn Kubernetes>>,
    events: Events,
    pub(super) ruling: watch::Receiver<Ruling>,
}

impl OperatorApi for OperatorService {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        async move {
            match request {
                Request::Status => self.status().await,
                Request::Peers => Ok(Answer::Peers(self.peers().await?)),
                Request::Judge(cluster, standing) => {
                    self.command(Command::Peer(cluster, standing)).await
                }
                Request::Place(cluster, of) => self.command(Command::Country(cluster, of)).await,
                Request::AddPeer(address) => self.sighted(Report::Seen(entry(&address)?)).await,
                Request::RemovePeer(address) => self.remove_peer(&address).await,
                Request::Ping(address) => self.ping(&address).await,
                Request::Browse { demand, explain } => self.browse(demand, explain).await,
                Request::Providers => Ok(Answer::Providers(self.driver.look(providers).await?)),
                Request::Share => self.share().await,
                Request::SetShare(policy) => self.command(Command::Share(policy)).await,
                Request::Order { demand, note } => {
                    self.measure().await;
                    self.command(Command::Order { demand, note: note.into(), id: None }).await
                }
                Request::Rfq { demand, note } => {
                    self.command(Command::Rfq { demand, note: note.into() }).await
                }
                Request::Take(offer) => self.command(Command::Take(offer)).await,
                Request::Counter { request, price, quantity, hold_s } => {
                    self.command(Command::Counter { request, price, quantity, hold_s }).await
                }
                Request::Withdraw(contract) => self.command(Command::Withdraw(contract)).await,
                Request::Reclaim { contract, notice_s, text } => {
                    let text = text.into();
                    self.command(Command::Reclaim { contract, notice_s, text }).await
                }
                Request::Amend { contract, quantity, term_s } => {
                    self.command(Command::Amend { contract, quantity, term_s }).await
                }
                Request::Deals => Ok(Answer::Deals(self.driver.look(view::deals).await?)),
                Request::Accept(id) => self.command(Command::Accept(id)).await,
                Request::Deny(request, text) => {
                    self.command(Command::Deny { request, text: text.into() }).await
                }
                Request::Cancel(deal, text) => {
                    self.command(Command::Cancel { deal, text: text.into() }).await
                }
                Request::Statement(id) => self.statement(id).await,
                Request::Federations => self.federations().await,
                Request::Lookup(domain) => {
                    Ok(Answer::Announced(self.domains.announced(&domain).await?))
                }
                Request::Enter(papers) => self.federation(Ask::Enter(Box::new(papers))).await,
                Request::Join(token) => self.join(&token).await,
                Request::Leave(federation) => self.federation(Ask::Leave(federation)).await,
                Request::Token { federation, organisation, roles, attributes, for_s } => {
                    self.token(federation, organisation, roles, attributes, for_s).await
                }
                Request::Members(federation) => self.members(federation).await,
                Request::Revoke(federation, cluster) => {
                    self.federation(Ask::Revoke(federation, cluster)).await
                }
                Request::Publish(federation, list) => {
                    self.federation(Ask::Publish(federation, list)).await
                }
                Request::Offload(offload) => self.offload(offload).await,
                Request::Unoffload(namespace) => self.unoffload(namespace).await,
                Request::Doctor => self.doctor().await,
                Request::RotateKey => self.rotate_key().await,
                Request::Export => self.export().await,
                Request::Events(after) => Ok(Answer::Events(self.events.after(after))),
            }
        }
        .boxed()
    }
}

impl OperatorService {
    pub(crate) fn open(
        driver: Handle,
        about: About,
        domains: Domains,
        kubernetes: Option<Arc<dyn Kubernetes>>,
        ruling: watch::Receiver<Ruling>,
    ) -> Self {
        let events = Events::follow(&about.data_dir, driver.told());
        Self { driver, about, domains, kubernetes, events, ruling }
    }

    async fn command(&self, command: Command) -> Result<Answer, Problem> {
        match self.driver.command(command).await?? {
            Reply::Done => Ok(Answer::Done),
            Reply::Ordered { id, provider } => Ok(Answer::Ordered { id, provider }),
            Reply::Asked { round, providers } => Ok(Answer::Asked { round, providers }),
        }
    }

    async fn browse(&self, demand: Demand, explain: bool) -> Result<Answer, Problem> {
        self.measure().await;
        let look = move |driver: &Driver| known::market(driver, &demand, explain);
        Ok(Answer::Offers(self.driver.look(look).await?))
    }

    /// Tells how far away everybody is now, for what is asked next.
    async fn measure(&self) {
        let links = self.driver.net().peers();
        let us = |link: PeerInfo| Some((link.peer, u64::try_from(link.rtt?.as_micros()).ok()?));
        self.driver
            .tell(Input::Broker(BrokerInput::RoundTrips(
                links.into_iter().filter_map(us).collect(),
            )))
            .await;
    }

    async fn peers(&self) -> Result<Vec<Peer>, Problem> {
        let links: BTreeMap<PublicKey, PeerInfo> =
            self.driver.net().peers().into_iter().map(|peer| (peer.peer, peer)).collect();
        let look = move |driver: &Driver| view::peers(driver, &links);
        let mut peers = self.driver.look(look).await?;
        let tunnels = self.about.tunnels.states().await;
        for peer in &mut peers {
            let tunnel = tunnels.iter().find(|tunnel| Some(tunnel.cluster) == peer.cluster);
            peer.tunnel = tunnel.cloned();
        }
        Ok(peers)
    }

    /// Dials, says who answered, and the round trip that the network measured last.
    async fn sighted(&self, report: Report) -> Result<Answer, Problem> {
        self.driver.tell(Input::Sighted(report)).await;
        Ok(Answer::Done)
    }

    async fn remove_peer(&self, address: &str) -> Result<Answer, Problem> {
        let id = entry(address)?.id;
        let sought = id.clone();
        if !self.driver.look(move |driver| driver.world.is_sighted(&sought)).await? {
            let what = format!("{address:?} is on no list of this daemon");
            return Err(Problem::new(Class::NoMatch, what)
                .todo("write it as it was added; what is dialled: mercato peers -o wide"));
        }
        self.sighted(Report::Gone(id)).await
    }

    async fn ping(&self, address: &str) -> Result<Answer, Problem> {
        let sighting = entry(address)?;
        let net = self.driver.net();
        let dialled = net.dial(sighting.peer, sighting.addresses).await;
        let key = dialled.map_err(|error| {
            Problem::failed(format!("{address} does not answer: {}", error.reason))
                .todo("see whether a daemon runs there, and UDP and TCP get through")
        })?;
        let links = net.peers().into_iter().map(|peer| (peer.peer, peer)).collect();
        let look = move |driver: &Driver| view::peers(driver, &links);
        let peers = self.driver.look(look).await?;
        let peer = peers.into_iter().find(|peer| peer.key == Some(key));
        let (cluster, name, rtt_us) =
            peer.map_or((None, None, None), |peer| (peer.cluster, peer.name, peer.rtt_us));
        Ok(Answer::Pong(Pong { key, cluster, name, rtt_us }))
    }

    async fn share(&self) -> Result<Answer, Problem> {
        let ruled = self.ruling.borrow().share;
        let look = move |driver: &Driver| share::look(driver, ruled);
        Ok(Answer::Share(self.driver.look(look).await?))
    }

    async fn statement(&self, id: ContractId) -> Result<Answer, Problem> {
        let look = move |driver: &Driver| driver.agent().broker().statement(&id);
        match self.driver.look(look).await? {
            Some(Ok(statement)) => Ok(Answer::Statement(statement)),
            Some(Err(error)) => {
                Err(Problem::failed("what it costs is too much to count").because(&error))
            }
            None => Err(Problem::new(Class::NoMatch, "there is no contract yet, so no statement")
                .todo(format!("see how far it is: mercato contracts show {}", id.short()))),
        }
    }

    async fn doctor(&self) -> Result<Answer, Problem> {
        let About { name, data_dir, usual_port, listed, .. } = &self.about;
        let version = env!("CARGO_PKG_VERSION");
        let daemon = Finding::ok("daemon", format!("{name} answers (mercato {version})"));
        let mut findings = vec![daemon, machine::data(data_dir)];
        findings.push(match self.degraded().await? {
            Some(why) => Finding::fail("records", why).todo("it is tried again by itself"),
            None => doctor::records(data_dir),
        });
        let addresses = self.driver.net().local_addresses();
        findings.extend(peers::listening(&addresses, *usual_port));
        let known = self.peers().await?;
        findings.push(peers::path(&known));
        findings.extend(peers::clocks(&known));
        let mut named = machine::names(listed, self.driver.net().names()).await;
        named.extend(self.domains.findings().await);
        if named.is_empty() {
            named.push(Finding::ok("names", "no name has to be resolved"));
        }
        findings.extend(named);
        findings.push(machine::offloads());
        let own = self.about.tunnels.own();
        let looked = || gateway::gateway(&own, mercato_host::dropping, mercato_host::networks);
        findings.extend(tokio::task::block_in_place(looked));
        match &self.kubernetes {
            Some(kubernetes) => findings.extend(kubernetes.examine().await),
            None => findings.push(
                Finding::warn("kubernetes", "there is no cluster")
                    .todo("start with one: mercato run --kubeconfig FILE"),
            ),
        }
        findings.extend(self.driver.look(share::unsold_devices).await?);
        findings.extend(self.driver.look(share::storage).await?);
        findings.extend(self.driver.look(move |driver| share::egress(driver, &own)).await?);
        findings.extend(self.driver.look(services_left_out).await?);
        findings.extend(self.contested().map(|why| Finding::warn("daemons", why)));
        findings.extend(self.offloads_lacking());
        findings.extend(self.about.desk.finding());
        findings.extend(peers::unknown(&self.driver.look(known::unknown).await?));
        findings.extend(peers::rules(&self.driver.look(view::countries_of_nobody).await?));
        findings.extend(peers::unreached(&self.driver.look(view::unreached_rules).await?));
        let stuck = |driver: &Driver| driver.leases.values().filter_map(stuck::finding).collect();
        findings.extend::<Vec<_>>(self.driver.look(stuck).await?);
        Ok(Answer::Findings(findings))
    }

    /// The key is another from the next start on, which is at once.
    async fn rotate_key(&self) -> Result<Answer, Problem> {
        let restart = self.about.restart.clone();
        let restart = restart.ok_or_else(|| Problem::failed("this daemon cannot start again"))?;
        if let Some(why) = self.degraded().await? {
            return Err(Problem::failed(why));
        }
        let About { name, data_dir, .. } = &self.about;
        let key = Identity::open(data_dir, name).and_then(|identity| identity.rotate())?;
        tracing::info!(key = %key.short(), "the key is replaced: starting again");
        let text = "the key of this cluster is replaced";
        self.driver.say(Event::of(EventKind::KeyReplaced, text));
        // Whoever asked hears it first.
        tokio::spawn(async move {
            tokio::time::sleep(limits::RESTART).await;
            restart.notify_one();
        });
        Ok(Answer::Done)
    }

    /// The state as it is on disk now.
    async fn export(&self) -> Result<Answer, Problem> {
        let records = self.driver.look(|driver| records::encoded(driver.records())).await?;
        let state = State::gather(&self.about.data_dir, records)?;
        Ok(Answer::State(BASE64.encode(state.to_bytes())))
    }

    /// What the cluster did not do; where it does not answer at all, more is to be seen.
    fn cluster_failed(&self, what: String) -> Problem {
        let silent = self.kubernetes.as_ref().is_some_and(|cluster| cluster.trouble().is_some());
        let problem = Problem::failed(what);
        if silent {
            problem.todo("see how the cluster is reached: mercato doctor")
        } else {
            problem
        }
    }

    fn cluster(&self) -> Result<&Arc<dyn Kubernetes>, Problem> {
        self.kubernetes.as_ref().ok_or_else(|| {
            Problem::failed("this daemon has no Kubernetes cluster")
                .todo("start it with one: mercato run --kubeconfig FILE")
        })
    }
}

/// Services that pods elsewhere do without.
fn services_left_out(driver: &Driver) -> Vec<Finding> {
    let all = attention::left_out(driver).into_iter();
    all.map(|attention| Finding::warn("services", attention.text)).collect()
}

/// The clusters that offer something now.
fn providers(driver: &Driver) -> Vec<Provider> {
    let broker = driver.agent().broker();
    let provider = |(cluster, key, name): (_, _, &str)| {
        let standing = broker.standing(&cluster);
        Provider { cluster, key, name: name.to_owned(), standing }
    };
    broker.providers(driver.now()).map(provider).collect()
}

/// An entry of the list of peers.
pub(crate) fn entry(address: &str) -> Result<Sighting, Problem> {
    mercato_sources::entry(address).map_err(|error| {
        Problem::new(Class::Usage, error.to_string()).todo(
            "write HOST:PORT, [IPV6]:PORT, or a multiaddr such as /ip4/192.0.2.1/udp/7474/quic-v1",
        )
    })
}

impl From<Gone> for Problem {
    fn from(gone: Gone) -> Self {
        Self::failed(gone.to_string()).todo("see in its log what happened")
    }
}
