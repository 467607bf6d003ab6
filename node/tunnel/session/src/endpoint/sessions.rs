//! The sessions with one peer that are open at a time. WireGuard has three; here those that were
//! replaced lately stay, since both ends may begin one at the same moment, each seals by its own,
//! and what is under way is to be opened.

use mercato_protocol::id::ClusterId;

use super::claims::Found;
use crate::limits;
use crate::session_keys::SessionKeys;
use crate::via::Via;

/// Sessions that were replaced and still open: two for each of both ends, but the newest.
const REPLACED: usize = 3;

/// What is open at a time.
#[derive(Default)]
pub(super) struct Sessions {
    /// Open what is still under way, the newest first; all are younger than
    /// [`limits::REJECT_AFTER_MS`].
    replaced: Vec<Session>,
    /// Seals and opens.
    current: Option<Session>,
    /// The peer began them by one initiation, and has sent nothing by any yet: one by the secret of
    /// each cluster that may be the peer's.
    next: Vec<Session>,
}

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Session {
    pub(super) own_index: u32,
    pub(super) began_ms: u64,
    /// Whether we sent the initiation.
    pub(super) is_ours: bool,
    /// Where the peer has shown that it receives, once this session is confirmed.
    pub(super) via: Via,
    /// By whose secret it was agreed.
    pub(super) by: ClusterId,
}

impl Session {
    pub(super) fn new(
        keys: &SessionKeys,
        began_ms: u64,
        is_ours: bool,
        Found { via, by }: Found,
    ) -> Self {
        Self { own_index: keys.own_index(), began_ms, is_ours, via, by }
    }

    pub(super) fn age_ms(&self, mono_ms: u64) -> u64 {
        mono_ms.saturating_sub(self.began_ms)
    }
}

impl Sessions {
    pub(super) fn current(&self) -> Option<Session> {
        self.current
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Session> {
        self.replaced.iter().chain(&self.current).chain(&self.next).copied()
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Session> + use<> {
        let Self { replaced, current, next } = std::mem::take(self);
        replaced.into_iter().chain(current).chain(next)
    }

    /// Those by the secrets of other clusters than these are over: gives them.
    pub(super) fn take_others(&mut self, is_kept: impl Fn(ClusterId) -> bool) -> Vec<Session> {
        let over = self.all().filter(|session| !is_kept(session.by)).collect();
        self.replaced.retain(|session| is_kept(session.by));
        self.next.retain(|session| is_kept(session.by));
        self.current.take_if(|session| !is_kept(session.by));
        over
    }

    /// Those that the peer began last are over, since it has begun others: gives them.
    pub(super) fn take_unconfirmed(&mut self) -> Vec<Session> {
        std::mem::take(&mut self.next)
    }

    /// One that the peer began, and has not used yet.
    pub(super) fn add_unconfirmed(&mut self, session: Session) {
        self.next.push(session);
    }

    /// One that the peer knows of seals from now on. Gives those that are over.
    pub(super) fn add_confirmed(&mut self, session: Session) -> Vec<Session> {
        // Both began at one moment: the peer seals by the one that it began.
        self.make_current(session, |next| next.by == session.by)
    }

    /// The peer has sent something by this session. If it is the unconfirmed one, it seals from
    /// now on: gives that it does, and those that are over.
    pub(super) fn confirm(&mut self, own_index: u32) -> Option<(Session, Vec<Session>)> {
        let nth = self.next.iter().position(|next| next.own_index == own_index)?;
        let next = self.next.swap_remove(nth);
        Some((next, self.make_current(next, |_| false)))
    }

    /// Of those that the peer has not used some stay to open.
    fn make_current(&mut self, session: Session, stays: impl Fn(&Session) -> bool) -> Vec<Session> {
        let before = self.current.replace(session);
        let (beside, mut over): (Vec<_>, Vec<_>) = self.next.drain(..).partition(stays);
        let replaced = beside.into_iter().chain(before).chain(self.replaced.drain(..));
        let mut kept = Vec::new();
        for other in replaced {
            let age_ms = session.began_ms.saturating_sub(other.began_ms);
            if age_ms < limits::REJECT_AFTER_MS && kept.len() < REPLACED {
                kept.push(other);
            } else {
                over.push(other);
            }
        }
        self.replaced = kept;
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(own_index: u32, began_ms: u64) -> Session {
        let via = std::net::SocketAddr::from(([192, 0, 2, 1], 7475)).into();
        Session { own_index, began_ms, is_ours: true, via, by: ClusterId([1; 32]) }
    }

    /// The same by the secret of another cluster.
    fn of_other(own_index: u32) -> Session {
        Session { by: ClusterId([2; 32]), ..session(own_index, 0) }
    }

    fn indexes(sessions: impl IntoIterator<Item = Session>) -> Vec<u32> {
        sessions.into_iter().map(|session| session.own_index).collect()
    }

    #[test]
    fn those_that_were_replaced_stay_while_they_are_young_and_few() {
        let mut sessions = Sessions::default();
        assert!(sessions.add_confirmed(session(1, 0)).is_empty());
        assert!(sessions.add_confirmed(session(2, limits::REKEY_AFTER_MS)).is_empty());
        let over = sessions.add_confirmed(session(3, 2 * limits::REKEY_AFTER_MS));
        assert_eq!((indexes(over), indexes(sessions.all())), (vec![1], vec![2, 3]));
        for index in 4..20 {
            sessions.add_confirmed(session(index, 2 * limits::REKEY_AFTER_MS));
        }
        assert_eq!(indexes(sessions.all()), [18, 17, 16, 19]);
    }

    #[test]
    fn where_both_began_both_are_open() {
        let mut sessions = Sessions::default();
        sessions.add_unconfirmed(session(1, 0));
        assert!(sessions.add_confirmed(session(2, 0)).is_empty());
        assert_eq!(indexes(sessions.current()), [2]);
        assert_eq!(indexes(sessions.all()), [1, 2]);
        assert!(sessions.confirm(1).is_none(), "the other one seals already");
    }

    #[test]
    fn of_those_of_one_initiation_the_one_that_the_peer_uses_is_left() {
        let mut sessions = Sessions::default();
        [of_other(1), session(2, 0), of_other(3)]
            .into_iter()
            .for_each(|it| sessions.add_unconfirmed(it));
        let (current, over) = sessions.confirm(2).unwrap();
        assert_eq!((current.own_index, sessions.all().count()), (2, 1));
        let mut over = indexes(over);
        over.sort_unstable();
        assert_eq!(over, [1, 3]);
        [of_other(4), session(5, 0)].into_iter().for_each(|it| sessions.add_unconfirmed(it));
        assert_eq!(indexes(sessions.add_confirmed(session(6, 0))), [4], "nobody has its secret");
        assert_eq!(indexes(sessions.all()), [5, 2, 6]);
        assert!(sessions.take_unconfirmed().is_empty());
    }

    #[test]
    fn with_a_cluster_go_the_sessions_by_its_secret() {
        let mut sessions = Sessions::default();
        sessions.add_confirmed(session(1, 0));
        sessions.add_confirmed(session(2, 0));
        [of_other(3), session(4, 0)].into_iter().for_each(|it| sessions.add_unconfirmed(it));
        let over = sessions.take_others(|by| by == ClusterId([2; 32]));
        assert_eq!((indexes(over), indexes(sessions.all())), (vec![1, 2, 4], vec![3]));
        assert!(sessions.current().is_none());
    }
}
