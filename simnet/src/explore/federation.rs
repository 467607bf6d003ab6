//! One federation tried out: its clusters trade for some time, and it is counted what comes
//! of it.

use std::collections::BTreeMap;

use mercato_protocol::gossip::VerifiedPublication;

use crate::engine::course::Course;
use crate::engine::site::Site;
use crate::engine::sites::Sites;
use crate::engine::trace::TraceHash;
use crate::explore::faults::Faults;
use crate::measure::{Ad, Gossipsub, Measures, gossipsub};
use crate::plan::Plan;
use crate::verify::Violation;
use crate::workload::{Alone, Market, Workload};

/// A federation to try out: clusters, time and a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Federation {
    /// Its clusters, links and incidents.
    pub plan: Plan,
    /// All chance comes of it.
    pub seed: u64,
    /// For how long, in ms.
    pub for_ms: u64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time since the start of the run, in ms.
    pub at_ms: u64,
    /// How many events there were so far.
    pub steps: u64,
    /// How many leases are in use.
    pub leases: u64,
    /// How many jobs wait for capacity.
    pub waiting: u64,
}

/// What came of running a federation.
#[derive(Debug)]
pub struct Run {
    /// The federation that was run.
    pub federation: Federation,
    /// What was counted while it ran.
    pub measures: Measures,
    /// The same jobs without a federation.
    pub alone: Alone,
    /// The same advertisements over gossipsub.
    pub gossipsub: Gossipsub,
    /// Of everything that happened, in order.
    pub trace: TraceHash,
    /// How many events there were in all.
    pub steps: u64,
    /// How many messages were sent in all.
    pub messages: u64,
    /// Records that each cluster keeps at the end, by kind.
    pub records: Vec<BTreeMap<&'static str, usize>>,
}

impl Federation {
    /// Runs it. `on_minute` is told how far it is, once a virtual minute.
    pub fn run(self, mut on_minute: impl FnMut(Progress)) -> Result<Run, Violation> {
        let market = Market::new(&self.plan, self.seed, self.for_ms);
        let workload = Workload::with_jobs(market);
        let faults = Faults::planned(self.seed);
        let mut course = Course::new(self.plan.clone(), self.seed, faults, workload)
            .map_err(|error| Violation(error.to_string()))?;
        while course.at_ms() < self.for_ms {
            course.run_until((course.at_ms() + 60_000).min(self.for_ms))?;
            let world = &course.world;
            let last = world.measures.samples.last();
            on_minute(Progress {
                at_ms: world.agenda.at_ms(),
                steps: world.agenda.steps(),
                leases: last.map_or(0, |sample| sample.leases),
                waiting: last.map_or(0, |sample| sample.waiting),
            });
        }
        let mut world = course.world;
        if let Some(market) = &world.workload.market {
            assert_eq!(world.measures.jobs.waiting(), market.waiting(), "a job counts once");
        }
        world.measures.weigh(world.agenda.at_ms(), &world.plan, &world.sites);
        let samples: Vec<u64> = world.measures.samples.iter().map(|sample| sample.at_ms).collect();
        let market = world.workload.market.as_ref();
        let alone = market.map_or_else(Alone::default, |market| market.alone(&self.plan, &samples));
        world.measures.compare(&alone);
        let ads = advertisements(&world.sites, &world.measures.spread.signed);
        Ok(Run {
            gossipsub: gossipsub(&self.plan, self.seed, &ads),
            federation: self,
            measures: world.measures,
            alone,
            trace: world.trace.hash(),
            steps: world.agenda.steps(),
            messages: world.network.sent(),
            records: world.sites.iter().map(records).collect(),
        })
    }
}

fn records(site: &Site) -> BTreeMap<&'static str, usize> {
    let mut counted = BTreeMap::new();
    for record in site.gate.records().iter() {
        *counted.entry(record.key().kind()).or_default() += 1;
    }
    counted
}

/// All that was advertised, in order of time. Each is as long as its publisher's last.
fn advertisements(sites: &Sites, signed: &[(u64, usize)]) -> Vec<Ad> {
    let size = |site: &Site| {
        let news = site.agent.as_ref()?.gossip().latest(&site.key())?;
        let VerifiedPublication::Header(header) = news.publication() else { return None };
        Some(header.signed().as_bytes().len() + news.body().map_or(0, <[u8]>::len))
    };
    let sizes: Vec<Option<usize>> = sites.iter().map(size).collect();
    let known: Vec<usize> = sizes.iter().copied().flatten().collect();
    let usual = known.iter().sum::<usize>().checked_div(known.len()).unwrap_or(0);
    let signed = signed.iter();
    let mut ads: Vec<Ad> =
        signed.map(|(at_ms, whose)| (*at_ms, *whose, sizes[*whose].unwrap_or(usual))).collect();
    ads.sort_unstable();
    ads
}
