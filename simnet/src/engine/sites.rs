//! All clusters of a run: found by place, by key and by identity.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use mercato_agent::{BrokerInput, Input};
use mercato_broker::Inventory;
use mercato_discovery::{Report, Sighting, SightingId, Source};
use mercato_gossip::Interner;
use mercato_protocol::codec::CodecError;
use mercato_protocol::id::{ClusterId, PublicKey};

use crate::engine::address::address;
use crate::engine::gateway::{self, Gateway};
use crate::engine::rng::Rng;
use crate::engine::site::{Clock, Site};
use crate::explore::faults::Faults;
use crate::hostile::{Attack, Scene, Wants, attack};
use crate::plan::Plan;
use crate::workload::Workload;

/// So many clusters of a thousand have no gateway, if faults come by chance.
const WITHOUT_GATEWAY: u32 = 200;

/// The clusters in the order of the plan.
pub(crate) struct Sites {
    all: Vec<Site>,
    by_key: BTreeMap<PublicKey, usize>,
    by_id: BTreeMap<ClusterId, usize>,
}

impl Sites {
    /// Those of a plan, which people have introduced to each other. Their keys are of `seeds`.
    pub(crate) fn new(
        plan: &Plan,
        seed: u64,
        seeds: &mut Rng,
        faults: &Faults,
        workload: &Workload,
    ) -> Result<Self, CodecError> {
        let (mut skews, mut gateways) = (Rng::new(seed, "clocks"), Rng::new(seed, "gateways"));
        let interner = Interner::new(seed);
        let mut all = Vec::new();
        for (at, cluster) in plan.clusters.iter().enumerate() {
            let most = faults.skew_ms.cast_signed();
            let skew_ms = skews.within(0..=2 * faults.skew_ms).cast_signed() - most;
            let skew_ms = cluster.character.map_or(skew_ms, |character| character.skew_ms());
            let clock = Clock { skew_ms, ..Clock::default() };
            let mut site = Site::new(at, &cluster.name, seeds.seed(), clock, interner.clone())?;
            let has_gateway = !faults.is_mixed() || !gateways.chance(WITHOUT_GATEWAY);
            site.gateway = has_gateway.then(Gateway::default);
            site.furnish(cluster, plan.metering_s);
            site.attack = cluster.character.map(|character| attack(character, seed));
            all.push(site);
        }
        workload.introduce(plan, &mut all);
        Ok(Self {
            by_key: all.iter().enumerate().map(|(at, site)| (site.key(), at)).collect(),
            by_id: all.iter().enumerate().map(|(at, site)| (site.id(), at)).collect(),
            all,
        })
    }

    /// What an agent is told first: its cluster, its address, and of those whom it knows.
    pub(crate) fn greeting(&self, at: usize, plan: &Plan, has: Inventory) -> Vec<Input> {
        let is_reachable = |at: usize| plan.clusters[at].access.reachable;
        let own = is_reachable(at).then(|| address(at).to_string());
        let mut inputs = vec![
            Input::Tick,
            Input::Broker(BrokerInput::Inventory(has)),
            // Nothing in it enforces anything: what is promised is looked at.
            Input::Broker(BrokerInput::Egress(true)),
            Input::Broker(BrokerInput::Addresses(own.into_iter().collect())),
        ];
        let knows = plan.clusters[at].knows.iter().copied().filter(|peer| is_reachable(*peer));
        let tunnel = gateway::greeting(self[at].gateway.is_some());
        inputs.extend(tunnel.into_iter().map(Input::Tunnel));
        inputs.extend(knows.map(|peer| Input::Sighted(Report::Seen(self.sighting(peer)))));
        inputs
    }

    fn sighting(&self, peer: usize) -> Sighting {
        Sighting {
            id: SightingId { source: Source::Lan, instance: self[peer].name.clone() },
            peer: Some(self[peer].key()),
            addresses: vec![address(peer)],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Site> {
        self.all.iter()
    }

    /// Where the cluster is that signs with this key.
    pub(crate) fn place_of_key(&self, key: &PublicKey) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn place_of(&self, cluster: ClusterId) -> Option<usize> {
        self.by_id.get(&cluster).copied()
    }

    /// Lets a hostile peer see what it sees; what it wants.
    pub(crate) fn with_attack(
        &mut self,
        at: usize,
        at_ms: u64,
        peers: &[usize],
        act: impl FnOnce(&mut dyn Attack, &mut Scene<'_>),
    ) -> Wants {
        let Some(mut attack) = self[at].attack.take() else { return Wants::default() };
        let honest = self.honest().filter(|(place, _)| *place != at);
        let victims: Vec<_> = honest.map(|(place, site)| (place, site.id(), site.key())).collect();
        let site = &mut self[at];
        let mut scene = Scene {
            now: site.now(at_ms),
            config: &site.config,
            peers,
            victims: &victims,
            sends: Vec::new(),
            tells: Vec::new(),
            asks: Vec::new(),
            tried: site.tried,
        };
        act(&mut *attack, &mut scene);
        let Scene { sends, tells, asks, tried, .. } = scene;
        site.attack = Some(attack);
        site.tried = tried;
        Wants { sends, tells, asks }
    }

    /// Those who keep the rules, and their places.
    pub(crate) fn honest(&self) -> impl Iterator<Item = (usize, &Site)> {
        self.all.iter().enumerate().filter(|(_, site)| site.attack.is_none())
    }
}

impl Index<usize> for Sites {
    type Output = Site;

    fn index(&self, at: usize) -> &Site {
        &self.all[at]
    }
}

impl IndexMut<usize> for Sites {
    fn index_mut(&mut self, at: usize) -> &mut Site {
        &mut self.all[at]
    }
}
