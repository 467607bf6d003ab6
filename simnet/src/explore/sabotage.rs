//! Planted bugs: each corrupts what goes into an agent or what comes out, at its
//! vocabulary, or the facts from which a lease in a cluster is decided, so that no code of the
//! product carries a switch for it. The tests demand
//! that the invariants catch every one.

#![expect(clippy::wildcard_enum_match_arm, reason = "a bug concerns few words of many")]

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use mercato_agent::{
    Change, Effect, Frame, GuestWork, HomeWork, Input, LeaseDesire, LeaseInput, Phase, Record,
    RecordKey,
};
use mercato_broker as broker;
use mercato_cluster_model::sides::Lie;
use mercato_offload::home::Write;
use mercato_offload::key::{Item, PodId};
use mercato_offload::{guest, home};
use mercato_protocol::contract::Contract;
use mercato_protocol::id::{ContractId, PublicKey};
use mercato_protocol::negotiation::State;

/// A bug that somebody might write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// What is said goes out before it is on disk.
    SendBeforePersist,
    /// An empty list of pods is taken for "all deleted", at home.
    EmptyListDeletesAtHome,
    /// An empty list of guests is taken for "all gone", at the provider.
    EmptyListDeletesGuests,
    /// A contract's record is not kept: what was held for it is forgotten in a crash, and
    /// it is signed anew.
    HoldForgotten,
    /// That a pod was removed at home is not remembered.
    TombstoneForgotten,
    /// That a pod has run is not remembered: it may run again.
    LifeForgotten,
    /// Our finalizer is taken off before the pod's end is on record.
    ReleasedEarly,
    /// Numbers of advertisements are not reserved on disk.
    AdNumberReused,
    /// Epochs of links are not kept: a new run says things anew under an old one.
    EpochReused,
    /// A receipt is overwritten by an earlier one.
    ReceiptShrinks,
    /// A pod that is over is made once more.
    UidRunsAgain,
    /// A link that is down is taken for a node that is down: its pods are finished off.
    LinkDownIsNodeDown,
    /// Home finishes a deletion before the guest is over.
    DeletionFinishedEarly,
    /// A new link is not noticed: nothing is said again.
    ResyncForgotten,
    /// The end of a lease is not remembered.
    EndForgotten,
    /// A firm offer is not kept: it is made anew after a crash.
    OfferForgotten,
    /// A change that is signed is not kept.
    ChangeForgotten,
    /// A lease goes on as it was once its contract has changed.
    LeaseUnchanged,
    /// Frames are said again though nothing was lost.
    SaidTwice,
    /// The first words to a peer that has come back go over the connection of before, and count as
    /// said.
    DeadLinkKept,
    /// An object at the provider is overwritten though it is not the lease's.
    OverwritesOthers,
    /// Guests take more than the contract has.
    RoomIgnored,
    /// Pods leave a namespace that did not opt in.
    OptInIgnored,
    /// A lease of which nothing is to be left goes back to being drained.
    EndTakenBack,
    /// An agent is not told that its records cannot be written.
    FullDiskIgnored,
}

impl Bug {
    /// All planted bugs that there are.
    pub const ALL: [Self; 25] = [
        Self::SendBeforePersist,
        Self::EmptyListDeletesAtHome,
        Self::EmptyListDeletesGuests,
        Self::HoldForgotten,
        Self::TombstoneForgotten,
        Self::LifeForgotten,
        Self::ReleasedEarly,
        Self::AdNumberReused,
        Self::EpochReused,
        Self::ReceiptShrinks,
        Self::UidRunsAgain,
        Self::LinkDownIsNodeDown,
        Self::DeletionFinishedEarly,
        Self::ResyncForgotten,
        Self::EndForgotten,
        Self::OfferForgotten,
        Self::ChangeForgotten,
        Self::LeaseUnchanged,
        Self::SaidTwice,
        Self::DeadLinkKept,
        Self::OverwritesOthers,
        Self::RoomIgnored,
        Self::OptInIgnored,
        Self::EndTakenBack,
        Self::FullDiskIgnored,
    ];
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|bug| bug.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no bug that can be planted: simnet bugs"))
    }
}

/// A bug at work, in every cluster.
#[derive(Debug)]
pub(crate) struct Sabotage {
    bug: Bug,
    /// By cluster and lease: home pods that were seen.
    pods: BTreeMap<(usize, ContractId), BTreeMap<PodId, bool>>,
    /// By cluster and lease: guests that were seen.
    guests: BTreeMap<(usize, ContractId), Vec<Item>>,
    /// By cluster and deal: the first record that had a receipt.
    receipts: BTreeMap<(usize, RecordKey), Record>,
    /// By cluster: each lease's first contract.
    contracts: BTreeMap<(usize, ContractId), Contract>,
    /// How each guest was made.
    made: BTreeMap<Item, GuestWork>,
    /// What is to be done beside the next answer.
    beside: Vec<Effect>,
    /// By cluster and peer: how many more words go over the connection of before.
    dead: BTreeMap<(usize, PublicKey), u32>,
}

impl Sabotage {
    pub(crate) fn new(bug: Bug) -> Self {
        Self {
            bug,
            pods: BTreeMap::new(),
            guests: BTreeMap::new(),
            receipts: BTreeMap::new(),
            contracts: BTreeMap::new(),
            made: BTreeMap::new(),
            beside: Vec::new(),
            dead: BTreeMap::new(),
        }
    }

    /// What the decisions of a lease in a cluster are made from instead.
    pub(crate) fn lie(&self) -> Option<Lie> {
        match self.bug {
            Bug::OverwritesOthers => Some(Lie::AllIsOurs),
            Bug::RoomIgnored => Some(Lie::RoomIsEndless),
            Bug::OptInIgnored => Some(Lie::AllLeaves),
            _ => None,
        }
    }

    /// Whether agents are not told that their records cannot be written.
    pub(crate) fn hides_full_disks(&self) -> bool {
        self.bug == Bug::FullDiskIgnored
    }

    /// What an agent hears instead.
    pub(crate) fn twist_input(&mut self, at: usize, input: Input) -> Vec<Input> {
        self.look(at, &input);
        match (self.bug, &input) {
            // A watch that starts again shows nothing first, and that is believed.
            (
                Bug::EmptyListDeletesAtHome,
                Input::Lease(of, LeaseInput::Home(home::Input::Synced(_))),
            ) => {
                let known = self.pods.get(&(at, *of)).into_iter().flatten();
                let gone = known.map(|(pod, _)| home::Input::PodGone(pod.uid.clone()));
                let gone = gone.map(|gone| Input::Lease(*of, LeaseInput::Home(gone)));
                std::iter::once(input.clone()).chain(gone).collect()
            }
            (
                Bug::EmptyListDeletesGuests,
                Input::Lease(of, LeaseInput::Guest(guest::Input::Synced(_))),
            ) => {
                let known = self.guests.get(&(at, *of)).into_iter().flatten();
                let gone = known.map(|item| {
                    Input::Lease(*of, LeaseInput::Guest(guest::Input::Gone(item.clone())))
                });
                std::iter::once(input.clone()).chain(gone).collect()
            }
            (Bug::LinkDownIsNodeDown, Input::Disconnected(_)) => {
                let known = self.pods.iter().filter(|((place, _), _)| *place == at);
                let gone = known.flat_map(|((_, of), pods)| {
                    pods.keys().map(|pod| {
                        Input::Lease(*of, LeaseInput::Home(home::Input::PodGone(pod.uid.clone())))
                    })
                });
                std::iter::once(input.clone()).chain(gone).collect()
            }
            // The old link is believed to be still there.
            (Bug::ResyncForgotten, Input::Disconnected(_)) => Vec::new(),
            (Bug::ResyncForgotten, Input::Connected { .. }) if !self.pods.is_empty() => Vec::new(),
            (Bug::UidRunsAgain, Input::Lease(of, LeaseInput::Guest(guest::Input::Gone(item)))) => {
                let again = self.made.get(item).cloned();
                self.beside.extend(again.map(|work| Effect::Guest(*of, work)));
                vec![input]
            }
            (_, _) => vec![input],
        }
    }

    /// What an agent wants instead.
    pub(crate) fn twist(&mut self, at: usize, answer: Vec<Effect>) -> Vec<Effect> {
        match self.bug {
            Bug::SendBeforePersist => {
                let persists = |effect: &Effect| matches!(effect, Effect::Persist(_));
                let (late, early): (Vec<_>, Vec<_>) = answer.into_iter().partition(persists);
                early.into_iter().chain(late).collect()
            }
            Bug::HoldForgotten => without(answer, |record| {
                matches!(record, Record::Broker(broker::Record::Deal(deal))
                    if deal.state() == State::Agreed)
            }),
            Bug::TombstoneForgotten => without(answer, |record| {
                matches!(record, Record::Home(_, home::Record::Tombstone(_)))
            }),
            Bug::LifeForgotten => {
                without(answer, |record| matches!(record, Record::Guest(_, guest::Record::Pod(..))))
            }
            Bug::AdNumberReused => without(answer, |record| {
                matches!(record, Record::Broker(broker::Record::Series { .. }))
            }),
            Bug::EpochReused => without(answer, |record| {
                matches!(
                    record,
                    Record::Guest(_, guest::Record::Epoch(_))
                        | Record::Home(_, home::Record::Epoch(_))
                )
            }),
            Bug::EndForgotten => without(answer, |record| {
                matches!(record, Record::Broker(broker::Record::Deal(deal))
                    if deal.state() == State::Closed)
            }),
            Bug::OfferForgotten => without(answer, |record| {
                matches!(record, Record::Broker(broker::Record::Deal(deal))
                    if deal.state() == State::Offered)
            }),
            Bug::ChangeForgotten => without(answer, |record| {
                matches!(record, Record::Broker(broker::Record::Deal(deal))
                    if deal.amendment().is_some_and(|change| change.state() == State::Agreed))
            }),
            Bug::DeadLinkKept => {
                answer.into_iter().filter(|effect| self.lives(at, effect)).collect()
            }
            Bug::EndTakenBack => answer.into_iter().flat_map(taken_back).collect(),
            Bug::SaidTwice => answer.into_iter().flat_map(twice).collect(),
            Bug::LeaseUnchanged => answer.into_iter().map(|e| self.old_lease(at, e)).collect(),
            Bug::ReceiptShrinks => answer.into_iter().map(|e| self.old_receipt(at, e)).collect(),
            Bug::ReleasedEarly => answer.into_iter().flat_map(release_early).collect(),
            Bug::UidRunsAgain => {
                for effect in &answer {
                    if let Effect::Guest(_, work @ GuestWork::Apply(item @ Item::Pod(_), ..)) =
                        effect
                    {
                        self.made.insert(item.clone(), work.clone());
                    }
                }
                answer.into_iter().chain(self.beside.drain(..)).collect()
            }
            Bug::DeletionFinishedEarly => {
                let finish = self.finish_early(at);
                answer.into_iter().chain(finish).collect()
            }
            Bug::EmptyListDeletesAtHome
            | Bug::EmptyListDeletesGuests
            | Bug::LinkDownIsNodeDown
            | Bug::ResyncForgotten
            | Bug::OverwritesOthers
            | Bug::RoomIgnored
            | Bug::OptInIgnored
            | Bug::FullDiskIgnored => answer,
        }
    }

    fn look(&mut self, at: usize, input: &Input) {
        match input {
            Input::Lease(of, LeaseInput::Home(home::Input::Pod(pod))) => {
                let deleting = pod.deletion_grace_s.is_some();
                self.pods.entry((at, *of)).or_default().insert(pod.pod.clone(), deleting);
            }
            Input::Connected { peer, .. } => drop(self.dead.insert((at, peer.key), 3)),
            Input::Lease(of, LeaseInput::Home(home::Input::PodGone(uid))) => {
                self.pods.entry((at, *of)).or_default().retain(|pod, _| pod.uid != *uid);
            }
            Input::Lease(of, LeaseInput::Guest(guest::Input::Observed(seen))) => {
                self.guests.entry((at, *of)).or_default().push(seen.item.clone());
            }
            _ => {}
        }
    }

    /// Whether it is no word that goes over a dead connection.
    fn lives(&mut self, at: usize, effect: &Effect) -> bool {
        let Effect::Negotiation { peer, .. } = effect else { return true };
        let Some(left) = self.dead.get_mut(&(at, *peer)).filter(|left| **left > 0) else {
            return true;
        };
        *left -= 1;
        false
    }

    fn old_receipt(&mut self, at: usize, effect: Effect) -> Effect {
        let Effect::Persist(Change::Put(record)) = effect else { return effect };
        let Record::Broker(broker::Record::Deal(deal)) = &record else {
            return Effect::Persist(Change::Put(record));
        };
        if deal.meter().and_then(broker::Meter::signed).is_none() {
            return Effect::Persist(Change::Put(record));
        }
        let first = self.receipts.entry((at, record.key())).or_insert(record.clone());
        let second = deal
            .meter()
            .and_then(broker::Meter::signed)
            .is_some_and(|signed| signed.receipt.index == 2);
        Effect::Persist(Change::Put(if second { first.clone() } else { record }))
    }

    fn old_lease(&mut self, at: usize, effect: Effect) -> Effect {
        let Effect::Lease(mut desire) = effect else { return effect };
        let first = self.contracts.entry((at, desire.contract.id));
        desire.contract = first.or_insert(desire.contract.clone()).clone();
        Effect::Lease(desire)
    }

    fn finish_early(&self, at: usize) -> Vec<Effect> {
        let here = self.pods.iter().filter(|((place, _), _)| *place == at);
        let deleting = here.flat_map(|((_, of), pods)| {
            let deleting = pods.iter().filter(|(_, deleting)| **deleting);
            deleting.map(|(pod, _)| (*of, pod.clone()))
        });
        let finish = |(of, pod)| Effect::Home(of, HomeWork::Write(pod, Write::FinishDeletion));
        deleting.map(finish).collect()
    }
}

fn without(answer: Vec<Effect>, forgets: impl Fn(&Record) -> bool) -> Vec<Effect> {
    let kept = |effect: &Effect| match effect {
        Effect::Persist(Change::Put(record)) => !forgets(record),
        _ => true,
    };
    answer.into_iter().filter(kept).collect()
}

fn twice(effect: Effect) -> Vec<Effect> {
    let says = match &effect {
        Effect::Workload { frame: Frame::ToGuest(frame), .. } => !frame.statements.is_empty(),
        Effect::Workload { frame: Frame::ToHome(frame), .. } => !frame.statements.is_empty(),
        _ => false,
    };
    if says { vec![effect.clone(), effect] } else { vec![effect] }
}

fn taken_back(effect: Effect) -> Vec<Effect> {
    match effect {
        Effect::Lease(ended) if ended.phase == Phase::Ended => {
            let drains = LeaseDesire { phase: Phase::Draining, ..(*ended).clone() };
            vec![Effect::Lease(ended), Effect::Lease(Box::new(drains))]
        }
        other => vec![other],
    }
}

fn release_early(effect: Effect) -> Vec<Effect> {
    match &effect {
        Effect::Guest(of, GuestWork::Delete(Item::Pod(pod), _)) => {
            vec![effect.clone(), Effect::Guest(*of, GuestWork::Release(pod.clone()))]
        }
        _ => vec![effect],
    }
}
