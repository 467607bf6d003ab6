//! No lease has a way out to the Internet that the advertisement which its contract names did not
//! offer.

use std::collections::BTreeMap;

use mercato_agent::Effect;
use mercato_protocol::ad::AdBody;
use mercato_protocol::codec::Message as _;
use mercato_protocol::contract::Contract;
use mercato_protocol::egress::EgressOffer;
use mercato_protocol::gossip::{Message as Gossip, Publication};
use mercato_protocol::id::{Digest, PublicKey};
use mercato_protocol::limits::AD_BODY_BYTES;

use super::{Actor, Violation, ensure};
use crate::engine::sites::Sites;

/// What honest clusters have offered so far.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    /// By the digest of a signed header: that of its body.
    headers: BTreeMap<Digest, Digest>,
    /// By the digest of a body: what it offers.
    bodies: BTreeMap<Digest, Option<EgressOffer>>,
}

impl Offered {
    /// Takes note of what a cluster advertises itself, and looks at the contract of each lease
    /// that an honest one provides.
    pub(crate) fn on_effect(
        &mut self,
        sites: &Sites,
        actor: &Actor<'_>,
        effect: &Effect,
    ) -> Result<(), Violation> {
        if let Effect::Gossip { message: Gossip::Push { publications, bodies }, .. } = effect
            && self.note(&actor.site.key(), publications)
        {
            bodies.iter().for_each(|body| self.note_body(&body.0));
        }
        let Effect::Lease(desire) = effect else { return Ok(()) };
        // What a hostile peer offers, nobody has looked at.
        let provider = sites.place_of(desire.contract.provider.cluster);
        let is_honest = provider.is_none_or(|place| sites[place].attack.is_none());
        if is_honest { self.check(&desire.contract) } else { Ok(()) }
    }

    /// Whether one of them is of this publisher.
    fn note(&mut self, own: &PublicKey, publications: &[Publication]) -> bool {
        let claims = publications.iter().filter_map(Publication::claims);
        let own = claims.filter(|(mark, _)| mark.publisher == *own);
        let named: Vec<_> = own.filter_map(|(mark, body)| Some((mark.digest, body?))).collect();
        let any = !named.is_empty();
        self.headers.extend(named);
        any
    }

    fn note_body(&mut self, bytes: &[u8]) {
        // Longer ones are refused by whoever hears them.
        let digest = (bytes.len() <= AD_BODY_BYTES).then(|| Digest::of(bytes));
        let new = digest.filter(|digest| !self.bodies.contains_key(digest));
        let body = new.zip(AdBody::from_bytes(bytes).ok());
        self.bodies.extend(body.map(|(digest, body)| (digest, body.egress)));
    }

    fn check(&self, contract: &Contract) -> Result<(), Violation> {
        let body = self.headers.get(&contract.ad);
        let offered = body.and_then(|body| self.bodies.get(body)).and_then(Option::as_ref);
        let lack = EgressOffer::lack_of(offered, &contract.terms.egress);
        ensure(lack.is_none(), || {
            let asked = &contract.terms.egress;
            format!("{:.8} has egress to {asked}, and its provider {lack:?}", contract.id)
        })
    }
}
