//! Where a peer is. A packet that is authentic says who has sealed it, and not that its sender is
//! where it seems to come from: a peer may write somebody else's address into it, to have a
//! download sent there, and whoever copies packets on the way may send them on sooner. So an
//! address is believed once something that was sent there alone has come back (RFC 9000, section
//! 8.2): a handshake, or a challenge. Until then packets go where they went before.

use crate::limits;
use crate::via::Via;

/// Where a peer is, and where it may have gone.
#[derive(Debug, Default)]
pub(super) struct Roaming {
    proven: Option<Via>,
    candidate: Option<Candidate>,
}

/// Where authentic packets came from, and where the peer has not shown yet that it receives.
#[derive(Debug)]
struct Candidate {
    via: Via,
    /// What was sent there last.
    challenge: u64,
    /// When that was, on the monotonic clock.
    sent_ms: u64,
    /// When the first one was.
    since_ms: u64,
}

/// What becomes of a packet that came from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing, or nothing as long as another address is tried.
    No,
    /// The peer is where it was, and knows us by another address.
    Ours(Via),
    /// The peer is to be challenged there.
    Challenge(Via),
}

impl Roaming {
    /// Where packets to the peer go.
    pub(super) fn via(&self) -> Option<Via> {
        self.proven
    }

    /// The peer receives there. Says whether it did not before.
    pub(super) fn prove(&mut self, via: Via) -> bool {
        self.candidate.take_if(|candidate| candidate.via.to == via.to);
        self.proven.replace(via) != Some(via)
    }

    /// Something authentic came from there. One address is tried at a time, at most once in
    /// [`limits::CHALLENGE_MS`], and only when something came from it: nobody gets more than was
    /// sent in its name.
    pub(super) fn came_from(&mut self, mono_ms: u64, via: Via, challenge: u64) -> Moved {
        if self.proven == Some(via) {
            return Moved::No;
        }
        if self.proven.is_some_and(|proven| proven.to == via.to) {
            self.proven = Some(via);
            return Moved::Ours(via);
        }
        let before = self.candidate.as_ref();
        if before.is_some_and(|before| mono_ms < before.sent_ms + limits::CHALLENGE_MS) {
            return Moved::No;
        }
        let is_tried = |before: &&Candidate| mono_ms < before.since_ms + limits::CANDIDATE_MS;
        let since_ms = match before.filter(is_tried) {
            Some(before) if before.via != via => return Moved::No,
            Some(before) => before.since_ms,
            None => mono_ms,
        };
        self.candidate = Some(Candidate { via, challenge, sent_ms: mono_ms, since_ms });
        Moved::Challenge(via)
    }

    /// A challenge has come back from there. If it was sent there, says that the peer has moved.
    pub(super) fn came_back(&mut self, challenge: u64, via: Via) -> bool {
        let is_right = |candidate: &mut Candidate| {
            candidate.challenge == challenge && candidate.via.to == via.to
        };
        self.candidate.take_if(is_right).is_some() && self.prove(via)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn via(last: u8) -> Via {
        std::net::SocketAddr::from(([192, 0, 2, last], 7475)).into()
    }

    fn at(last: u8) -> Roaming {
        let mut roaming = Roaming::default();
        assert!(roaming.prove(via(last)));
        roaming
    }

    #[test]
    fn a_peer_is_elsewhere_once_it_has_shown_that_it_receives_there() {
        let mut roaming = at(1);
        assert_eq!(roaming.came_from(0, via(1), 7), Moved::No);
        assert_eq!(roaming.came_from(0, via(2), 7), Moved::Challenge(via(2)));
        assert!(!roaming.came_back(8, via(2)), "nobody has sent that");
        assert!(!roaming.came_back(7, via(1)), "it came back from where it was not sent");
        assert_eq!(roaming.via(), Some(via(1)));
        assert!(roaming.came_back(7, via(2)));
        assert_eq!(roaming.via(), Some(via(2)));
        assert!(!roaming.came_back(7, via(2)), "once");
    }

    #[test]
    fn one_address_is_tried_at_a_time_and_seldom() {
        let mut roaming = at(1);
        let challenges = (0..limits::CANDIDATE_MS).filter(|ms| {
            [2, 3].iter().any(|last| roaming.came_from(*ms, via(*last), *ms) != Moved::No)
        });
        let challenges: Vec<_> = challenges.collect();
        assert_eq!(challenges.len() as u64, limits::CANDIDATE_MS / limits::CHALLENGE_MS);
        assert!(roaming.came_back(*challenges.last().unwrap(), via(2)));
        // What never answers makes place for others.
        assert_eq!(roaming.came_from(10_000, via(3), 1), Moved::Challenge(via(3)));
        assert_eq!(roaming.came_from(12_000, via(4), 2), Moved::No);
        let later_ms = 10_000 + limits::CANDIDATE_MS;
        assert_eq!(roaming.came_from(later_ms, via(4), 3), Moved::Challenge(via(4)));
    }

    #[test]
    fn another_address_of_ours_is_no_move() {
        let mut roaming = at(1);
        let ours = Via { from: Some([198, 51, 100, 1].into()), ..via(1) };
        assert_eq!(roaming.came_from(0, ours, 7), Moved::Ours(ours));
        assert_eq!(roaming.via(), Some(ours));
    }
}
