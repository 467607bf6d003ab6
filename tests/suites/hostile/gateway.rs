//! Somebody says that another partner's gateway is its own, and agrees on a secret like anybody.
//! Whether it is believed is seen by whether the owner's tunnel is there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use ipnet::IpNet;
use mercato_protocol::envelope::{KeyPair, Signed, Signers, Trust};
use mercato_protocol::id::{ClusterId, Digest, FederationId, GatewayKey, PublicKey};
use mercato_protocol::tunnel::{Answer, Ask, Gateway, Gateways, PairSecret, RefusedReason};
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;
use zeroize::Zeroizing;

use crate::Scene;
use crate::impostor::{Impostor, UNHARMED, now};

/// What both daemons have from then on; before, they have none.
const ON: &str = "gateway:\n  enabled: on\n";
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a link is silent before it is down, and a gateway takes to be told of it.
const STAYS: Duration = Duration::from_secs(8);
const LOOK: Duration = Duration::from_millis(500);
/// An address where nobody is.
const NOWHERE: &str = "192.0.2.7:7475";

/// What is said of gateways to whoever asks, and the hash of each secret that was heard.
#[derive(Clone)]
pub(crate) struct Lists {
    own: ClusterId,
    key: Arc<KeyPair>,
    said: Arc<Mutex<Said>>,
}

#[derive(Default)]
struct Said {
    list: Option<Signed<Gateways>>,
    clusters: BTreeMap<PublicKey, ClusterId>,
    secrets: BTreeMap<PublicKey, Digest>,
}

impl Lists {
    pub(crate) fn new(own: ClusterId, seed: &[u8; 32]) -> Self {
        Self { own, key: Arc::new(KeyPair::from_seed(seed)), said: Arc::default() }
    }

    /// Says that the gateways of these keys are its own, from now on.
    fn name(&self, keys: &[GatewayKey]) -> Result<()> {
        self.say(keys, Vec::new())
    }

    /// The same of gateways that have these ranges behind them.
    pub(crate) fn say(&self, keys: &[GatewayKey], ranges: Vec<IpNet>) -> Result<()> {
        let addresses = vec![NOWHERE.parse()?];
        let gateways = keys.iter().map(|key| Gateway { key: *key, addresses: addresses.clone() });
        let list = Gateways {
            cluster: self.own,
            issued_ms: now()?.wall_ms,
            gateways: gateways.collect(),
            ranges,
            reason: keys.is_empty().then(|| "its owner is away".to_owned()),
        };
        let list = self.key.sign(FederationId::NONE, &list)?;
        self.said.lock().expect(UNHARMED).list = Some(list);
        Ok(())
    }

    /// What is answered to a daemon that asks.
    pub(crate) fn answer(&self, peer: PublicKey, ask: &Ask) -> Answer {
        let mut said = self.said.lock().expect(UNHARMED);
        let hash = said.secrets.get(&peer).copied();
        match (ask, said.list.clone(), said.clusters.get(&peer).copied()) {
            (Ask::Introduce { .. }, Some(gateways), _) => {
                Answer::Introduced { gateways, secret_hash: hash }
            }
            (Ask::Secret { secret, .. }, _, Some(cluster)) => {
                let hash = secret.hash(self.own, cluster);
                said.secrets.insert(peer, hash);
                Answer::Holds { secret_hash: Some(hash) }
            }
            (Ask::Introduce { .. } | Ask::Secret { .. }, ..) => Answer::Refused {
                reason: RefusedReason::Unavailable,
                text: "nothing is said yet".to_owned(),
            },
        }
    }

    /// Introduces itself to a daemon, and agrees with it on a secret. Its gateways, and whether both
    /// have the secret.
    async fn introduce(
        &self,
        impostor: &Impostor,
        daemon: &Daemon<'_>,
    ) -> Result<(Gateways, bool)> {
        let (peer, cluster) = (impostor.meet(daemon).await?, cluster(daemon).await?);
        let (list, hash) = {
            let mut said = self.said.lock().expect(UNHARMED);
            said.clusters.insert(peer, cluster);
            (said.list.clone().context("a list")?, said.secrets.get(&peer).copied())
        };
        let ask = Ask::Introduce { gateways: list, secret_hash: hash };
        let Answer::Introduced { gateways, secret_hash } = impostor.net.tunnel(peer, ask).await?
        else {
            bail!("it does not introduce itself")
        };
        let keys = BTreeMap::from([(peer, cluster)]);
        let trust = Trust { federation: FederationId::NONE, signers: Signers::Known(&keys) };
        let theirs = (*gateways.open(trust, now()?)?).clone();
        let agrees = hash.is_some() && secret_hash == hash;
        if !agrees && self.own < cluster && !theirs.gateways.is_empty() {
            let secret = PairSecret::new(Zeroizing::new([7; 32]));
            let hash = secret.hash(self.own, cluster);
            let ask = Ask::Secret { secret, replaces: secret_hash };
            impostor.net.tunnel(peer, ask).await?;
            self.said.lock().expect(UNHARMED).secrets.insert(peer, hash);
        }
        Ok((theirs, agrees))
    }

    /// Says its list to a daemon that it has met; whether that is heard.
    pub(crate) async fn tell(&self, impostor: &Impostor, peer: PublicKey) -> Result<bool> {
        let ask = {
            let said = self.said.lock().expect(UNHARMED);
            let gateways = said.list.clone().context("a list")?;
            Ask::Introduce { gateways, secret_hash: said.secrets.get(&peer).copied() }
        };
        let answer = impostor.net.tunnel(peer, ask).await?;
        Ok(matches!(answer, Answer::Introduced { .. }))
    }

    /// Tells a daemon that the gateways of these keys are its own, and has a secret with it.
    async fn lie(
        &self,
        impostor: &Impostor,
        daemon: &Daemon<'_>,
        keys: &[GatewayKey],
    ) -> Result<()> {
        self.name(keys)?;
        let agrees = || async { Ok(self.introduce(impostor, daemon).await?.1) };
        wait::until("both have a list and a secret", PATIENCE, agrees).await
    }
}

/// Pisa's impostor names Milan's gateway to Siena, which has a lease with both.
pub(crate) async fn is_not_had_by_naming_it(scene: &Scene<'_>, impostor: &Impostor) -> Result<()> {
    let Scene { milan, siena, .. } = scene;
    for daemon in [milan, siena] {
        daemon.configure(ON)?;
        daemon.kill().await?;
    }
    let lists = &impostor.lists;
    lists.name(&[])?;
    let found = Mutex::new(Vec::new());
    let has_one = || async {
        let (theirs, _) = lists.introduce(impostor, milan).await?;
        let mut found = found.lock().expect(UNHARMED);
        *found = theirs.gateways.iter().map(|gateway| gateway.key).collect();
        Ok(!found.is_empty())
    };
    wait::until("milan has a gateway", PATIENCE, has_one).await?;
    let keys = found.lock().expect(UNHARMED).clone();
    is_up(siena, milan).await.context("before anybody lies")?;
    lists.lie(impostor, siena, &keys).await.context("the first lie")?;
    // Nothing has shown yet whose it is.
    siena.kill().await?;
    lists.lie(impostor, siena, &keys).await.context("after a start")?;
    is_up(siena, milan).await.context("after a start")?;
    stays_up(siena, milan).await.context("after a start")?;
    milan.kill().await?;
    is_up(siena, milan).await.context("after silence")?;
    stays_up(siena, milan).await.context("after silence")?;
    lists.lie(impostor, siena, &keys).await.context("the liar is not heard any more")?;
    ensure!(link(siena, impostor.cluster).await? != "up", "the liar has a tunnel");
    Ok(())
}

async fn cluster(daemon: &Daemon<'_>) -> Result<ClusterId> {
    let status = daemon.json(&["status"]).await?;
    Ok(status["daemon"]["cluster"].as_str().context("no id")?.parse()?)
}

/// How a daemon's tunnel to a cluster is.
async fn link(daemon: &Daemon<'_>, to: ClusterId) -> Result<String> {
    let (status, to) = (daemon.json(&["status"]).await?, to.to_string());
    let tunnels = status["daemon"]["tunnels"].as_array().context("no tunnels")?;
    let tunnel = tunnels.iter().find(|tunnel| tunnel["cluster"] == to.as_str());
    let link = tunnel.context("no such tunnel")?["link"].as_str().context("no link")?;
    Ok(link.to_owned())
}

async fn is_up(daemon: &Daemon<'_>, peer: &Daemon<'_>) -> Result<()> {
    let to = cluster(peer).await?;
    let is_up = || async { Ok(link(daemon, to).await? == "up") };
    wait::until("the owner's tunnel is up", PATIENCE, is_up).await
}

async fn stays_up(daemon: &Daemon<'_>, peer: &Daemon<'_>) -> Result<()> {
    let (to, began) = (cluster(peer).await?, std::time::Instant::now());
    while began.elapsed() < STAYS {
        let link = link(daemon, to).await?;
        ensure!(link == "up", "the owner's tunnel is {link}");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
