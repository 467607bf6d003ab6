//! Which publishers gossip is told to know, and the network of whose connections are worth what.
//! One more is told alone; all are told anew only where somebody may have ceased to be known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_broker::Deal;
use mercato_gossip::Input;
use mercato_gossip::limits::KNOWN_PUBLISHERS;
use mercato_protocol::bounded::Rank;
use mercato_protocol::id::PublicKey;

use crate::context::Context;
use crate::effect::Effect;
use crate::federation::Federations;
use crate::request::Request;

/// What was told of publishers, and what is yet to be.
#[derive(Debug, Default)]
pub(crate) struct Publishers {
    /// All are to be told anew,
    changed: bool,
    /// or only that there are these partners more.
    added: Vec<PublicKey>,
    /// What the network was told of whose connections are worth what.
    ranks: Arc<BTreeMap<PublicKey, Rank>>,
}

impl Publishers {
    /// All are told anew after this input.
    pub(crate) fn change(&mut self) {
        self.changed = true;
    }

    /// A partner is known, too.
    pub(crate) fn add(&mut self, partner: PublicKey) {
        if self.ranks.get(&partner) != Some(&Rank::Partner) {
            self.added.push(partner);
        }
    }

    /// What is to be told, once for all that changed it.
    pub(crate) fn notify(
        &mut self,
        federations: &Federations,
        context: Context<'_>,
    ) -> Vec<Request> {
        let added = std::mem::take(&mut self.added);
        if std::mem::take(&mut self.changed) {
            return self.notify_all(federations, context);
        }
        let mut out = Vec::new();
        for partner in added {
            Arc::make_mut(&mut self.ranks).insert(partner, Rank::Partner);
            out.push(Effect::Rank(partner, Rank::Partner).into());
            out.push(Request::Gossip(Input::AlsoKnown(partner)));
        }
        out
    }

    fn notify_all(&mut self, federations: &Federations, context: Context<'_>) -> Vec<Request> {
        let trusted = context.peers.trusted();
        let partners: BTreeSet<PublicKey> =
            trusted.into_iter().chain(context.contracts().map(Deal::peer_key)).collect();
        let mut ranks: BTreeMap<PublicKey, Rank> =
            partners.iter().map(|key| (*key, Rank::Partner)).collect();
        let mut known = partners;
        for membership in federations.memberships() {
            for member in membership.members() {
                ranks.entry(member.key).or_insert(Rank::Member);
            }
            // Partners come first, where there are too many.
            for publisher in membership.publishers() {
                if known.len() >= KNOWN_PUBLISHERS {
                    break;
                }
                known.insert(publisher);
            }
        }
        let mut out = Vec::new();
        if *self.ranks != ranks {
            self.ranks = Arc::new(ranks);
            out.push(Effect::Ranks(Arc::clone(&self.ranks)).into());
        }
        out.push(Request::Gossip(Input::Known(known.into())));
        out
    }
}
