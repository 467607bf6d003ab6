//! Between broker and gossip: what spreads, what is said, what the owner decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_broker::{Deal, Effect as Wanted};
use mercato_discovery::limits::OWED_MS;
use mercato_discovery::{Address, Report, Sighting, SightingId, Source};
use mercato_gossip::{News, Verdict};
use mercato_protocol::ad::{Ad, AdError};
use mercato_protocol::bounded::Rank;
use mercato_protocol::envelope::{Signers, Trust, Verified};
use mercato_protocol::gossip::{VerifiedPublication, Withdraw};
use mercato_protocol::id::ClusterId;
use mercato_protocol::negotiation::State;
use mercato_protocol::resources::Resources;
use mercato_protocol::time::Now;

use crate::agent::Agent;
use crate::effect::Effect;
use crate::lease::Lease;
use crate::limits;
use crate::neighbours::is_bound;
use crate::notice::Notice;
use crate::peers::Keys;
use crate::record::{Change, Record, RecordKey};

impl Agent {
    /// Lets the broker hear all that it is to hear, and passes on what it wants.
    pub(crate) fn trade(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some(input) = self.for_broker.pop_front() {
            for wanted in self.broker.handle(now, input) {
                self.pass(now, wanted, out);
            }
        }
    }

    fn pass(&mut self, now: Now, wanted: Wanted, out: &mut Vec<Effect>) {
        match wanted {
            Wanted::Persist(record) => self.remember(now, record, out),
            Wanted::Forget(key) => {
                if let mercato_broker::RecordKey::Deal(id) = key {
                    self.told.remove(&id);
                }
                out.push(Effect::Persist(Change::Erase(RecordKey::Broker(key))));
            }
            Wanted::Send { to, message } => {
                // One that is not connected misses it, and is told again.
                if let Some(peer) = self.peers.reach(&to) {
                    let once = !self.broker.awaits(&message);
                    out.push(Effect::Negotiation { peer, message, once });
                } else {
                    if let Some(ad) = self.broker.ad(&to).cloned() {
                        self.sight(now, &ad, out);
                    }
                    self.hold(now, to, out);
                }
            }
            Wanted::Publish { lease, body } => {
                let lease = lease.open(self.trust(), now).ok();
                let news = lease.and_then(|lease| News::ad(lease, body));
                self.publish(now, news, out);
            }
            Wanted::Withdraw(end) => {
                let end = end.open(self.trust(), now).ok().map(VerifiedPublication::Withdraw);
                self.publish(now, end.and_then(News::plain), out);
            }
            Wanted::Lease(spec) => self.on_spec(now, *spec, out),
            Wanted::Reply(to, reply) => out.push(Effect::Reply(to, reply)),
        }
    }

    fn remember(&mut self, now: Now, record: mercato_broker::Record, out: &mut Vec<Effect>) {
        out.push(Effect::Persist(Change::Put(Record::Broker(record.clone()))));
        match record {
            mercato_broker::Record::Peer(cluster, standing) => {
                self.peers.judge(cluster, standing);
                self.keep_keys(&cluster, out);
                out.push(Effect::Notice(Notice::Standing(cluster, standing)));
                self.judge(now, cluster, out);
            }
            mercato_broker::Record::Deal(deal) => {
                self.keep_keys(&deal.peer(), out);
                self.tell_deal(now, &deal, out);
                let key = deal.peer_key();
                if is_bound(&deal) && self.told_ranks.get(&key) != Some(&Rank::Partner) {
                    self.also_known.push(key);
                }
                self.hold(now, deal.peer(), out);
            }
            mercato_broker::Record::Series { .. }
            | mercato_broker::Record::Share(_)
            | mercato_broker::Record::Buy(_)
            | mercato_broker::Record::Earlier(..)
            | mercato_broker::Record::Dispute(..) => {}
        }
    }

    /// Keeps the connection with this cluster, as long as a negotiation or a lease needs it.
    /// Of a lease that is over nothing is left to say but what home asks for.
    pub(crate) fn hold(&mut self, now: Now, cluster: ClusterId, out: &mut Vec<Effect>) {
        let with_it = || self.broker.current_deals().filter(|deal| deal.peer() == cluster);
        // After a restart only the deals may know it.
        let key = self.peers.key(&cluster).or_else(|| with_it().next().map(Deal::peer_key));
        let Some(key) = key else { return };
        let shares = |lease: &Lease| lease.peer().cluster == cluster && !lease.is_retired();
        let needed = with_it().any(Deal::needs_peer) || self.leases.values().any(shares);
        if !needed {
            return self.direct(now, mercato_discovery::Input::Release(key), out);
        }
        self.direct(now, mercato_discovery::Input::Keep(key), out);
        // Of many providers the directory keeps a few.
        let lacks = !self.directory.knows(&key);
        if let Some(ad) = self.broker.ad(&cluster).filter(|ad| lacks && ad.key == key).cloned() {
            self.sight(now, &ad, out);
        }
    }

    /// What closed a moment before the restart may have said its last word in vain.
    pub(crate) fn recall(&mut self, now: Now, out: &mut Vec<Effect>) {
        let lately = |deal: &&Deal| {
            let end = deal.end().filter(|_| deal.state() == State::Closed);
            end.is_some_and(|end| end.at_ms.saturating_add(OWED_MS) > now.wall_ms)
        };
        let closed = self.broker.current_deals().filter(lately);
        let closed = closed.map(|deal| (deal.peer(), deal.peer_key()));
        for (cluster, key) in closed.collect::<BTreeMap<_, _>>() {
            let key = self.peers.key(&cluster).unwrap_or(key);
            self.direct(now, mercato_discovery::Input::Keep(key), out);
            self.direct(now, mercato_discovery::Input::Release(key), out);
            self.hold(now, cluster, out);
        }
    }

    /// In this federation, by whomever: a publication says itself whose it is.
    fn trust(&self) -> Trust<'static> {
        Trust { federation: self.config.federation, signers: Signers::Anyone }
    }

    pub(crate) fn publish(&mut self, now: Now, news: Option<News>, out: &mut Vec<Effect>) {
        if let Some(news) = news {
            self.spread(now, mercato_gossip::Input::Publish(news), out);
        }
    }

    /// Lets gossip hear something, and then what is thought of what it learned of it.
    pub(crate) fn spread(&mut self, now: Now, input: mercato_gossip::Input, out: &mut Vec<Effect>) {
        let mut verdicts = Vec::new();
        for effect in self.gossip.handle(now, input) {
            match effect {
                mercato_gossip::Effect::Send { peer, message } => {
                    out.push(Effect::Gossip { peer, message });
                }
                mercato_gossip::Effect::Learned(news) => {
                    verdicts.push((*news.mark(), self.learn(now, &news, out)));
                }
                mercato_gossip::Effect::Shunned(peer) => {
                    out.push(Effect::Notice(Notice::Shunned(peer)));
                    self.on_shunned(now, peer, out);
                }
            }
        }
        if !verdicts.is_empty() {
            self.spread(now, mercato_gossip::Input::Judged(verdicts), out);
        }
    }

    fn learn(&mut self, now: Now, news: &News, out: &mut Vec<Effect>) -> Verdict {
        match news.publication() {
            VerifiedPublication::Lease(lease) => match news.as_ad() {
                Some(Ok(ad)) => self.on_ad(now, ad, out),
                Some(Err(error)) => {
                    let verdict = verdict(&error);
                    out.push(Effect::Notice(Notice::BadAd(*lease.key(), error)));
                    verdict
                }
                None => Verdict::Ignore,
            },
            VerifiedPublication::Withdraw(end) => self.on_end(end, out),
            VerifiedPublication::Equivocation(proof) => {
                out.push(Effect::Notice(Notice::Fraud(*proof.publisher())));
                self.on_fraud(now, proof, out);
                Verdict::Accept
            }
            VerifiedPublication::Revocations(of, list) => {
                self.on_revocations(now, *of, list.clone(), out)
            }
        }
    }

    /// One that renews what the broker has, by a key that still speaks for its cluster, says
    /// nothing new of keys and addresses. The latter are said again now and then, or the
    /// directory would forget them.
    fn on_ad(&mut self, now: Now, ad: Ad, out: &mut Vec<Effect>) -> Verdict {
        let cluster = ad.lease.provider;
        let speaks = self.peers.key(&cluster) == Some(ad.key);
        let known = self.broker.ad(&cluster).filter(|_| speaks);
        let known = known.filter(|known| Arc::ptr_eq(&known.body, &ad.body));
        let renews = known.is_some();
        let is_seen = known.is_some_and(|known| sight_period(known) == sight_period(&ad));
        if !renews && !self.meet(now, cluster, Keys::of_ad(&ad), out) {
            return Verdict::Ignore;
        }
        self.on_papers(now, cluster, ad.key, &ad.body.certificates, out);
        if !self.may_advertise(now, &cluster) {
            return Verdict::Ignore;
        }
        if !renews && self.peers.offers(cluster, true) {
            let totals = ad.body.pools.iter().map(|pool| &pool.total);
            let all =
                totals.fold(Resources::default(), |sum, more| sum.checked_add(more).unwrap_or(sum));
            out.push(Effect::Notice(Notice::Offered(cluster, all)));
        }
        if !is_seen {
            self.sight(now, &ad, out);
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

    /// A provider may be dialled where its advertisement says.
    fn sight(&mut self, now: Now, ad: &Ad, out: &mut Vec<Effect>) {
        if !self.directory.listens_to(now, &ad.key) {
            return;
        }
        let addresses: Vec<Address> =
            ad.body.addresses.iter().filter_map(|address| address.parse().ok()).collect();
        if ad.key == self.config.key.public() || addresses.is_empty() {
            return;
        }
        let id = SightingId { source: Source::Peer(ad.key), instance: String::new() };
        let sighting = Sighting { id, peer: Some(ad.key), addresses };
        self.direct(now, mercato_discovery::Input::Report(Report::Seen(sighting)), out);
    }
}

/// The how-manieth [`limits::SIGHT_MS`] it was issued in; they begin at another time for each
/// provider, so that not all are seen again at once.
fn sight_period(ad: &Ad) -> u64 {
    let offset_ms = u64::from(ad.key.0[0]) * limits::SIGHT_MS / 256;
    (ad.lease.issued_ms + offset_ms) / limits::SIGHT_MS
}

/// Whose fault it is that this is no advertisement: nobody passes on what contradicts
/// itself, but what a later release may say.
fn verdict(error: &AdError) -> Verdict {
    match error {
        AdError::OtherBody | AdError::OtherOwner | AdError::OtherPools => Verdict::Reject,
        AdError::Codec(_) | AdError::Envelope(_) => Verdict::Ignore,
    }
}
