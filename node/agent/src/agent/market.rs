//! What the broker wants, and what gossip brings it: what is published, what is said to whom, what
//! the owner decides.

use std::sync::Arc;

use mercato_broker::{Effect as Wanted, LeaseSpec, Record as Kept};
use mercato_gossip::{News, Verdict};
use mercato_protocol::ad::{Ad, AdError};
use mercato_protocol::envelope::{Signers, Trust, Verified};
use mercato_protocol::gossip::{VerifiedPublication, Withdraw};
use mercato_protocol::resources::Resources;
use mercato_protocol::time::Now;

use super::Agent;
use crate::context::is_bound;
use crate::effect::Effect;
use crate::lease::other_side;
use crate::limits;
use crate::notice::Notice;
use crate::peers::Keys;
use crate::record::{Change, Record, RecordKey};

impl Agent {
    /// Lets the broker hear all that it is to hear, and passes on what it wants.
    pub(super) fn run_broker(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some(input) = self.for_broker.pop_front() {
            for wanted in self.broker.handle(now, input) {
                self.pass_on(now, wanted, out);
            }
        }
    }

    fn pass_on(&mut self, now: Now, wanted: Wanted, out: &mut Vec<Effect>) {
        // In this federation, by whomever: a publication says itself whose it is.
        let trust = Trust { federation: self.config.federation, signers: Signers::Anyone };
        match wanted {
            Wanted::Persist(record) => self.remember(now, record, out),
            Wanted::Forget(key) => {
                if let mercato_broker::RecordKey::Deal(id) = key {
                    self.news.forget(&id);
                }
                out.push(Effect::Persist(Change::Erase(RecordKey::Broker(key))));
            }
            Wanted::Send { to, message } => {
                // One that is not connected misses it, and is told again.
                if let Some(peer) = self.peers.reach(&to) {
                    let once = !self.broker.awaits(&message);
                    out.push(Effect::Negotiation { peer, message, once });
                } else {
                    if let Some(ad) = self.broker.ad(&to) {
                        self.connections.sight(now, ad, out);
                    }
                    self.keep_connected(now, to, out);
                }
            }
            Wanted::Publish { header, body } => {
                if let Some(news) = header.open(trust, now).ok().and_then(|it| News::ad(it, body)) {
                    self.run_gossip(now, mercato_gossip::Input::Publish(news), out);
                }
            }
            Wanted::Withdraw(end) => {
                let end = end.open(trust, now).map(VerifiedPublication::Withdraw);
                if let Some(news) = end.ok().and_then(News::plain) {
                    self.run_gossip(now, mercato_gossip::Input::Publish(news), out);
                }
            }
            Wanted::Lease(spec) => self.on_spec(now, *spec, out),
            Wanted::Burst(news) => out.push(Effect::Notice(Notice::Burst(news))),
            Wanted::Reply(to, reply) => out.push(Effect::Reply(to, reply)),
        }
    }

    fn remember(&mut self, now: Now, record: Kept, out: &mut Vec<Effect>) {
        out.push(Effect::Persist(Change::Put(Record::Broker(record.clone()))));
        match record {
            Kept::Peer(cluster, standing) => {
                self.peers.set_standing(cluster, standing);
                self.disk.note(self.peers.keep(&cluster), out);
                out.push(Effect::Notice(Notice::Standing(cluster, standing)));
                self.set_standing(now, cluster, out);
            }
            Kept::Deal(deal) => {
                self.disk.note(self.peers.keep(&deal.peer()), out);
                out.extend(self.news.notices(&deal).into_iter().map(Effect::Notice));
                if is_bound(&deal) {
                    self.publishers.add(deal.peer_key());
                }
                self.keep_connected(now, deal.peer(), out);
            }
            Kept::Series { .. }
            | Kept::Share(_)
            | Kept::Buy(_)
            | Kept::Country(..)
            | Kept::Earlier(..)
            | Kept::Dispute(..) => {}
        }
    }

    /// The broker says how a lease is to be.
    fn on_spec(&mut self, now: Now, spec: LeaseSpec, out: &mut Vec<Effect>) {
        if self.leases.is_new(&spec) {
            let party = other_side(&spec);
            self.meet_party(now, party.cluster, party.key, out);
        }
        self.with_leases(now, out, |leases, turn| leases.set_spec(spec, turn));
    }

    /// Lets gossip hear something, and then what is thought of what it learned of it.
    pub(super) fn run_gossip(
        &mut self,
        now: Now,
        input: mercato_gossip::Input,
        out: &mut Vec<Effect>,
    ) {
        let mut verdicts = Vec::new();
        for effect in self.gossip.handle(now, input) {
            match effect {
                mercato_gossip::Effect::Send { peer, message } => {
                    out.push(Effect::Gossip { peer, message });
                }
                mercato_gossip::Effect::Learned(news) => {
                    verdicts.push((*news.mark(), self.learn(now, &news, out)));
                }
                mercato_gossip::Effect::Banned(peer) => {
                    out.push(Effect::Notice(Notice::Shunned(peer)));
                    let owner = self.peers.connected().get(&peer);
                    let cluster = owner.map(|owner| owner.cluster_id());
                    out.extend(self.leases.refusal(peer, cluster, self.context()));
                    self.leave_gossip(now, peer, out);
                }
            }
        }
        if !verdicts.is_empty() {
            self.run_gossip(now, mercato_gossip::Input::Judged(verdicts), out);
        }
    }

    fn learn(&mut self, now: Now, news: &News, out: &mut Vec<Effect>) -> Verdict {
        match news.publication() {
            VerifiedPublication::Header(header) => match news.as_ad() {
                Some(Ok(ad)) => self.on_ad(now, ad, out),
                Some(Err(error)) => {
                    let verdict = verdict(&error);
                    out.push(Effect::Notice(Notice::BadAd(*header.key(), error)));
                    verdict
                }
                None => Verdict::Ignore,
            },
            VerifiedPublication::Withdraw(end) => self.on_end(end, out),
            VerifiedPublication::Equivocation(proof) => {
                out.push(Effect::Notice(Notice::Fraud(*proof.publisher())));
                self.with_federations(now, out, |all, turn| all.on_fraud(proof, turn));
                Verdict::Accept
            }
            VerifiedPublication::Revocations(of, list) => {
                let counts = self.federations.is_issuer(of, list.key());
                self.with_federations(now, out, |all, turn| all.revoke(*of, list, turn));
                if counts { Verdict::Accept } else { Verdict::Ignore }
            }
        }
    }

    /// One that renews what the broker has, by a key that still speaks for its cluster, says
    /// nothing new of keys and addresses. The latter are said again now and then, or the
    /// directory would forget them.
    fn on_ad(&mut self, now: Now, ad: Ad, out: &mut Vec<Effect>) -> Verdict {
        let cluster = ad.header.provider;
        let speaks = self.peers.key(&cluster) == Some(ad.key);
        let known = self.broker.ad(&cluster).filter(|_| speaks);
        let known = known.filter(|known| Arc::ptr_eq(&known.body, &ad.body));
        let renews = known.is_some();
        let is_seen = known.is_some_and(|known| sight_period(known) == sight_period(&ad));
        if !renews && !self.meet(now, cluster, Keys::of_ad(&ad), out) {
            return Verdict::Ignore;
        }
        let (key, shown) = (ad.key, &ad.body.certificates);
        self.with_federations(now, out, |all, turn| all.show(cluster, key, shown, turn));
        if !self.federations.may_advertise(now, &cluster) {
            return Verdict::Ignore;
        }
        if !renews && self.peers.offers(cluster, true) {
            let totals = ad.body.pools.iter().map(|pool| &pool.total);
            let all =
                totals.fold(Resources::default(), |sum, more| sum.checked_add(more).unwrap_or(sum));
            out.push(Effect::Notice(Notice::Offered(cluster, all)));
        }
        if !is_seen {
            self.connections.sight(now, &ad, out);
        }
        self.for_broker.push_back(mercato_broker::Input::Ad(Box::new(ad)));
        Verdict::Accept
    }

    fn on_end(&mut self, end: &Verified<Withdraw>, out: &mut Vec<Effect>) -> Verdict {
        // Anybody can sign a withdrawal in another's name.
        if self.peers.key(&end.provider) != Some(*end.key()) {
            return Verdict::Ignore;
        }
        self.peers.offers(end.provider, false);
        out.push(Effect::Notice(Notice::Withdrawn(end.provider)));
        self.for_broker.push_back(mercato_broker::Input::Withdrawn(end.clone()));
        Verdict::Accept
    }
}

/// The number of the period of [`limits::SIGHT_MS`] that it was issued in. Periods begin at another
/// time for each provider, so that not all are seen again at once.
fn sight_period(ad: &Ad) -> u64 {
    let offset_ms = u64::from(ad.key.0[0]) * limits::SIGHT_MS / 256;
    (ad.header.issued_ms + offset_ms) / limits::SIGHT_MS
}

/// Whose fault it is that this is no advertisement: nobody passes on what contradicts
/// itself, but what a later release may say.
fn verdict(error: &AdError) -> Verdict {
    match error {
        AdError::OtherBody | AdError::OtherOwner | AdError::OtherPools => Verdict::Reject,
        AdError::Codec(_) | AdError::Envelope(_) => Verdict::Ignore,
    }
}
