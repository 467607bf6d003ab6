//! Between broker and gossip: what spreads, what is said, what the owner decides.

use mercato_broker::Effect as Wanted;
use mercato_discovery::{Address, Report, Sighting, SightingId, Source};
use mercato_gossip::News;
use mercato_protocol::ad::Ad;
use mercato_protocol::envelope::{Signers, Trust};
use mercato_protocol::time::Now;

use crate::agent::Agent;
use crate::record::{Change, Record, RecordKey};
use crate::vocabulary::{Effect, Notice};

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
                    self.states.remove(&id);
                }
                out.push(Effect::Persist(Change::Erase(RecordKey::Broker(key))));
            }
            Wanted::Send { to, message } => {
                // One that is not connected misses it, and is told again.
                if let Some(peer) = self.peers.reach(&to) {
                    out.push(Effect::Negotiation { peer, message });
                }
            }
            Wanted::Publish { lease, body } => {
                if let Ok(lease) = lease.open(self.trust(), now) {
                    self.publish(now, News::Ad { lease, body: body.0.into() }, out);
                }
            }
            Wanted::Withdraw(end) => {
                if let Ok(end) = end.open(self.trust(), now) {
                    self.publish(now, News::End(end), out);
                }
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
                out.push(Effect::Notice(Notice::Standing(cluster, standing)));
                self.judge(now, cluster, out);
            }
            mercato_broker::Record::Deal(deal) => {
                let (id, side, state) = (deal.id(), deal.side(), deal.stage().state());
                if self.states.insert(id, state) != Some(state) {
                    out.push(Effect::Notice(Notice::Deal { id, side, state }));
                }
            }
            mercato_broker::Record::Series { .. }
            | mercato_broker::Record::Share(_)
            | mercato_broker::Record::Buy(_) => {}
        }
    }

    /// In this federation, by whomever: a publication says itself whose it is.
    fn trust(&self) -> Trust<'static> {
        Trust { federation: self.config.federation, signers: Signers::Anyone }
    }

    fn publish(&mut self, now: Now, news: News, out: &mut Vec<Effect>) {
        self.spread(now, mercato_gossip::Input::Publish(news), out);
    }

    pub(crate) fn spread(&mut self, now: Now, input: mercato_gossip::Input, out: &mut Vec<Effect>) {
        for effect in self.gossip.handle(now, input) {
            match effect {
                mercato_gossip::Effect::Send { peer, message } => {
                    out.push(Effect::Gossip { peer, message });
                }
                mercato_gossip::Effect::Learned(news) => self.learn(now, news, out),
            }
        }
    }

    fn learn(&mut self, now: Now, news: News, out: &mut Vec<Effect>) {
        match news {
            News::Ad { lease, body } => match Ad::assemble(&lease, &body, now) {
                Ok(ad) => {
                    let (cluster, key) = (ad.lease.provider, ad.key);
                    self.meet(now, cluster, key, out);
                    if self.peers.offers(cluster, true) {
                        out.push(Effect::Notice(Notice::Offered(cluster)));
                    }
                    self.sight(now, &ad, out);
                    self.for_broker.push_back(mercato_broker::Input::Ad(Box::new(ad)));
                }
                Err(error) => out.push(Effect::Notice(Notice::BadAd(*lease.key(), error))),
            },
            News::End(end) => {
                // Anybody can sign a withdrawal in another's name.
                if self.peers.key(&end.provider) == Some(*end.key()) {
                    self.peers.offers(end.provider, false);
                    out.push(Effect::Notice(Notice::Withdrawn(end.provider)));
                    self.for_broker.push_back(mercato_broker::Input::Withdrawn(end));
                }
            }
        }
    }

    /// A provider may be dialled where its advertisement says.
    fn sight(&mut self, now: Now, ad: &Ad, out: &mut Vec<Effect>) {
        let addresses: Vec<Address> =
            ad.body.addresses.iter().filter_map(|address| address.parse().ok()).collect();
        if ad.key == self.config.key.public() || addresses.is_empty() {
            return;
        }
        let id = SightingId { source: Source::Peer(ad.key), instance: ad.key.to_string() };
        let sighting = Sighting { id, peer: Some(ad.key), addresses };
        self.direct(now, mercato_discovery::Input::Report(Report::Seen(sighting)), out);
    }
}
