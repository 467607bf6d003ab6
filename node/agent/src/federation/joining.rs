//! What this cluster asks of registrars: to be let in by a token, and, well before its
//! certificate or the registrar's list ends, for the next one. Carrying question and answer
//! is the driver's; letting others in is `registrar`'s.

use mercato_discovery::Address;
use mercato_protocol::id::FederationId;
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest, JoinToken};
use mercato_protocol::limits::FEDERATIONS;
use mercato_protocol::time::Deadline;

use super::Federations;
use super::ask::{Answer, FederationRefusal};
use super::membership::Membership;
use super::papers::Papers;
use super::renewal::Joining;
use crate::context::Turn;
use crate::effect::Effect;
use crate::limits;
use crate::notice::FederationNews;

impl Federations {
    /// Asks the registrar of a token to let this cluster in.
    pub(super) fn join(
        &mut self,
        to: u64,
        token: JoinToken,
        turn: &mut Turn<'_>,
    ) -> Result<(), FederationRefusal> {
        let of = token.federation;
        let known = self.memberships.contains_key(&of);
        match () {
            () if token.is_over(turn.now) => Err(FederationRefusal::Join(JoinRefusal::Expired)),
            () if token.registrar == self.config.key.public() => Err(FederationRefusal::Papers),
            () if !known && self.memberships.len() >= FEDERATIONS => {
                Err(FederationRefusal::TooMany)
            }
            () if self.joining.contains_key(&of) => Err(FederationRefusal::Unanswered),
            () => {
                self.ask_registrar(of, Some(token), Some(to), turn);
                Ok(())
            }
        }
    }

    fn ask_registrar(
        &mut self,
        federation: FederationId,
        token: Option<JoinToken>,
        to: Option<u64>,
        turn: &mut Turn<'_>,
    ) {
        let before = self.memberships.get(&federation);
        let of_token = token.as_ref().map(|token| (token.registrar, token.addresses.as_slice()));
        // The registrar may have changed its key since.
        let latest =
            |of: &Membership| turn.context.peers.key(&of.registrar_cluster()?).or(of.issuer());
        let known = || Some((latest(before?)?, before?.papers().registrar.as_slice()));
        let Some((registrar, addresses)) = of_token.or_else(known) else { return };
        let addresses: Vec<Address> = addresses.iter().filter_map(|at| at.parse().ok()).collect();
        let request = Box::new(JoinRequest {
            secret: token.as_ref().map(|token| token.secret),
            identities: self.config.identities().collect(),
            federation: Some(federation),
        });
        let until_ms = turn.now.mono_ms + limits::JOIN_MS;
        self.joining.insert(federation, Joining { to, token, until_ms });
        turn.push(Effect::Join { federation, registrar, addresses, request });
    }

    /// What came of it; none: no answer.
    pub(super) fn on_joined(
        &mut self,
        federation: FederationId,
        reply: Option<JoinReply>,
        turn: &mut Turn<'_>,
    ) {
        let Some(Joining { to, token, .. }) = self.joining.remove(&federation) else { return };
        let done = match reply {
            Some(JoinReply::Refused(refusal)) => Err(FederationRefusal::Join(refusal)),
            None => Err(FederationRefusal::Unanswered),
            Some(JoinReply::Admitted { root, successions, certificates, revocations }) => {
                let before = self.memberships.get(&federation).map(Membership::papers);
                let registrar = match (&token, before) {
                    (Some(token), _) => token.addresses.clone(),
                    (None, before) => before.map(|of| of.registrar.clone()).unwrap_or_default(),
                };
                let domain = before.and_then(|before| before.domain.clone());
                let papers = Papers { root, successions, certificates, registrar, domain };
                if papers.id() == federation {
                    self.enter(papers, Some(&revocations), turn)
                } else {
                    Err(FederationRefusal::Papers)
                }
            }
        };
        if let (Err(refusal), None) = (&done, &token)
            && let Some(membership) = self.memberships.get_mut(&federation)
        {
            let refused = if let FederationRefusal::Join(no) = refusal { Some(*no) } else { None };
            // Each is told once, until something else comes of it.
            if membership.not_renewed(turn.now, refused) {
                let no = refused.map(FederationNews::NotRenewed);
                self.tell(federation, no.unwrap_or(FederationNews::Unreachable), turn);
            }
        }
        if let Some(to) = to {
            let answer = done.map_or_else(Answer::Refused, |()| Answer::Done);
            turn.push(Effect::Federation(to, Box::new(answer)));
        }
    }

    /// Those that are to be renewed, and when, wall clock; not while the registrar is asked.
    fn renewals(&self) -> impl Iterator<Item = (FederationId, u64)> {
        let idle = self.memberships.iter().filter(|(of, _)| !self.joining.contains_key(of));
        idle.filter_map(|(of, membership)| Some((*of, membership.renew_ms()?)))
    }

    /// When a registrar is next asked, or counts as silent.
    pub(super) fn renewal_wakeup(&self) -> impl Iterator<Item = Deadline> {
        let due = self.renewals().map(|(_, due_ms)| Deadline::Wall(due_ms));
        due.chain(self.joining.values().map(|asked| Deadline::Mono(asked.until_ms)))
    }

    pub(super) fn renewals_due(&mut self, turn: &mut Turn<'_>) {
        let silent = self.joining.iter().filter(|(_, asked)| asked.until_ms <= turn.now.mono_ms);
        for federation in silent.map(|(of, _)| *of).collect::<Vec<_>>() {
            self.on_joined(federation, None, turn);
        }
        let due = self.renewals().filter(|(_, due_ms)| *due_ms <= turn.now.wall_ms);
        for (federation, _) in due.collect::<Vec<_>>() {
            self.ask_registrar(federation, None, None, turn);
        }
    }
}
