//! What an attack has gained, judged from outside, beside the most that the market's limits
//! allow it.

use std::collections::{BTreeMap, BTreeSet};

use mercato_agent::Agent;
use mercato_broker::limits::{OPEN_OF_STRANGERS, UNSIGNED_CLOSES, UNSIGNED_WINDOW_MS};
use mercato_broker::{Deal, Meter, Side, Standing};
use mercato_gossip::News;
use mercato_gossip::limits::UNKNOWN_PUBLISHERS;
use mercato_protocol::gossip::VerifiedPublication;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::negotiation::State;

use super::character::Character;
use crate::engine::site::Site;
use crate::engine::sites::Sites;
use crate::measure::Spread;
use crate::plan::Plan;

/// What an attack has gained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gain {
    /// Whose attack it was, by its kind.
    pub character: Character,
    /// How often the attack was tried.
    pub tried: u64,
    /// The most that it had at one time.
    pub gained: u64,
    /// The most that it may have.
    pub limit: u64,
    /// What is counted, in words for people.
    pub what: &'static str,
}

impl Gain {
    /// Whether it stayed within what is allowed.
    pub fn is_contained(&self) -> bool {
        self.gained <= self.limit
    }
}

/// All that attacks are judged by, at one moment.
pub(crate) struct Scales<'a> {
    pub(crate) at_ms: u64,
    pub(crate) plan: &'a Plan,
    pub(crate) sites: &'a Sites,
    pub(crate) spread: &'a Spread,
    /// What each attack had when it was weighed last, by place.
    pub(crate) before: &'a BTreeMap<usize, Gain>,
}

impl Scales<'_> {
    /// Judges every attack as things stand, and keeps the most that each had.
    pub(crate) fn weigh_all(&self) -> BTreeMap<usize, Gain> {
        let clusters = self.plan.clusters.iter().enumerate();
        let attacks = clusters.filter_map(|(at, cluster)| Some((at, cluster.character?)));
        let weigh = |(at, character)| {
            let (gained, limit, what) = self.weigh(at, character);
            let before = self.before.get(&at).map_or(0, |gain| gain.gained);
            let (gained, tried) = (gained.max(before), self.sites[at].tried);
            (at, Gain { character, tried, gained, limit, what })
        };
        attacks.map(weigh).collect()
    }

    fn honest_up(&self) -> impl Iterator<Item = (usize, &Site)> {
        self.sites.honest().filter(|(_, site)| site.agent.is_some())
    }

    fn weigh(&self, at: usize, character: Character) -> (u64, u64, &'static str) {
        let id = self.sites[at].id();
        let limit_of_holds = OPEN_OF_STRANGERS as u64;
        match character {
            Character::Forger => (self.false_offers(), 0, "offers shown that nobody made"),
            Character::Replayer => {
                (self.stale_views(), 0, "offers shown that were replaced a minute ago")
            }
            Character::Equivocator => {
                let proven = self.sites[at].tried > 0 && self.fraud_is_old(at);
                let trusting = if proven { self.trusting(at) } else { 0 };
                (trusting, 0, "clusters that trust it a minute after it said two things")
            }
            Character::Flooder => (
                self.most_strangers(),
                UNKNOWN_PUBLISHERS as u64,
                "false publishers kept by one cluster",
            ),
            Character::HoldHoarder => (self.most_holds(id), limit_of_holds, "holds at one seller"),
            Character::BaitAndSwitch => {
                let switched = self.deals_with(id).filter(|deal| {
                    deal.side() == Side::Consumer
                        && deal.agreement().is_some_and(|both| {
                            both.contract.terms.price != deal.request().terms.price
                        })
                });
                (switched.count() as u64, 0, "contracts at another price than offered")
            }
            Character::CheapestStranger => {
                let bought = self.deals_with(id);
                let bought = bought.filter(|deal| deal.side() == Side::Consumer);
                (bought.count() as u64, 0, "orders from those who do not trust it")
            }
            Character::NonSigningBuyer => {
                (self.unsigned_windows(id), UNSIGNED_CLOSES, "windows used without a signature")
            }
            Character::ClockLiar => (self.showing(id), 0, "clusters that show its offer"),
            Character::Eclipse => (self.blind(), 0, "clusters that know no honest offer"),
        }
    }

    /// Offers of honest clusters under a key that is not theirs, over all honest books.
    fn false_offers(&self) -> u64 {
        let keys: BTreeMap<ClusterId, PublicKey> =
            self.sites.iter().map(|site| (site.id(), site.key())).collect();
        let shown = self.honest_up().flat_map(|(_, site)| self.offers(site));
        shown.filter(|(id, key)| keys.get(id).is_some_and(|own| own != key)).count() as u64
    }

    /// Whose offers a cluster shows.
    fn offers<'a>(&self, site: &'a Site) -> impl Iterator<Item = (ClusterId, PublicKey)> + 'a {
        let now = site.now(self.at_ms);
        let agent = site.agent.iter();
        agent.flat_map(move |agent| agent.broker().providers(now)).map(|(id, key, _)| (id, key))
    }

    /// Marks of honest publishers that are older than what has long spread, where the
    /// holder was connected all the time.
    fn stale_views(&self) -> u64 {
        let stale = |site: &Site| {
            let marks = site.agent.iter().flat_map(|agent| agent.gossip().marks());
            let stale = marks.filter(|mark| {
                let publisher = self.sites.place_of_key(&mark.publisher);
                let settled = publisher.and_then(|place| self.spread.settled(place));
                settled.is_some_and(|settled| (mark.epoch, mark.seq) < settled)
            });
            stale.count() as u64
        };
        self.honest_up().map(|(_, site)| stale(site)).sum()
    }

    /// Whether it is a minute since it was caught: it had tried at the last weighing.
    fn fraud_is_old(&self, at: usize) -> bool {
        self.before.get(&at).is_some_and(|gain| gain.tried > 0)
    }

    /// The most publishers that are no clusters, kept by one honest cluster.
    fn most_strangers(&self) -> u64 {
        let strangers = |site: &Site| {
            let marks = site.agent.iter().flat_map(|agent| agent.gossip().marks());
            marks.filter(|mark| self.sites.place_of_key(&mark.publisher).is_none()).count() as u64
        };
        self.honest_up().map(|(_, site)| strangers(site)).max().unwrap_or(0)
    }

    /// The most that one honest seller holds for a buyer that has not signed.
    fn most_holds(&self, buyer: ClusterId) -> u64 {
        let holds = |site: &Site| {
            let deals = site.agent.iter().flat_map(|agent| agent.broker().deals());
            let open = deals.filter(|deal| {
                deal.peer() == buyer
                    && deal.side() == Side::Provider
                    && matches!(deal.state(), State::Agreed | State::Review)
            });
            open.count() as u64
        };
        self.honest_up().map(|(_, site)| holds(site)).max().unwrap_or(0)
    }

    /// What honest clusters have with a hostile one.
    fn deals_with(&self, peer: ClusterId) -> impl Iterator<Item = &Deal> {
        let agents = self.honest_up().filter_map(|(_, site)| site.agent.as_ref());
        agents.flat_map(|agent| agent.broker().deals()).filter(move |deal| deal.peer() == peer)
    }

    /// The most windows that a buyer has used at one time without having signed for them.
    fn unsigned_windows(&self, buyer: ClusterId) -> u64 {
        let windows = self.honest_up().flat_map(|(_, site)| {
            let now_ms = site.now(self.at_ms).wall_ms;
            let deals = site.agent.iter().flat_map(|agent| agent.broker().deals());
            let used = deals.filter(|deal| {
                deal.peer() == buyer && deal.side() == Side::Provider && deal.is_leased()
            });
            used.map(move |deal| {
                let signed_ms =
                    deal.meter().and_then(Meter::signed).map(|signed| signed.receipt.to_ms);
                let since_ms =
                    signed_ms.or(deal.meter().and_then(Meter::started_ms)).unwrap_or(now_ms);
                let window_ms = u64::from(deal.request().terms.metering_interval_s) * 1_000;
                now_ms.saturating_sub(since_ms) / window_ms.max(UNSIGNED_WINDOW_MS)
            })
        });
        windows.max().unwrap_or(0)
    }

    /// Honest clusters that would buy of this one. One that holds the proof, and has never met
    /// the cluster, cannot know yet whose key that is.
    fn trusting(&self, at: usize) -> u64 {
        let (provider, key) = (self.sites[at].id(), self.sites[at].key());
        let proven = |news: &News| {
            matches!(news.publication(), VerifiedPublication::Equivocation(proof)
                if *proof.publisher() == key)
        };
        let warned = |agent: &Agent| {
            agent.key(&provider).is_none() && agent.gossip().latest(&key).is_some_and(proven)
        };
        let trusts = |site: &Site| {
            site.agent.as_ref().is_some_and(|agent| {
                agent.broker().standing(&provider) == Standing::Trusted && !warned(agent)
            })
        };
        self.honest_up().filter(|(_, site)| trusts(site)).count() as u64
    }

    /// Honest clusters that show an offer of this one.
    fn showing(&self, provider: ClusterId) -> u64 {
        let shows = |site: &Site| self.offers(site).any(|(id, _)| id == provider);
        self.honest_up()
            .filter(|(at, site)| self.plan.clusters[*at].character.is_none() && shows(site))
            .count() as u64
    }

    /// Honest clusters that have been there for a while and know no honest offer, though
    /// there are some.
    fn blind(&self) -> u64 {
        let offers = |at: usize, site: &Site| {
            self.plan.sells(at)
                && site.agent.as_ref().is_some_and(|agent| agent.broker().offer().is_some())
        };
        let honest: BTreeSet<ClusterId> = self
            .honest_up()
            .filter(|(at, site)| offers(*at, site))
            .map(|(_, site)| site.id())
            .collect();
        let blind = self.honest_up().filter(|(_, site)| {
            let others = honest.iter().any(|id| *id != site.id());
            let is_new = site.now(self.at_ms).mono_ms < 60_000;
            others && !is_new && !self.offers(site).any(|(id, _)| honest.contains(&id))
        });
        blind.count() as u64
    }
}
