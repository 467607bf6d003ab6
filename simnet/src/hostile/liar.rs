//! Partners that lie about the end of a lease, or about when it was. Each has an honest agent, and
//! changes a few of its words; what is right is judged from the records of the other side.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use mercato_agent::Effect;
use mercato_broker::Command;
use mercato_protocol::contract::{Contract, Terms};
use mercato_protocol::envelope::{Payload, Signed, Signers, Trust, Verified};
use mercato_protocol::id::{ClusterId, NegotiationId, PublicKey};
use mercato_protocol::invoice::Invoice;
use mercato_protocol::negotiation::{Body, CloseReason, Message};
use mercato_protocol::price::Usage;
use mercato_protocol::receipt::Receipt;

use super::{Attack, Scene};
use crate::engine::packet::Packet;

/// A way to lie about an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Liar {
    /// Buys, ends it, and says that the provider did.
    CloseLiarBuyer,
    /// Sells, ends it early, says that it was cancelled, and bills so.
    CloseLiarSeller,
    /// Sells, gives long notice at the start, and ends it early for that.
    NoticeLicence,
    /// Buys, and answers no notice and no question.
    NeverAnswers,
    /// Sells, and bills for a minute after the end.
    BillsAfterEnd,
    /// Sells and meters by the second, cuts its link for a moment, and ends it early for what its buyer
    /// has not signed meanwhile.
    CutsItsLink,
}

impl Liar {
    /// All liars that there are.
    pub const ALL: [Self; 6] = [
        Self::CloseLiarBuyer,
        Self::CloseLiarSeller,
        Self::NoticeLicence,
        Self::NeverAnswers,
        Self::BillsAfterEnd,
        Self::CutsItsLink,
    ];

    /// Whether it is the one that buys.
    pub(crate) fn buys(self) -> bool {
        matches!(self, Self::CloseLiarBuyer | Self::NeverAnswers)
    }
}

impl fmt::Display for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

impl FromStr for Liar {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|liar| liar.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no liar: simnet bugs"))
    }
}

/// It ends a lease so long after its first bill, in ms.
const ENDS_MS: u64 = 130_000;
/// What it bills for after the end, in ms.
const BEYOND_MS: u64 = 60_000;
/// It says so only once the time is past by any clock, in ms.
const WAITS_MS: u64 = 100_000;
/// Its link is cut for so long before, in ms: longer than six windows of a second.
const CUT_MS: u64 = 8_000;
/// The notice that is given to end at any moment before, in seconds.
const LICENCE_S: u64 = 3_000;

/// A liar that is at work.
#[derive(Debug)]
pub(crate) struct Lying {
    liar: Liar,
    /// When each lease was billed first, wall clock, and whether it has been ended since.
    billed: BTreeMap<NegotiationId, (u64, bool)>,
    /// The terms that it signed, by contract.
    terms: BTreeMap<NegotiationId, Terms>,
    /// Leases that the other side has closed.
    closed: BTreeSet<NegotiationId>,
}

impl Lying {
    pub(crate) fn new(liar: Liar) -> Self {
        let (billed, terms, closed) = Default::default();
        Self { liar, billed, terms, closed }
    }

    /// Whether it is about to end a lease, and says nothing until then.
    fn cuts(&self, now_ms: u64) -> bool {
        let about = |(first_ms, ended): &(u64, bool)| {
            !*ended && (first_ms + ENDS_MS - CUT_MS..first_ms + ENDS_MS).contains(&now_ms)
        };
        self.liar == Liar::CutsItsLink && self.billed.values().any(about)
    }

    /// What it says instead; none: nothing.
    fn lie(&mut self, scene: &mut Scene<'_>, mut message: Message) -> Option<Message> {
        let id = message.negotiation;
        match (self.liar, &mut message.body) {
            (_, Body::Agreement { contract } | Body::Offer { contract }) => {
                let contract: Contract = own(scene, contract)?.into_value();
                self.terms.insert(id, contract.terms);
            }
            (Liar::CloseLiarBuyer, Body::Close { reason, .. }) => {
                *reason = CloseReason::EndedByProvider;
                scene.tried += 1;
            }
            (Liar::CloseLiarSeller, Body::Close { reason, .. }) => {
                *reason = CloseReason::Cancelled;
                scene.tried += 1;
            }
            (Liar::CloseLiarSeller, Body::Invoice { invoice }) => {
                let mut bill: Invoice = own(scene, invoice)?.into_value();
                (bill.closed, bill.due) = (CloseReason::Cancelled, bill.amount);
                bill.credits.clear();
                *invoice = scene.config.key.sign(scene.config.federation, &bill).ok()?;
            }
            (Liar::CutsItsLink, Body::Close { reason, .. }) => {
                *reason = CloseReason::Unsigned;
                scene.tried += 1;
            }
            (Liar::CutsItsLink, Body::Invoice { invoice }) => {
                let mut bill: Invoice = own(scene, invoice)?.into_value();
                (bill.closed, bill.due) = (CloseReason::Unsigned, bill.amount);
                bill.credits.clear();
                *invoice = scene.config.key.sign(scene.config.federation, &bill).ok()?;
            }
            (Liar::NeverAnswers, Body::Status { .. }) => {
                scene.tried += 1;
                return None;
            }
            (Liar::BillsAfterEnd, Body::UsageReport { receipt }) if self.closed.contains(&id) => {
                let mut report: Receipt = own(scene, receipt)?.into_value();
                if scene.now.wall_ms < report.to_ms + WAITS_MS {
                    return None;
                }
                let terms = self.terms.get(&id)?;
                let more = Usage::of(&terms.quantity, BEYOND_MS).ok()?;
                report.usage = report.usage.checked_add(&more).ok()?;
                report.amount = terms.price.total(&report.usage).ok()?;
                report.to_ms += BEYOND_MS;
                *receipt = scene.config.key.sign(scene.config.federation, &report).ok()?;
                scene.tried += 1;
            }
            (_, Body::UsageReport { .. }) => {
                let first = (scene.now.wall_ms, false);
                let is_new = !self.billed.contains_key(&id);
                self.billed.entry(id).or_insert(first);
                if is_new && self.liar == Liar::NoticeLicence {
                    scene.tried += 1;
                    let (notice_s, text) = (Some(LICENCE_S), String::new());
                    scene.asks.push(Command::Reclaim { contract: id.into(), notice_s, text });
                }
            }
            (_, _) => {}
        }
        Some(message)
    }
}

impl Attack for Lying {
    fn hear(&mut self, scene: &mut Scene<'_>, _from: usize, packet: &Packet) {
        let Packet::Negotiation(message, _) = packet else { return };
        let known: BTreeMap<PublicKey, ClusterId> =
            scene.victims.iter().map(|(_, cluster, key)| (*key, *cluster)).collect();
        let signers = Signers::Known(&known);
        let trust = Trust { federation: scene.config.federation, signers };
        if let Ok(message) = message.open(trust, scene.now)
            && matches!(message.body, Body::Close { .. })
        {
            self.closed.insert(message.negotiation);
        }
    }

    fn pass(&mut self, scene: &mut Scene<'_>, effect: Effect) -> Vec<Effect> {
        let Effect::Negotiation { peer, message, once } = &effect else { return vec![effect] };
        if self.cuts(scene.now.wall_ms) {
            return vec![Effect::HangUp(*peer)];
        }
        let Some(opened) = own(scene, message) else { return vec![effect] };
        let before: Message = opened.into_value();
        let Some(after) = self.lie(scene, before.clone()) else { return Vec::new() };
        if after == before {
            return vec![effect];
        }
        let signed = scene.config.key.sign(scene.config.federation, &after).ok().into_iter();
        let (peer, once) = (*peer, *once);
        signed.map(|message| Effect::Negotiation { peer, message, once }).collect()
    }

    fn act(&mut self, scene: &mut Scene<'_>) {
        match self.liar {
            Liar::CloseLiarSeller | Liar::NoticeLicence | Liar::CutsItsLink => {}
            Liar::CloseLiarBuyer | Liar::NeverAnswers | Liar::BillsAfterEnd => return,
        }
        for (deal, (first_ms, ended)) in &mut self.billed {
            if !*ended && scene.now.wall_ms >= *first_ms + ENDS_MS {
                *ended = true;
                scene.asks.push(Command::Cancel { deal: *deal, text: String::new() });
            }
        }
    }
}

/// What it has signed itself.
fn own<T: Payload>(scene: &Scene<'_>, signed: &Signed<T>) -> Option<Verified<T>> {
    let known = [(scene.config.key.public(), scene.config.cluster())].into();
    let trust = Trust { federation: scene.config.federation, signers: Signers::Known(&known) };
    signed.open(trust, scene.now).ok()
}
