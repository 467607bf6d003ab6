//! All clusters of a run: found by place, by key and by identity.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use mercato_protocol::id::{ClusterId, PublicKey};

use crate::engine::site::Site;
use crate::hostile::{Attack, Scene, Wants};

/// The clusters in the order of the plan.
pub(crate) struct Sites {
    all: Vec<Site>,
    by_key: BTreeMap<PublicKey, usize>,
    by_id: BTreeMap<ClusterId, usize>,
}

impl Sites {
    pub(crate) fn new(all: Vec<Site>) -> Self {
        Self {
            by_key: all.iter().enumerate().map(|(at, site)| (site.key(), at)).collect(),
            by_id: all.iter().enumerate().map(|(at, site)| (site.id(), at)).collect(),
            all,
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
