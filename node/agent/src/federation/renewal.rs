//! When a membership is to be renewed: well before its certificate ends, and not at the same time
//! as everybody else; and what a registrar was asked.

use mercato_protocol::certificate::Certificate;
use mercato_protocol::envelope::Verified;
use mercato_protocol::join::{JoinRefusal, JoinToken};
use mercato_protocol::time::Now;

use crate::limits;

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
    /// Why the registrar last refused to renew it.
    refused: Option<JoinRefusal>,
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

    /// When the registrar is asked, where its list is to be renewed at `list_ms`, wall clock.
    pub(crate) fn at_ms(&self, list_ms: u64) -> u64 {
        self.due_ms.min(list_ms).max(self.retry_ms)
    }

    /// Why the registrar last refused to renew it, if it did.
    pub(crate) fn refused(&self) -> Option<JoinRefusal> {
        self.refused
    }

    /// It was not renewed: the pause doubles, give or take a quarter; after a no it is long. Says
    /// whether that is new.
    pub(crate) fn fail(&mut self, now: Now, refused: Option<JoinRefusal>) -> bool {
        let is_new = self.tries == 0 || self.refused != refused;
        let pause_ms = match refused {
            None => limits::RENEW_MS.start() << self.tries.min(10),
            Some(_) => *limits::RENEW_MS.end(),
        };
        let pause_ms = pause_ms.min(*limits::RENEW_MS.end());
        self.retry_ms = now.wall_ms + pause_ms * 3 / 4 + pause_ms / 2 * self.spread / 255;
        self.tries += 1;
        self.refused = refused;
        is_new
    }
}

/// A question to a registrar that waits for its answer.
#[derive(Debug)]
pub(super) struct Joining {
    /// Whom to tell what came of it: a person, or nobody.
    pub(super) to: Option<u64>,
    /// The token by which it joins; none: it renews.
    pub(super) token: Option<JoinToken>,
    /// When it counts as unanswered, monotonic.
    pub(super) until_ms: u64,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mercato_protocol::certificate::Role;
    use mercato_protocol::envelope::{KeyPair, Signers, Trust};
    use mercato_protocol::id::{ClusterId, FederationId};

    use super::*;

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
            let own = key
                .sign(of, &certificate)
                .unwrap()
                .open(Trust { federation: of, signers: Signers::Anyone }, Now::default());
            Renewal::new(own.ok().as_ref()).due_ms
        });
        let due: BTreeSet<u64> = due.collect();
        assert!(due.len() > 10, "{due:?}");
        assert!(due.iter().all(|ms| (17 * DAY_MS..=20 * DAY_MS).contains(ms)), "{due:?}");
    }
}
