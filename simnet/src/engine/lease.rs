//! A lease as one cluster has it: its side of it in Kubernetes, and what the agent was told.

use mercato_agent::{GuestWork, HomeWork, Input, LeaseDesire, LeaseInput, LeaseNews, Phase, Work};
use mercato_broker as broker;
use mercato_cluster_model::ApiError;
use mercato_cluster_model::sides::{Client, GuestSide, HomeSide, Lie, NodeState};
use mercato_offload::guest;
use mercato_offload::placement::export::Scope;

use crate::verify::{Violation, ensure};

/// What is to be of a lease in its cluster, and what is.
pub(crate) struct Lease {
    desire: LeaseDesire,
    side: Side,
    /// The agent knows that it is ready, or that nothing is left.
    told: Option<Told>,
    /// At home: its node shows that it leaves.
    leaves: bool,
}

/// What the agent was told of a lease last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Ready,
    Removed,
}

enum Side {
    Home(Box<HomeSide>),
    Guest(Box<GuestSide>),
}

impl Lease {
    /// A new one, whose decisions are made from a lie if a bug is planted.
    pub(crate) fn new(desire: LeaseDesire, lie: Option<Lie>) -> Self {
        let side = match desire.side {
            broker::Side::Consumer => {
                let mut side = HomeSide::new(&desire.contract, Scope::Labelled);
                side.lie = lie;
                Side::Home(Box::new(side))
            }
            broker::Side::Provider => {
                let mut side = GuestSide::new(&desire.contract);
                side.lie = lie;
                Side::Guest(Box::new(side))
            }
        };
        let mut this = Self { desire, side, told: None, leaves: false };
        this.knows_ranges();
        this
    }

    /// What is to be of it.
    pub(crate) fn desire(&self) -> &LeaseDesire {
        &self.desire
    }

    /// The agent wants it otherwise. What was said to be over never goes on.
    pub(crate) fn change(&mut self, desire: LeaseDesire) -> Result<(), Violation> {
        let (was, is) = (self.desire.phase, desire.phase);
        ensure(was != Phase::Ended || is == Phase::Ended, || {
            let contract = desire.contract.id;
            format!("lease {contract:.8} was to be {was:?} and is to be {is:?} again")
        })?;
        self.desire = desire;
        self.knows_ranges();
        Ok(())
    }

    /// Its side knows pods by the ranges that the agent says.
    fn knows_ranges(&mut self) {
        let LeaseDesire { ranges, own, .. } = &self.desire;
        match &mut self.side {
            Side::Home(side) => side.set_ranges([&ranges[..], own].concat()),
            Side::Guest(side) => side.set_ranges(ranges.clone()),
        }
    }

    /// What watches home's objects, if this is the consumer's side.
    pub(crate) fn home(&mut self) -> Option<&mut HomeSide> {
        match &mut self.side {
            Side::Home(side) => Some(side),
            Side::Guest(_) => None,
        }
    }

    /// Does what was asked of the API server; its answer. None: nobody waits for one, or the lease has no
    /// such side.
    pub(crate) fn work(&mut self, client: &mut Client<'_>, work: Work) -> Option<LeaseInput> {
        match (work, &mut self.side) {
            (Work::Home(HomeWork::Confirm(pod)), Side::Home(side)) => {
                Some(LeaseInput::Home(side.confirm(client, &pod)))
            }
            (Work::Home(HomeWork::Write(pod, write)), Side::Home(_)) => {
                Some(LeaseInput::Home(HomeSide::write(client, &pod, &write)))
            }
            (Work::Home(HomeWork::Claim(key, granted)), Side::Home(side)) => {
                side.granted(client, &key, granted);
                None
            }
            (Work::Guest(work), Side::Guest(side)) => {
                Some(LeaseInput::Guest(at_provider(side, client, work)))
            }
            (Work::Home(_), _) | (Work::Guest(_), Side::Home(_)) => None,
        }
    }

    /// What the watches tell. One that `breaks` lists everything again.
    pub(crate) fn news(&mut self, client: &mut Client<'_>, breaks: bool) -> Vec<Input> {
        let contract = self.desire.contract.id;
        let input = |input| Input::Lease(contract, input);
        match &mut self.side {
            Side::Home(side) => {
                if breaks {
                    side.relist();
                }
                side.news(client).into_iter().map(LeaseInput::Home).map(input).collect()
            }
            Side::Guest(side) => {
                if breaks {
                    side.relist();
                }
                side.news(client).into_iter().map(LeaseInput::Guest).map(input).collect()
            }
        }
    }

    /// Whether its node is to show that it leaves, or no longer, by now.
    pub(crate) fn turns(&self, wall_ms: u64) -> bool {
        let leaves = self.desire.leaving(wall_ms).is_some();
        matches!(self.side, Side::Home(_)) && leaves != self.leaves
    }

    /// Makes the cluster's part of it as it is to be; what is new of that to the agent. What fails
    /// now is tried again when the watches tell the next time.
    pub(crate) fn tend(&mut self, client: &mut Client<'_>, wall_ms: u64) -> Option<Input> {
        let before = self.told;
        if let Ok(told) = self.approach(client, wall_ms) {
            self.told = told.or(before);
            self.leaves = self.desire.leaving(wall_ms).is_some();
        }
        let news = match self.told.filter(|_| self.told != before)? {
            Told::Ready => LeaseNews::Ready,
            Told::Removed => LeaseNews::Removed,
        };
        Some(Input::Lease(self.desire.contract.id, LeaseInput::News(news)))
    }

    /// What can be told of it.
    fn approach(
        &mut self,
        client: &mut Client<'_>,
        wall_ms: u64,
    ) -> Result<Option<Told>, ApiError> {
        let LeaseDesire { contract, phase, peer_name, reachable, namespaces, .. } = &self.desire;
        let is_over = *phase >= Phase::Draining;
        let peer_name = peer_name.as_deref();
        let node = NodeState {
            contract,
            peer_name,
            ends_ms: self.desire.ends.at_ms,
            leaving: self.desire.leaving(wall_ms),
            suspended: *phase == Phase::Suspended,
            bought: self.desire.is_burst,
            reachable: *reachable,
        };
        match &mut self.side {
            Side::Home(side) if is_over => {
                side.drain(client, node).map(|gone| gone.then_some(Told::Removed))
            }
            Side::Home(side) => side.keep_node(client, node).map(|()| Some(Told::Ready)),
            Side::Guest(side) if *phase == Phase::Ended => {
                side.close(client).map(|gone| gone.then_some(Told::Removed))
            }
            Side::Guest(side) => side.open(client, contract, namespaces).map(|()| None),
        }
    }
}

fn at_provider(side: &mut GuestSide, client: &mut Client<'_>, work: GuestWork) -> guest::Input {
    match work {
        GuestWork::Apply(item, content) => side.apply(client, item, &content),
        GuestWork::Make(pod, content) => side.make(client, pod, &content),
        GuestWork::Update(pod, content) => side.update(client, pod, &content),
        GuestWork::Delete(item, grace_s) => side.delete(client, item, grace_s),
        GuestWork::Release(pod) => side.release(client, pod),
        GuestWork::Confirm(item, uid) => side.confirm(client, &item, uid),
    }
}
