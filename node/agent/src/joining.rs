//! What this cluster asks of registrars: to be let in by a token, and, well before its
//! certificate or the registrar's list ends, for the next one. Carrying question and answer
//! is the driver's; letting others in is `registrar`'s.

use mercato_discovery::Address;
use mercato_protocol::certificate::Certificate;
use mercato_protocol::envelope::Verified;
use mercato_protocol::id::FederationId;
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest, JoinToken};
use mercato_protocol::limits::FEDERATIONS;
use mercato_protocol::time::{Deadline, Now};

use crate::agent::Agent;
use crate::ask::{Answer, FederationRefusal};
use crate::limits;
use crate::membership::{Membership, Papers};
use crate::notice::FederationNews;
use crate::vocabulary::Effect;

/// When a membership is to be renewed.
#[derive(Debug, Default)]
pub(crate) struct Renewal {
    /// When the certificate is to be, wall clock: a third of its life before it ends, or up to
    /// a tenth earlier, so that those who joined together do not come back together.
    due_ms: u64,
    /// Of this certificate, 0 to 255.
    spread: u64,
    /// Not tried before, wall clock.
    retry_ms: u64,
    tries: u32,
    /// When something last said that there is more to hear, wall clock.
    hinted_ms: Option<u64>,
    /// The registrar's last no.
    pub(crate) refused: Option<JoinRefusal>,
}

impl Renewal {
    /// Of a certificate; of one that is over, at once.
    pub(crate) fn new(own: Option<&Verified<Certificate>>) -> Self {
        let Some(own) = own else { return Self::default() };
        let life_ms = own.not_after_ms - own.not_before_ms;
        let spread = u64::from(own.digest().0[0]);
        let early_ms = life_ms / 3 + life_ms / 10 * spread / 255;
        Self { due_ms: own.not_after_ms - early_ms, spread, ..Self::default() }
    }

    /// Something says that the registrar has more to tell: it is asked soon, and not again for
    /// a while.
    pub(crate) fn hint(&mut self, now: Now) {
        if self.hinted_ms.is_none_or(|at_ms| at_ms + limits::RENEW_MS.end() <= now.wall_ms) {
            self.hinted_ms = Some(now.wall_ms);
            self.due_ms = 0;
        }
    }

    /// It is of another certificate than `before`.
    pub(crate) fn go_on(&mut self, before: &Self) {
        self.hinted_ms = before.hinted_ms;
    }

    /// It was not renewed: the pause doubles, give or take a quarter; after a no it is long.
    fn fail(&mut self, now: Now, refused: Option<JoinRefusal>) {
        let pause_ms = match refused {
            None => limits::RENEW_MS.start() << self.tries.min(10),
            Some(_) => *limits::RENEW_MS.end(),
        };
        let pause_ms = pause_ms.min(*limits::RENEW_MS.end());
        self.retry_ms = now.wall_ms + pause_ms * 3 / 4 + pause_ms / 2 * self.spread / 255;
        self.tries += 1;
        self.refused = refused;
    }
}

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

impl Membership {
    /// When the registrar is asked for another certificate and its latest list, wall clock.
    /// None: no registrar issued one.
    fn renew_ms(&self) -> Option<u64> {
        let issuer = self.issuer()?;
        let list = self.list(&issuer);
        let list_ms = list.map_or(0, |list| list.issued_ms / 4 + list.next_update_ms / 4 * 3);
        Some(self.renewal.due_ms.min(list_ms).max(self.renewal.retry_ms))
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mercato_protocol::certificate::Role;
    use mercato_protocol::envelope::KeyPair;
    use mercato_protocol::id::ClusterId;

    use super::*;
    use crate::federation::certified_in;

    const DAY_MS: u64 = 86_400_000;

    #[test]
    fn those_who_joined_together_come_back_apart() {
        let (key, of) = (KeyPair::from_seed(&[1; 32]), FederationId([7; 32]));
        let due = (0..20).map(|n| {
            let certificate = Certificate {
                serial: n,
                cluster: ClusterId([2; 32]),
                key: key.public(),
                organisation: None,
                roles: vec![Role::Consumer],
                attributes: vec![],
                not_before_ms: 0,
                not_after_ms: 30 * DAY_MS,
            };
            let own = key.sign(of, &certificate).unwrap().open(certified_in(of), Now::default());
            Renewal::new(own.ok().as_ref()).due_ms
        });
        let due: BTreeSet<u64> = due.collect();
        assert!(due.len() > 10, "{due:?}");
        assert!(due.iter().all(|ms| (17 * DAY_MS..=20 * DAY_MS).contains(ms)), "{due:?}");
    }
}
