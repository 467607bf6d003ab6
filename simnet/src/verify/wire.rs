//! What may be let go: nothing that the disk does not know of, no number twice for other
//! bytes, no work for a contract that is not signed by both.

use std::collections::{BTreeMap, BTreeSet};

use mercato_agent::{Change, Effect, Frame, GuestWork, Record, RecordKey, Work};
use mercato_broker as broker;
use mercato_cluster_model::Key;
use mercato_gossip::Open as _;
use mercato_offload::guest::{self, Life};
use mercato_offload::home;
use mercato_offload::key::PodId;
use mercato_offload::message::ToGuest;
use mercato_protocol::envelope::{Countersigned, Signed, Signers, Trust};
use mercato_protocol::gossip::{Message as Gossip, Publication};
use mercato_protocol::id::{ContractId, Digest, NegotiationId, PublicKey};
use mercato_protocol::negotiation::{Answer, Body, Message, State};
use mercato_protocol::time::Now;

use super::{Violation, disk, ensure};
use crate::engine::signature_cache::SignatureCache;
use crate::engine::site::Site;

/// What was let go so far.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// By publisher, epoch and number: the bytes.
    publications: BTreeMap<(PublicKey, u64, u64), Digest>,
    /// By speaker, negotiation and number: the bytes.
    said: BTreeMap<(usize, NegotiationId, u32), Digest>,
    /// By contract and change: the provider's signature.
    agreements: BTreeMap<(ContractId, Option<u32>), Digest>,
    /// Contracts that were seen with both signatures.
    signed: BTreeSet<(usize, ContractId)>,
    /// Pods that are gone from home, and that its disk has known of.
    entombed: BTreeSet<PodId>,
    /// The last epoch that was ever on disk, by cluster, contract and side.
    epochs: BTreeMap<(usize, ContractId, Side), u64>,
}

/// Whose effect it is, and what its clock shows.
#[derive(Clone, Copy)]
pub(crate) struct Actor<'a> {
    pub(crate) at: usize,
    pub(crate) site: &'a Site,
    pub(crate) now: Now,
}

/// The two sides of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Home,
    Guest,
}

impl Wire {
    /// What a session has on disk it may rest on, even if the same write, or one before what it
    /// says is let go, removes it again, since the lease is over.
    pub(crate) fn on_written(&mut self, at: usize, changes: &[Change]) {
        for change in changes {
            let (contract, side, epoch) = match change {
                Change::Put(Record::Home(id, home::Record::Epoch(epoch))) => {
                    (*id, Side::Home, *epoch)
                }
                Change::Put(Record::Guest(id, guest::Record::Epoch(epoch))) => {
                    (*id, Side::Guest, *epoch)
                }
                Change::Put(Record::Home(_, home::Record::Tombstone(pod))) => {
                    self.entombed.insert(pod.clone());
                    continue;
                }
                Change::Put(_) | Change::Erase(_) => continue,
            };
            let last = self.epochs.entry((at, contract, side)).or_default();
            *last = epoch.max(*last);
        }
    }

    pub(crate) fn check(
        &mut self,
        actor: Actor<'_>,
        signature_cache: &mut SignatureCache,
        effect: &Effect,
    ) -> Result<(), Violation> {
        let Actor { at, site, .. } = actor;
        match effect {
            Effect::Gossip { message: Gossip::Push { publications, .. }, .. } => {
                let mut each = publications.iter();
                each.try_for_each(|one| self.on_publication(actor, signature_cache, one))
            }
            Effect::Negotiation { message, .. } => {
                self.on_negotiation(at, site, signature_cache, message)
            }
            Effect::Workload { contract, frame, .. } => {
                self.is_signed(at, site, *contract)?;
                if let Frame::ToGuest(frame) = frame {
                    frame.statements.iter().try_for_each(|said| self.on_deletion(site, said))?;
                }
                let (used, side) = match frame {
                    Frame::ToGuest(frame) => (frame.from, Side::Home),
                    Frame::ToHome(frame) => (frame.from, Side::Guest),
                };
                let kept = self.epochs.get(&(at, *contract, side)).copied().unwrap_or(0);
                ensure(used <= kept, || format!("epoch {used} is used, {kept} is on disk"))
            }
            Effect::Work(contract, Work::Guest(work)) => {
                self.on_guest_work(at, site, *contract, work)
            }
            Effect::Work(contract, Work::Home(_))
            | Effect::Carry(contract, ..)
            | Effect::CarrySecond(contract, ..)
            | Effect::Map(contract, _)
            | Effect::Unmap(contract, _) => self.is_signed(at, site, *contract),
            Effect::Lease(desire) => {
                self.is_signed(at, site, desire.contract.id)?;
                let deal = disk::deal(site.gate.records(), desire.contract.id.into());
                let agreed = deal.and_then(|deal| deal.agreement()).map(|it| &it.contract);
                // What takes its place may have been written with what this waited for: then it
                // is said right after.
                let says = |effect: &Effect| matches!(effect, Effect::Lease(next) if Some(&next.contract) == agreed);
                let fits = agreed.is_none() || says(effect) || site.gate.waiting().any(says);
                ensure(fits, || format!("{:.8} is not as its contract", desire.contract.id))
            }
            Effect::Gossip { .. }
            | Effect::Persist(_)
            | Effect::Dial { .. }
            | Effect::Block(..)
            | Effect::HangUp(_)
            | Effect::Refuse(..)
            | Effect::Ranks(_)
            | Effect::Rank(..)
            | Effect::Forget(_)
            | Effect::CloseStreams(_)
            | Effect::OwnRanges(_)
            | Effect::Reply(..)
            | Effect::Federation(..)
            | Effect::Join { .. }
            | Effect::Introduce
            | Effect::Notice(_) => Ok(()),
        }
    }

    fn on_publication(
        &mut self,
        actor: Actor<'_>,
        signature_cache: &mut SignatureCache,
        said: &Publication,
    ) -> Result<(), Violation> {
        let Actor { site, now, .. } = actor;
        // What is passed on after its time is for its receivers to drop.
        let federation = site.config.federation;
        let Ok(item) = signature_cache.opener(federation, now).item(said) else { return Ok(()) };
        let mark = item.mark();
        if mark.publisher != site.key() {
            return Ok(());
        }
        let place = (mark.publisher, mark.epoch, mark.seq);
        let before = *self.publications.entry(place).or_insert(mark.digest);
        let numbers = format!("{}/{}", mark.epoch, mark.seq);
        ensure(before == mark.digest, || format!("number {numbers} is used for two contents"))?;
        let kept = site.gate.records().get(&RecordKey::Broker(broker::RecordKey::Series));
        let reserved = match kept {
            Some(Record::Broker(broker::Record::Series { epoch, next_seq })) => {
                Some((*epoch, *next_seq))
            }
            Some(_) | None => None,
        };
        let known = reserved.is_some_and(|reserved| (mark.epoch, mark.seq) < reserved);
        ensure(known, || format!("number {numbers} is used, the disk has {reserved:?}"))
    }

    fn on_negotiation(
        &mut self,
        at: usize,
        site: &Site,
        signature_cache: &mut SignatureCache,
        signed: &Signed<Message>,
    ) -> Result<(), Violation> {
        let opened = signature_cache.message(signed, site.config.federation, site.key(), site.id());
        let message = opened.map_err(|error| Violation(format!("an own message: {error}")))?;
        let id = message.negotiation;
        if message.body == (Body::Status { state: State::Unknown }) {
            return Ok(()); // of what is not known nothing is kept
        }
        let place = (at, id, message.seq);
        let before = *self.said.entry(place).or_insert(signed.digest());
        ensure(before == signed.digest(), || {
            format!("message {} of {id:.8} is said with two contents", message.seq)
        })?;
        if let Some((change, contract)) = signed_by_provider(&message.body) {
            let before = *self.agreements.entry((id.into(), change)).or_insert(contract);
            ensure(before == contract, || format!("{id:.8} is signed a second time"))?;
        }
        let next = disk::next_seq(site.gate.records(), id);
        ensure(next.is_some_and(|next| message.seq < next), || {
            format!("message {} of {id:.8} is sent, the disk knows of {next:?}", message.seq)
        })
    }

    /// That a pod which home has already removed is to end, only the disk can know.
    fn on_deletion(&self, site: &Site, said: &ToGuest) -> Result<(), Violation> {
        let ToGuest::Delete { pod, grace_s: 0 } = said else { return Ok(()) };
        let found = site.kube.get(&Key::new("Pod", &pod.namespace, &pod.name));
        let is_here = found.is_some_and(|found| found["metadata"]["uid"] == pod.uid.0.as_str());
        let on_disk = self.entombed.contains(pod);
        ensure(is_here || on_disk, || format!("no tombstone of {} is on disk", pod.key()))
    }

    fn on_guest_work(
        &mut self,
        at: usize,
        site: &Site,
        contract: ContractId,
        work: &GuestWork,
    ) -> Result<(), Violation> {
        self.is_signed(at, site, contract)?;
        let Some(pod) = released(work) else { return Ok(()) };
        let life = RecordKey::Guest(contract, guest::RecordKey::Pod(pod.uid.clone()));
        let over = site.gate.records().get(&life).is_some_and(|record| {
            matches!(record, Record::Guest(_, guest::Record::Pod(id, Life::Over(_))) if id == pod)
        });
        ensure(over, || format!("{} is let go before its end is on disk", pod.key()))
    }

    /// A lease has one contract with two valid signatures over the same bytes, on disk.
    fn is_signed(&mut self, at: usize, site: &Site, id: ContractId) -> Result<(), Violation> {
        if self.signed.contains(&(at, id)) {
            return Ok(());
        }
        let deal = disk::deal(site.gate.records(), id.into());
        let agreement = deal.and_then(|deal| deal.agreement());
        let unsigned = || Violation(format!("{id:.8} is acted on without both signatures"));
        let agreement = agreement.ok_or_else(unsigned)?;
        let consumer = agreement.consumer.as_ref().ok_or_else(unsigned)?;
        let parties = [&agreement.contract.provider, &agreement.contract.consumer];
        let known = parties.map(|party| (party.key, party.cluster)).into();
        let trust = Trust { federation: site.config.federation, signers: Signers::Known(&known) };
        let provider = agreement.provider.open(trust, Now::default());
        let both = provider.and_then(|provider| {
            Countersigned::join(provider, consumer.open(trust, Now::default())?)
        });
        both.map_err(|_| unsigned())?;
        self.signed.insert((at, id));
        Ok(())
    }
}

/// Which change of the contract the provider signs, zero for the first, and the signature. None:
/// an offer, which is signed afresh if it is taken late.
#[expect(clippy::wildcard_enum_match_arm, reason = "three words of twenty")]
fn signed_by_provider(body: &Body) -> Option<(Option<u32>, Digest)> {
    match body {
        Body::Offer { contract } => Some((None, contract.digest())),
        Body::Agreement { contract } => Some((Some(0), contract.digest())),
        Body::Amendment { number, answer: Answer::Agreed { contract } } => {
            Some((Some(*number), contract.digest()))
        }
        _ => None,
    }
}

/// Whether a piece of work is to end something for good.
fn released(work: &GuestWork) -> Option<&PodId> {
    match work {
        GuestWork::Release(pod) => Some(pod),
        GuestWork::Apply(..)
        | GuestWork::Make(..)
        | GuestWork::Update(..)
        | GuestWork::Delete(..)
        | GuestWork::Confirm(..) => None,
    }
}
