//! How advertisements spread: when each came to each cluster for the first time, from the
//! moment at which it was signed. Those of honest clusters, among them.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_gossip::Item;
use mercato_protocol::gossip::VerifiedPublication;

use crate::engine::site::Site;
use crate::engine::sites::Sites;
use crate::plan::Plan;

/// The spread of all publications of a run.
#[derive(Debug, Default)]
pub struct Spread {
    clusters: usize,
    /// Of these, honest and with a daemon that runs.
    up: usize,
    waves: BTreeMap<(usize, u64, u64), Wave>,
    /// First arrivals by time, a hundredth of a second to a step; the last step is all later.
    pub steps: Vec<u64>,
    /// From being signed to having reached half of the clusters, of each publication, in ms.
    pub half_ms: Vec<u64>,
    /// The same to 99 % of the clusters.
    pub most_ms: Vec<u64>,
    /// Publications that a later one overtook, or clusters were down, before 99 % had them.
    pub overtaken: u64,
    /// How many publications there were.
    pub publications: u64,
    /// When each was signed, and whose it is, in the order in which they first arrived.
    pub(crate) signed: Vec<(u64, usize)>,
    /// The latest number of each publisher that is a minute old.
    settled: BTreeMap<usize, (u64, u64)>,
}

/// A publication, as far as its spread needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    pub(crate) publisher: usize,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) signed_ms: u64,
}

impl News {
    /// Of the publisher at a place; none: it is no advertisement, nor the end of one.
    fn of(publisher: usize, site: &Site, item: &Item) -> Option<Self> {
        let signed_ms = match item.publication() {
            VerifiedPublication::Header(header) => header.issued_ms,
            VerifiedPublication::Withdraw(end) => end.issued_ms,
            VerifiedPublication::Equivocation(_) | VerifiedPublication::Revocations(..) => {
                return None;
            }
        };
        let (mark, signed_ms) = (item.mark(), site.run_ms(signed_ms));
        Some(Self { publisher, epoch: mark.epoch, seq: mark.seq, signed_ms })
    }
}

/// One publication on its way.
#[derive(Debug)]
struct Wave {
    signed_ms: u64,
    /// A bit for each cluster.
    seen: Vec<u64>,
    count: usize,
    is_over: bool,
}

/// A step of the histogram, in ms.
const STEP_MS: u64 = 10;
/// How many there are: a minute.
const STEPS: usize = 6_000;
/// A publication is followed so long, in ms.
const FOLLOWED_MS: u64 = 60_000;

impl Spread {
    pub(crate) fn new(clusters: usize) -> Self {
        Self { clusters, up: clusters, steps: vec![0; STEPS + 1], ..Self::default() }
    }

    /// These publications came to a cluster.
    pub(crate) fn follow(
        &mut self,
        at_ms: u64,
        to: usize,
        items: &[Arc<Item>],
        sites: &Sites,
        plan: &Plan,
    ) {
        for item in items {
            let Some(publisher) = sites.place_of_key(&item.mark().publisher) else { continue };
            // What the hostile say may go nowhere, and what they hear may go no further.
            if [publisher, to].iter().any(|at| plan.clusters[*at].character.is_some()) {
                continue;
            }
            if let Some(news) = News::of(publisher, &sites[publisher], item) {
                self.arrived(at_ms, to, news);
            }
        }
    }

    /// A publication of a publisher's came to a cluster.
    pub(crate) fn arrived(&mut self, at_ms: u64, to: usize, news: News) {
        let News { publisher, epoch, seq, signed_ms } = news;
        if signed_ms + FOLLOWED_MS < at_ms || to == publisher {
            return;
        }
        let words = self.clusters.div_ceil(64);
        let wave = self.waves.entry((publisher, epoch, seq)).or_insert_with(|| {
            self.publications += 1;
            self.signed.push((signed_ms, publisher));
            Wave { signed_ms, seen: vec![0; words], count: 0, is_over: false }
        });
        let bit = 1 << (to % 64);
        if wave.seen[to / 64] & bit != 0 {
            return;
        }
        wave.seen[to / 64] |= bit;
        wave.count += 1;
        let took_ms = at_ms.saturating_sub(wave.signed_ms);
        self.steps[((took_ms / STEP_MS) as usize).min(STEPS)] += 1;
        let others = self.up.saturating_sub(1).max(1);
        if wave.count == others.div_ceil(2) {
            self.half_ms.push(took_ms);
        }
        if !wave.is_over && wave.count * 100 >= others * 99 {
            wave.is_over = true;
            self.most_ms.push(took_ms);
        }
    }

    /// Follows what is old no longer. So many clusters are `up`.
    pub(crate) fn settle(&mut self, at_ms: u64, up: usize) {
        self.up = up;
        let old = |wave: &Wave| wave.signed_ms.saturating_add(FOLLOWED_MS) < at_ms;
        for ((publisher, epoch, seq), wave) in self.waves.extract_if(.., |_, wave| old(wave)) {
            self.overtaken += u64::from(!wave.is_over);
            let latest = self.settled.entry(publisher).or_default();
            *latest = (*latest).max((epoch, seq));
        }
    }

    /// What every cluster should have of a publisher by now.
    pub(crate) fn settled(&self, publisher: usize) -> Option<(u64, u64)> {
        self.settled.get(&publisher).copied()
    }

    /// How many first arrivals there were.
    pub fn arrivals(&self) -> u64 {
        self.steps.iter().sum()
    }

    /// How many of the first arrivals came within so many ms, in thousandths.
    pub fn within(&self, ms: u64) -> u64 {
        let all = self.arrivals();
        let early: u64 = self.steps.iter().take((ms / STEP_MS) as usize).sum();
        early * 1_000 / all.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_counts_once_and_the_thresholds_are_met_in_turn() {
        let mut spread = Spread::new(101);
        let news = News { publisher: 0, epoch: 1, seq: 7, signed_ms: 1_000 };
        for to in 1..=100 {
            let at_ms = 1_000 + to as u64 * 10;
            spread.arrived(at_ms, to, news);
            spread.arrived(at_ms + 5, to, news);
        }
        assert_eq!(
            (spread.half_ms.as_slice(), spread.most_ms.as_slice()),
            ([500].as_slice(), [990].as_slice())
        );
        assert_eq!(spread.steps.iter().sum::<u64>(), 100);
        assert_eq!(spread.within(510), 500);
        spread.settle(70_000, 101);
        assert_eq!((spread.overtaken, spread.settled(0)), (0, Some((1, 7))));
    }
}
