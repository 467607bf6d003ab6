//! What this cluster asks of registrars: to be let in by a token, and, well before its
//! certificate or the registrar's list ends, for the next one. Carrying question and answer
//! is the driver's; letting others in is `registrar`'s.

use mercato_discovery::Address;
use mercato_protocol::id::FederationId;
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest, JoinToken};
use mercato_protocol::limits::FEDERATIONS;
use mercato_protocol::time::{Deadline, Now};

use crate::agent::Agent;
use crate::effect::Effect;
use crate::federation::ask::{Answer, FederationRefusal};
use crate::federation::membership::Membership;
use crate::federation::papers::Papers;
use crate::limits;
use crate::notice::FederationNews;

/// A registrar was asked.
#[derive(Debug)]
pub(crate) struct Joining {
    /// Whom to tell what came of it: a person, or nobody.
    to: Option<u64>,
    /// None: to renew.
    token: Option<JoinToken>,
    /// When it counts as unanswered, monotonic.
    until_ms: u64,
}

impl Agent {
    /// Asks the registrar of a token to let this cluster in.
    pub(crate) fn on_token_to_join(
        &mut self,
        now: Now,
        to: u64,
        token: JoinToken,
        out: &mut Vec<Effect>,
    ) -> Option<Answer> {
        let of = token.federation;
        let known = self.federated.memberships.contains_key(&of);
        let refusal = match () {
            () if token.is_over(now) => FederationRefusal::Join(JoinRefusal::Expired),
            () if token.registrar == self.config.key.public() => FederationRefusal::Papers,
            () if !known && self.federated.memberships.len() >= FEDERATIONS => {
                FederationRefusal::TooMany
            }
            () if self.federated.joining.contains_key(&of) => FederationRefusal::Unanswered,
            () => {
                self.ask_registrar(now, of, Some(token), Some(to), out);
                return None;
            }
        };
        Some(Answer::Refused(refusal))
    }

    fn ask_registrar(
        &mut self,
        now: Now,
        federation: FederationId,
        token: Option<JoinToken>,
        to: Option<u64>,
        out: &mut Vec<Effect>,
    ) {
        let before = self.federated.memberships.get(&federation);
        let of_token = token.as_ref().map(|token| (token.registrar, token.addresses.as_slice()));
        // The registrar may have changed its key since.
        let latest = |of: &Membership| self.peers.key(&of.registrar_cluster()?).or(of.issuer());
        let known = || Some((latest(before?)?, before?.papers().registrar.as_slice()));
        let Some((registrar, addresses)) = of_token.or_else(known) else { return };
        let addresses: Vec<Address> = addresses.iter().filter_map(|at| at.parse().ok()).collect();
        let request = JoinRequest {
            secret: token.as_ref().map(|token| token.secret),
            identities: self.config.identities().collect(),
            federation: Some(federation),
        };
        let until_ms = now.mono_ms + limits::JOIN_MS;
        self.federated.joining.insert(federation, Joining { to, token, until_ms });
        out.push(Effect::Join { federation, registrar, addresses, request: Box::new(request) });
    }

    /// What came of it; none: no answer.
    pub(crate) fn on_joined(
        &mut self,
        now: Now,
        federation: FederationId,
        reply: Option<JoinReply>,
        out: &mut Vec<Effect>,
    ) {
        let Some(Joining { to, token, .. }) = self.federated.joining.remove(&federation) else {
            return;
        };
        let answer = match reply {
            Some(JoinReply::Refused(refusal)) => Answer::Refused(FederationRefusal::Join(refusal)),
            None => Answer::Refused(FederationRefusal::Unanswered),
            Some(JoinReply::Admitted { root, successions, certificates, revocations }) => {
                let before = self.federated.memberships.get(&federation).map(Membership::papers);
                let registrar = match (&token, before) {
                    (Some(token), _) => token.addresses.clone(),
                    (None, before) => before.map(|of| of.registrar.clone()).unwrap_or_default(),
                };
                let domain = before.and_then(|before| before.domain.clone());
                let papers = Papers { root, successions, certificates, registrar, domain };
                if papers.id() == federation {
                    self.on_enter(now, papers, Some(&revocations), out)
                } else {
                    Answer::Refused(FederationRefusal::Papers)
                }
            }
        };
        if let (Answer::Refused(refusal), None) = (&answer, &token)
            && let Some(membership) = self.federated.memberships.get_mut(&federation)
        {
            let refused = if let FederationRefusal::Join(no) = refusal { Some(*no) } else { None };
            let (is_first, before) = (membership.renewal.tries == 0, membership.renewal.refused);
            membership.renewal.fail(now, refused);
            // Each is told once, until something else comes of it.
            let news = match refused {
                None => FederationNews::Unreachable,
                Some(no) => FederationNews::NotRenewed(no),
            };
            if is_first || before != refused {
                self.tell_federation(federation, news, out);
            }
        }
        if let Some(to) = to {
            out.push(Effect::Federation(to, Box::new(answer)));
        }
    }

    /// When a registrar is next asked, or counts as silent.
    pub(crate) fn renewal_wakeup(&self) -> impl Iterator<Item = Deadline> {
        let joining = &self.federated.joining;
        let idle = self.federated.memberships.iter().filter(|(of, _)| !joining.contains_key(of));
        let due = idle.filter_map(|(_, of)| of.renew_ms()).map(Deadline::Wall);
        due.chain(joining.values().map(|asked| Deadline::Mono(asked.until_ms)))
    }

    pub(crate) fn renewals_due(&mut self, now: Now, out: &mut Vec<Effect>) {
        let joining = &self.federated.joining;
        let silent = joining.iter().filter(|(_, asked)| asked.until_ms <= now.mono_ms);
        for federation in silent.map(|(of, _)| *of).collect::<Vec<_>>() {
            self.on_joined(now, federation, None, out);
        }
        let joining = &self.federated.joining;
        let idle = self.federated.memberships.iter().filter(|(of, _)| !joining.contains_key(of));
        let due = idle.filter(|(_, of)| of.renew_ms().is_some_and(|due_ms| due_ms <= now.wall_ms));
        for federation in due.map(|(of, _)| *of).collect::<Vec<_>>() {
            self.ask_registrar(now, federation, None, None, out);
        }
    }
}
