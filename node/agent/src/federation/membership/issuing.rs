//! The work of a registrar in its federation: tokens, certificates, and the list of what holds no
//! longer, which is durable before anybody hears of it.

use mercato_broker::Config;
use mercato_gossip::News;
use mercato_protocol::bounded::Rank;
use mercato_protocol::certificate::RevocationList;
use mercato_protocol::envelope::Verified;
use mercato_protocol::gossip::VerifiedPublication;
use mercato_protocol::id::ClusterId;
use mercato_protocol::identity::ClusterIdentity;
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinToken, Secret};
use mercato_protocol::limits::ADDRESSES;

use super::Membership;
use crate::context::Turn;
use crate::effect::Effect;
use crate::federation::ask::FederationRefusal;
use crate::federation::issued::{Grant, RegistrarRecord};
use crate::federation::registrar::Registrar;
use crate::limits;
use crate::notice::{FederationNews, Notice};
use crate::request::Request;

impl Membership {
    /// Whether this cluster is a registrar that may act.
    pub(crate) fn acts(&self, us: &ClusterId) -> bool {
        self.registrar.is_some() && self.is_member(us)
    }

    pub(crate) fn is_registrar(&self) -> bool {
        self.registrar.is_some()
    }

    /// Its registrar, as long as this cluster belongs: the root may have revoked it.
    fn acting(&mut self, config: &Config) -> Option<&mut Registrar> {
        let belongs = self.is_member(&config.cluster());
        self.registrar.as_mut().filter(|_| belongs)
    }

    /// One more record of what this cluster did as a registrar.
    pub(crate) fn restore(&mut self, record: RegistrarRecord) {
        match &mut self.registrar {
            Some(registrar) => registrar.restore(record),
            None => self.shelved.push(record),
        }
    }

    /// Lets one cluster join that says this secret.
    pub(crate) fn hand_out(
        &mut self,
        config: &Config,
        secret: Secret,
        grant: Grant,
        mut addresses: Vec<String>,
        turn: &mut Turn<'_>,
    ) -> Result<JoinToken, FederationRefusal> {
        let federation = self.federation.id();
        let registrar = self.acting(config).ok_or(FederationRefusal::NoRegistrar)?;
        let expires_ms = registrar.grant(turn.now, secret, grant, &mut turn.out)?;
        addresses.truncate(ADDRESSES);
        let registrar = config.key.public();
        Ok(JoinToken { federation, registrar, addresses, secret, expires_ms })
    }

    /// Lets a cluster in that has proven to be `owner`, or says why not.
    pub(crate) fn admit(
        &mut self,
        config: &Config,
        owner: &ClusterIdentity,
        secret: Option<Secret>,
        turn: &mut Turn<'_>,
    ) -> Result<JoinReply, JoinRefusal> {
        let registrar = self.acting(config).ok_or(JoinRefusal::Unavailable)?;
        let cluster = owner.cluster_id();
        let before = registrar.granted(&cluster).cloned();
        let joined = registrar.join(turn.now, &config.key, owner, secret, &mut turn.out);
        let news = match (before, registrar.granted(&cluster).cloned()) {
            (_, None) => None,
            (None, Some(now)) => Some(FederationNews::MemberJoined(cluster, now.organisation)),
            (Some(before), Some(now)) => (!before.grants_as(&now))
                .then_some(FederationNews::MemberChanged(cluster, now.organisation)),
        };
        let (federation, name) = (self.federation.id(), self.federation.name.clone());
        turn.out.extend(
            news.map(|news| Effect::Notice(Notice::Federation { federation, name, news }).into()),
        );
        let papers = &self.papers;
        let list = self.list(&config.key.public()).ok_or(JoinRefusal::Unavailable)?;
        let own = papers.certificates.first().ok_or(JoinRefusal::Unavailable)?;
        Ok(JoinReply::Admitted {
            root: papers.root.clone(),
            successions: papers.successions.clone(),
            certificates: vec![joined?, own.clone()],
            revocations: list.signed().clone(),
        })
    }

    /// Takes back the certificate of a cluster, and says so to everybody.
    pub(crate) fn take_back(
        &mut self,
        config: &Config,
        cluster: ClusterId,
        turn: &mut Turn<'_>,
    ) -> Result<(), FederationRefusal> {
        let registrar = self.acting(config).ok_or(FederationRefusal::NoRegistrar)?;
        if !registrar.revoke(cluster, &mut turn.out) {
            return Err(FederationRefusal::NoMember);
        }
        self.publish_list(config, turn);
        Ok(())
    }

    /// When the next revocation list is due, wall clock; none: this cluster issues none.
    pub(crate) fn list_due_ms(&self, config: &Config) -> Option<u64> {
        let acts = self.acts(&config.cluster());
        let list = self.list(&config.key.public());
        acts.then(|| list.map_or(0, |list| list.issued_ms + limits::NEXT_LIST_MS / 2))
    }

    pub(crate) fn publish_due(&mut self, config: &Config, turn: &mut Turn<'_>) {
        if self.list_due_ms(config).is_some_and(|due_ms| due_ms <= turn.now.wall_ms) {
            self.publish_list(config, turn);
        }
    }

    fn publish_list(&mut self, config: &Config, turn: &mut Turn<'_>) {
        let trust = self.trust();
        let Some(registrar) = self.acting(config) else { return };
        let list = registrar.list(turn.now, &config.key, &mut turn.out);
        let Some(list) = list.ok().and_then(|list| list.open(trust, turn.now).ok()) else { return };
        turn.push(self.keep_list(&list));
        self.revoke(turn.now, list.clone(), Rank::Kept);
        self.spread(&list, turn);
    }

    /// Lets gossip spread a list.
    pub(crate) fn spread(&self, list: &Verified<RevocationList>, turn: &mut Turn<'_>) {
        let publication = VerifiedPublication::Revocations(self.federation.id(), list.clone());
        let news = News::plain(publication);
        turn.extend(news.map(|news| Request::Gossip(mercato_gossip::Input::Publish(news))));
    }
}
