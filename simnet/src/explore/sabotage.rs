//! Planted bugs at work: each corrupts what goes into an agent or what comes out, at its
//! vocabulary, or the facts from which a lease in a cluster is decided, so that no code of the
//! product carries a switch for it.

#![expect(clippy::wildcard_enum_match_arm, reason = "a bug concerns few words of many")]

mod bursts;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_agent::{
    Change, Effect, Frame, GuestWork, HomeWork, Input, LeaseDesire, LeaseInput, Phase, Record,
    RecordKey, Work,
};
use mercato_broker as broker;
use mercato_cluster_model::sides::Lie;
use mercato_offload::home::Write;
use mercato_offload::key::{Item, ObjectKind, PodId};
use mercato_offload::{guest, home};
use mercato_protocol::contract::Contract;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::{ContractId, PublicKey};
use mercato_protocol::negotiation::State;

use crate::explore::bug::Bug;

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
    /// By cluster: what it hears before it is so.
    early: BTreeMap<usize, Vec<Input>>,
    /// By cluster and lease: the first address of any of its pods.
    addresses: BTreeMap<(usize, ContractId), IpAddr>,
    /// By cluster and lease: the earliest moment from when on it was to leave.
    leaves: BTreeMap<(usize, ContractId), u64>,
    /// By cluster and lease: the claims that were made there.
    claims: BTreeMap<(usize, ContractId), BTreeSet<Item>>,
    bursts: bursts::Seen,
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
            early: BTreeMap::new(),
            addresses: BTreeMap::new(),
            leaves: BTreeMap::new(),
            claims: BTreeMap::new(),
            bursts: bursts::Seen::default(),
        }
    }

    /// What the decisions of a lease in a cluster are made from instead.
    pub(crate) fn lie(&self) -> Option<Lie> {
        match self.bug {
            Bug::OverwritesOthers => Some(Lie::AllIsOurs),
            Bug::RoomIgnored => Some(Lie::RoomIsEndless),
            Bug::OptInIgnored => Some(Lie::AllLeaves),
            Bug::ClosedNamespaceTold => Some(Lie::AllIsOpen),
            Bug::OpenOutlivesConsent => Some(Lie::ConsentLasts),
            _ => None,
        }
    }

    /// Whether agents are not told that their records cannot be written.
    pub(crate) fn hides_full_disks(&self) -> bool {
        self.bug == Bug::FullDiskIgnored
    }

    /// Whether a frame is lost with a body of it that is not taken.
    pub(crate) fn ends_streams(&self) -> bool {
        self.bug == Bug::BodyEndsStream
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
                self.beside.extend(again.map(|work| Effect::Work(*of, Work::Guest(work))));
                vec![input]
            }
            (
                Bug::EndpointOutlivesPod,
                Input::Lease(_, LeaseInput::Home(home::Input::Object { key, digest: None })),
            ) if key.kind == ObjectKind::EndpointSlice => Vec::new(),
            (Bug::ReadyBeforeReached, _) => {
                let early = self.early.remove(&at).unwrap_or_default();
                std::iter::once(input).chain(early).collect()
            }
            (Bug::BoughtTwice, _) => self.bursts.all_there(at, input),
            (Bug::BoughtInVain, _) => vec![bursts::all_used(input)],
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
            Bug::HoldForgotten => without(answer, is_deal_in(State::Agreed)),
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
            Bug::EndForgotten => without(answer, is_deal_in(State::Closed)),
            Bug::OfferForgotten => without(answer, is_deal_in(State::Offered)),
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
            Bug::EgressBeyondOffer => answer.into_iter().map(widened).collect(),
            Bug::LeavingForgotten => answer.into_iter().map(|e| self.old_end(at, e)).collect(),
            Bug::ClaimsGoWithPods => answer.into_iter().flat_map(|e| self.unclaim(at, e)).collect(),
            Bug::ReceiptShrinks => answer.into_iter().map(|e| self.old_receipt(at, e)).collect(),
            Bug::ReleasedEarly => answer.into_iter().flat_map(release_early).collect(),
            Bug::UidRunsAgain => {
                answer.iter().for_each(|effect| self.remember_made(effect));
                answer.into_iter().chain(self.beside.drain(..)).collect()
            }
            Bug::ReadyBeforeReached => self.believed_early(at, answer),
            Bug::AddressGivenTwice => answer.into_iter().map(|e| self.one_address(at, e)).collect(),
            Bug::DeletionFinishedEarly => {
                let finish = self.finish_early(at);
                answer.into_iter().chain(finish).collect()
            }
            Bug::BoughtTwice => {
                self.bursts.look(at, &answer);
                answer
            }
            Bug::MarkForgotten => answer.into_iter().map(bursts::unmarked).collect(),
            Bug::EmptyListDeletesAtHome
            | Bug::BoughtInVain
            | Bug::EmptyListDeletesGuests
            | Bug::LinkDownIsNodeDown
            | Bug::ResyncForgotten
            | Bug::OverwritesOthers
            | Bug::RoomIgnored
            | Bug::OptInIgnored
            | Bug::ClosedNamespaceTold
            | Bug::OpenOutlivesConsent
            | Bug::FullDiskIgnored
            | Bug::EndpointOutlivesPod
            | Bug::BodyEndsStream => answer,
        }
    }

    fn look(&mut self, at: usize, input: &Input) {
        match input {
            Input::Lease(of, LeaseInput::Home(home::Input::Pod(pod))) => {
                let deleting = pod.deletion_grace_s.is_some();
                self.pods.entry((at, *of)).or_default().insert(pod.pod.clone(), deleting);
            }
            Input::Connected { peer, .. } => drop(self.dead.insert((at, peer.key), 6)),
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

    fn old_end(&mut self, at: usize, mut effect: Effect) -> Effect {
        if let Effect::Lease(desire) = &mut effect {
            let known = self.leaves.entry((at, desire.contract.id)).or_insert(u64::MAX);
            *known = desire.ends.from_ms.min(*known);
            desire.ends.from_ms = *known;
        }
        effect
    }

    /// A guest that is let go takes all claims with it.
    fn unclaim(&mut self, at: usize, effect: Effect) -> Vec<Effect> {
        let Effect::Work(of, Work::Guest(work)) = &effect else { return vec![effect] };
        let (of, claims) = (*of, self.claims.entry((at, *of)).or_default());
        match work {
            GuestWork::Apply(item @ Item::Object(key), ..) if key.kind == ObjectKind::Claim => {
                claims.insert(item.clone());
                vec![effect]
            }
            GuestWork::Release(_) => {
                let gone = std::mem::take(claims).into_iter();
                let gone = gone.map(|item| Work::Guest(GuestWork::Delete(item, None)));
                std::iter::once(effect).chain(gone.map(|work| Effect::Work(of, work))).collect()
            }
            _ => vec![effect],
        }
    }

    fn remember_made(&mut self, effect: &Effect) {
        let Effect::Work(_, Work::Guest(work)) = effect else { return };
        match work {
            GuestWork::Apply(item @ Item::Pod(_), ..) => {
                self.made.insert(item.clone(), work.clone());
            }
            GuestWork::Make(pod, _) => {
                self.made.insert(Item::Pod(pod.clone()), work.clone());
            }
            _ => {}
        }
    }

    fn believed_early(&mut self, at: usize, answer: Vec<Effect>) -> Vec<Effect> {
        let asked = answer.iter().filter_map(|effect| match effect {
            Effect::Map(of, guest) => Some((*of, guest.clone())),
            _ => None,
        });
        let done =
            |(of, guest)| Input::Lease(of, LeaseInput::Guest(guest::Input::Mapped(guest, true)));
        self.early.entry(at).or_default().extend(asked.map(done));
        answer
    }

    fn one_address(&mut self, at: usize, mut effect: Effect) -> Effect {
        if let Effect::Persist(Change::Put(Record::Home(of, home::Record::Address(_, address)))) =
            &mut effect
        {
            *address = *self.addresses.entry((at, *of)).or_insert(*address);
        }
        effect
    }

    fn finish_early(&self, at: usize) -> Vec<Effect> {
        let here = self.pods.iter().filter(|((place, _), _)| *place == at);
        let deleting = here.flat_map(|((_, of), pods)| {
            let deleting = pods.iter().filter(|(_, deleting)| **deleting);
            deleting.map(|(pod, _)| (*of, pod.clone()))
        });
        let finish =
            |(of, pod)| Effect::Work(of, Work::Home(HomeWork::Write(pod, Write::FinishDeletion)));
        deleting.map(finish).collect()
    }
}

/// Whether a record is of a deal in that state.
fn is_deal_in(state: State) -> impl Fn(&Record) -> bool {
    move |record| matches!(record, Record::Broker(broker::Record::Deal(deal)) if deal.state() == state)
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

/// A lease with egress has all of it.
fn widened(mut effect: Effect) -> Effect {
    if let Effect::Lease(desire) = &mut effect
        && desire.contract.terms.egress != Egress::None
    {
        desire.contract.terms.egress = Egress::Internet;
    }
    effect
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
        Effect::Work(of, Work::Guest(GuestWork::Delete(Item::Pod(pod), _))) => {
            vec![effect.clone(), Effect::Work(*of, Work::Guest(GuestWork::Release(pod.clone())))]
        }
        _ => vec![effect],
    }
}
