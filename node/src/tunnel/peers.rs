//! The peers with which there is a lease: what is said with them, and what comes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_agent::Config;
use mercato_discovery::Host;
use mercato_net::TunnelError;
use mercato_protocol::envelope::{KeyPair, Verified};
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::tunnel::{Answer, Gateways, PairSecret, RefusedReason};
use mercato_session::{PeerState, SharedSecret};
use mercato_tunnel::LinkEvent;
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use zeroize::Zeroizing;

use super::event::{Event, Outcome};
use super::exchange::said::Speaker;
use super::exchange::{Effect, Exchange, Input};
use super::own::Content;
use super::owners::Owners;
use super::peer::{Peer, State};
use super::secrets::Secrets;
use super::words::{Asked, Said};
use crate::driver::Handle;
use crate::driver::clock::Clock;

/// The peers with which there is a lease, and what this cluster tells them of itself.
pub(super) struct Peers {
    key: Arc<KeyPair>,
    own: ClusterId,
    clock: Clock,
    driver: Handle,
    secrets: Arc<Secrets>,
    tell: mpsc::Sender<Event>,
    all: BTreeMap<ClusterId, Peer>,
    owners: Owners,
    list: Option<(Content, Verified<Gateways>)>,
    /// Peers whose secrets cannot be read, and why.
    unread: BTreeMap<ClusterId, String>,
}

impl Peers {
    pub(super) fn new(
        config: &Config,
        driver: Handle,
        secrets: Arc<Secrets>,
        tell: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            key: config.key.clone(),
            own: config.cluster(),
            clock: Clock::start(),
            driver,
            secrets,
            tell,
            all: BTreeMap::new(),
            owners: Owners::default(),
            list: None,
            unread: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, cluster: ClusterId) -> Option<&Peer> {
        self.all.get(&cluster)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClusterId, &Peer)> {
        self.all.iter().map(|(cluster, peer)| (*cluster, peer))
    }

    /// Why nothing is said with a cluster, if its secret cannot be read.
    pub(super) fn unread(&self, cluster: ClusterId) -> Option<&String> {
        self.unread.get(&cluster)
    }

    /// Each peer with a lease has an exchange, which knows of its connection and its lease.
    pub(super) fn mind(&mut self, said: &Said) {
        let partners = said.partners();
        for cluster in &partners {
            if !self.all.contains_key(cluster) {
                match self.known(*cluster) {
                    Ok(exchange) => {
                        self.unread.remove(cluster);
                        self.all.insert(*cluster, Peer::new(exchange));
                    }
                    Err(error) => {
                        let why = format!("{error:#}");
                        if self.unread.insert(*cluster, why.clone()).as_ref() != Some(&why) {
                            // Once for each reason.
                            tracing::warn!(peer = %cluster.short(), "no tunnel: {why}");
                        }
                        continue;
                    }
                }
            }
            let own = self.list.as_ref().map(|(_, list)| list.clone());
            let met_at = |key| Some(self.driver.net().address_of(key)?.host);
            let Some(peer) = self.all.get_mut(cluster) else { continue };
            let now = said.peers.get(cluster).copied();
            let mut inputs = Vec::new();
            if peer.connection != now {
                peer.connection = now;
                peer.waits_since = std::time::Instant::now();
                inputs.push(if now.is_some() { Input::Connected } else { Input::Disconnected });
                let key = said.peers.get(cluster).map(|peer| peer.key);
                if let Some(Host::Ip(ip)) = key.and_then(met_at) {
                    peer.met_at = Some(ip);
                }
            }
            if !std::mem::replace(&mut peer.in_force, true) {
                inputs.push(Input::LeaseBegan);
                inputs.extend(own.map(Input::Own));
            }
            for input in inputs {
                self.drive(*cluster, input);
            }
        }
        let ended: Vec<_> = self.all.keys().filter(|it| !partners.contains(it)).copied().collect();
        self.unread.retain(|cluster, _| partners.contains(cluster));
        for cluster in ended {
            self.drive(cluster, Input::LeaseEnded);
            self.owners.named(cluster, &[]);
            self.all.remove(&cluster);
        }
        let due = |peer: &Peer| {
            peer.exchange.wakeup().is_some_and(|deadline| deadline.is_due(self.clock.now()))
        };
        let due = self.all.iter().filter(|(_, peer)| due(peer)).map(|(cluster, _)| *cluster);
        for cluster in due.collect::<Vec<_>>() {
            self.drive(cluster, Input::Wake);
        }
    }

    fn known(&self, cluster: ClusterId) -> anyhow::Result<Exchange> {
        let pair = block_in_place(|| self.secrets.of(cluster))?;
        Ok(Exchange::new(self.own, cluster, pair))
    }

    /// Peers hear what this cluster says of itself now, if that is something else.
    pub(super) fn say_own(&mut self, content: Content) {
        if self.list.as_ref().is_some_and(|(said, _)| *said == content) {
            return;
        }
        self.sign(content, 0);
    }

    /// Signs a list that is later than that.
    fn sign(&mut self, content: Content, after_ms: u64) {
        let now = crate::driver::clock::wall();
        let last = self.list.as_ref().map_or(0, |(_, list)| list.issued_ms);
        let issued_ms = now.wall_ms.max(last + 1).max(after_ms.saturating_add(1));
        match content.sign(&self.key, self.own, issued_ms, now) {
            Ok(list) => {
                self.list = Some((content, list.clone()));
                for cluster in self.all.keys().copied().collect::<Vec<_>>() {
                    self.drive(cluster, Input::Own(list.clone()));
                }
            }
            Err(error) => tracing::error!("the list of gateways cannot be signed: {error:#}"),
        }
    }

    /// One input of a peer's exchange, and what comes of it; the answer to a question, if it was
    /// one.
    fn drive(&mut self, cluster: ClusterId, input: Input) -> Option<Answer> {
        let mut answer = None;
        let Some(peer) = self.all.get_mut(&cluster) else { return answer };
        let effects = peer
            .exchange
            .handle(self.clock.now(), input, || PairSecret::new(Zeroizing::new(rand::random())));
        let mut reissue = None;
        for effect in effects {
            match effect {
                Effect::Keep(pair) => {
                    if let Err(error) = block_in_place(|| self.secrets.keep(cluster, &pair)) {
                        // Once for each secret that cannot be kept.
                        tracing::warn!("{error:#}");
                        self.all.remove(&cluster);
                        let reason = RefusedReason::Unavailable;
                        let text = "the secret cannot be kept".to_owned();
                        return Some(Answer::Refused { reason, text });
                    }
                }
                Effect::Forget => {
                    if let Err(error) = block_in_place(|| self.secrets.forget(cluster)) {
                        // Once for each peer whose last lease has ended.
                        tracing::warn!("{error:#}");
                    }
                }
                Effect::Ask { number, ask } => self.ask(cluster, number, ask),
                Effect::Answer(said) => answer = Some(said),
                Effect::Reissue { after_ms } => reissue = Some(after_ms),
                Effect::Agreed { gateways, secrets } => {
                    if let Some(peer) = self.all.get_mut(&cluster) {
                        peer.agree(&gateways, &secrets);
                        let keys = peer.agreed().map(|agreed| &agreed.keys[..]);
                        self.owners.named(cluster, keys.unwrap_or_default());
                    }
                }
                Effect::Off(off) => {
                    if let Some(peer) = self.all.get_mut(&cluster) {
                        peer.state = State::Off(off);
                    }
                }
            }
        }
        if let (Some(after_ms), Some((content, _))) = (reissue, &self.list) {
            let content = content.clone();
            self.sign(content, after_ms);
        }
        answer
    }

    fn ask(&self, cluster: ClusterId, number: u64, ask: mercato_protocol::tunnel::Ask) {
        let (tell, net) = (self.tell.clone(), self.driver.net().clone());
        let Some(key) = self.all.get(&cluster).and_then(|peer| peer.connection) else { return };
        let key = key.key;
        tokio::spawn(async move {
            let answer = match net.tunnel(key, ask).await {
                Ok(answer) => {
                    let keys = BTreeMap::from([(key, cluster)]);
                    let speaker = Speaker { cluster, keys: &keys };
                    match speaker.answers(answer, crate::driver::clock::wall()) {
                        Ok(heard) => Outcome::Answer(heard),
                        Err(why) => Outcome::Failed(why),
                    }
                }
                Err(TunnelError::Unsupported) => Outcome::Unsupported,
                Err(error) => Outcome::Failed(error.to_string()),
            };
            // An error says that the daemon is stopping.
            let _ = tell.send(Event::Answered { cluster, number, answer }).await;
        });
    }

    /// The link to a gateway has changed. One that is up says whose the gateway is, and with the
    /// secret that both have, so that none before is needed. That it is down is no news for a lease:
    /// pods stay where they are.
    pub(super) fn on_link(&mut self, event: LinkEvent) {
        if let Some(secret) = self.owners.on_link(&mut self.all, event) {
            let cluster = event.cluster;
            self.drive(cluster, Input::Rekeyed(secret.hash(self.own, cluster)));
        }
    }

    /// Whether there is one of whose gateways none is reached.
    pub(super) fn are_apart(&self) -> bool {
        self.all.values().any(Peer::is_apart)
    }

    /// What is known of all gateways; this cluster's own is at this port.
    pub(super) fn learn(&mut self, known: &[PeerState], own_port: u16) {
        self.all.values_mut().for_each(|peer| peer.learn(known, own_port));
    }

    /// Who may have each gateway that peers name: one alone, once it is known whose it is.
    pub(super) fn claimants(
        &self,
        own: Option<mercato_session::PublicKey>,
    ) -> BTreeMap<mercato_session::PublicKey, BTreeSet<ClusterId>> {
        self.owners.claimants(&self.all, own)
    }

    /// With what handshakes with a gateway of this cluster begin.
    pub(super) fn secret(&self, cluster: ClusterId) -> Option<SharedSecret> {
        let agreed = self.get(cluster)?.agreed()?;
        Some(SharedSecret::new(*agreed.secret.of_handshakes(self.own, cluster)))
    }

    pub(super) fn on_answered(&mut self, cluster: ClusterId, number: u64, answer: Outcome) {
        self.drive(
            cluster,
            match answer {
                Outcome::Answer(answer) => Input::Answered { number, answer },
                Outcome::Failed(reason) => Input::Failed { number, reason },
                Outcome::Unsupported => Input::Unsupported { number },
            },
        );
    }

    /// It may ask a moment before this task has minded the connection or the lease.
    pub(super) fn on_asked(&mut self, asked: Asked, said: &Said) {
        let Asked { peer, ask, responder } = asked;
        self.mind(said);
        let answer = self.answer(said, peer, ask);
        responder.respond(answer);
    }

    fn answer(
        &mut self,
        said: &Said,
        key: PublicKey,
        ask: mercato_protocol::tunnel::Ask,
    ) -> Answer {
        let refused =
            |text: &str| Answer::Refused { reason: RefusedReason::NoLease, text: text.to_owned() };
        let mut known = said.peers.iter().filter(|(_, peer)| peer.key == key);
        let Some((cluster, _)) = known.next() else {
            return refused("the two clusters have not met yet");
        };
        if !self.all.contains_key(cluster) {
            return refused("no lease between the two clusters is in force here");
        }
        let keys = BTreeMap::from([(key, *cluster)]);
        let speaker = Speaker { cluster: *cluster, keys: &keys };
        match speaker.asks(ask, crate::driver::clock::wall()) {
            Ok(heard) => {
                let answer = self.drive(*cluster, Input::Asked(heard));
                answer.unwrap_or_else(|| refused("the question was not taken"))
            }
            Err(answer) => answer,
        }
    }
}
