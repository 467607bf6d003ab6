//! What others are told of federations: the broker who belongs, and people who belongs no longer.

use std::sync::Arc;

use mercato_broker::Affiliation;
use mercato_protocol::certificate::Role;
use mercato_protocol::id::FederationId;

use super::Federations;
use super::membership::Gone;
use crate::context::Turn;
use crate::effect::Effect;
use crate::notice::{FederationNews, Notice};
use crate::request::Request;

impl Federations {
    /// Tells people of a federation, as long as this cluster goes by it.
    pub(super) fn tell(&self, federation: FederationId, news: FederationNews, turn: &mut Turn<'_>) {
        if let Some(of) = self.memberships.get(&federation) {
            let name = of.federation().name.clone();
            turn.push(Effect::Notice(Notice::Federation { federation, name, news }));
        }
    }

    /// Tells people who belongs no longer.
    fn tell_gone(&mut self, turn: &mut Turn<'_>) {
        let us = self.config.cluster();
        let all = self.memberships.iter_mut();
        let gone: Vec<_> = all.map(|(of, membership)| (*of, membership.take_gone())).collect();
        for (of, gone) in gone {
            for (cluster, why) in gone {
                let news = match (cluster == us, why) {
                    (true, Gone::Revoked) => FederationNews::Revoked,
                    (true, Gone::Expired) => FederationNews::Expired,
                    (false, Gone::Revoked) => FederationNews::MemberRevoked(cluster),
                    (false, Gone::Expired) => FederationNews::MemberExpired(cluster),
                };
                self.tell(of, news, turn);
            }
        }
    }

    /// Tells the broker and gossip who belongs and who is kept out, if that has changed.
    pub(crate) fn notify(&mut self, turn: &mut Turn<'_>) {
        self.tell_gone(turn);
        let us = self.config.cluster();
        let mut told = mercato_broker::Membership::default();
        for (of, membership) in &self.memberships {
            if membership.is_member(&us) {
                told.own.extend(membership.papers().certificates.iter().cloned());
            }
            for member in membership.certified(turn.now).filter(|member| member.cluster != us) {
                let affiliation = Affiliation {
                    federation: *of,
                    name: membership.federation().name.clone(),
                    organisation: member.organisation.clone(),
                    sells: member.roles.contains(&Role::Provider),
                    buys: member.roles.contains(&Role::Consumer),
                    attributes: Arc::clone(&member.attributes),
                };
                told.certified.entry(member.cluster).or_default().push(affiliation);
            }
        }
        told.barred = turn.context.peers.clusters(|key| self.frauds.contains(key));
        if told.own != self.told.own {
            turn.push(Effect::Introduce);
        }
        if told != self.told {
            turn.push(Request::Broker(mercato_broker::Input::Membership(told.clone())));
            self.told = told;
            turn.push(Request::PublishersChanged);
        }
    }
}
