//! The clusters that say that one gateway is theirs. A tunnel's key signs nothing, so that anybody
//! can name that of another: whose it is shows by whose secret a session comes up. Until then each
//! is tried, with its own secret at its own addresses; from then on the others' words are nothing.

use std::net::SocketAddr;

use mercato_protocol::id::ClusterId;

use super::config::Claim;
use crate::limits;
use crate::via::Via;

/// Where a peer was found, and by the secret with which cluster.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) via: Via,
    pub(super) by: ClusterId,
}

/// The clusters that say that one gateway is theirs.
pub(super) struct Claims {
    all: Vec<Claim>,
    /// By whose secret a session came up first, as long as it says so.
    owner: Option<ClusterId>,
}

impl Claims {
    pub(super) fn new(all: Vec<Claim>) -> Self {
        Self { all, owner: None }
    }

    /// These from now on. An owner that says so no more is none.
    pub(super) fn replace(&mut self, all: Vec<Claim>) {
        self.all = all;
        self.owner = self.owner.filter(|owner| self.has(*owner));
    }

    /// Whether this cluster says so.
    pub(super) fn has(&self, cluster: ClusterId) -> bool {
        self.all.iter().any(|claim| claim.cluster == cluster)
    }

    /// Whose it is, once that has shown.
    pub(super) fn owner(&self) -> Option<ClusterId> {
        self.owner
    }

    /// A session by the secret of this cluster came up.
    pub(super) fn prove(&mut self, cluster: ClusterId) {
        debug_assert!(self.has(cluster), "no other secret is tried");
        self.owner.get_or_insert(cluster);
    }

    /// Whether several say so, and it has not shown whose it is.
    pub(super) fn is_disputed(&self) -> bool {
        self.open().nth(1).is_some()
    }

    /// Those whose word may hold.
    fn open(&self) -> impl Iterator<Item = &Claim> + Clone {
        let owner = self.owner;
        self.all.iter().filter(move |it| owner.is_none_or(|owner| owner == it.cluster))
    }

    /// Where it is, or may be.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.all.iter().flat_map(|claim| claim.addresses.iter().copied())
    }

    /// Those by which it may be found; `last` is where it was last.
    fn reachable(&self, last: Option<Via>) -> impl Iterator<Item = &Claim> {
        self.open().filter(move |claim| places(claim, last).next().is_some())
    }

    /// How many tries it takes until each place of each claim was tried.
    pub(super) fn tries(&self, last: Option<Via>) -> usize {
        let places = self.reachable(last).map(|claim| places(claim, last).count());
        self.reachable(last).count() * places.max().unwrap_or_default()
    }

    /// Whose secret is tried at which place, at this try: one claim after the other, so that no list
    /// of addresses, however long, keeps another claim waiting. The lot says which one is first, so
    /// that claims that come and go do not keep one from its turn.
    pub(super) fn to_try(
        &self,
        last: Option<Via>,
        lot: usize,
        nth: usize,
    ) -> Option<(&Claim, Via)> {
        let count = self.reachable(last).count();
        let claim = self.reachable(last).nth((lot % count.max(1) + nth).checked_rem(count)?)?;
        let round = nth / count;
        let via = places(claim, last).nth(round % places(claim, last).count())?;
        Some((claim, via))
    }

    /// Which one of those that are tried is this cluster's.
    pub(super) fn place_of(&self, last: Option<Via>, cluster: ClusterId) -> Option<usize> {
        self.reachable(last).position(|claim| claim.cluster == cluster)
    }

    /// By whose secrets an initiation is answered: so many, beginning with one that is drawn by lot
    /// where there are more, so that each has its turn whatever the other end does.
    pub(super) fn to_answer(&self, draw: impl FnOnce() -> u64) -> Vec<ClusterId> {
        let count = self.open().count();
        let is_crowd = count > limits::CLAIMS;
        let first = if is_crowd { (draw() % count as u64) as usize } else { 0 };
        let turn = self.open().cycle().skip(first);
        turn.take(count.min(limits::CLAIMS)).map(|claim| claim.cluster).collect()
    }

    pub(super) fn of(&self, cluster: ClusterId) -> Option<&Claim> {
        self.all.iter().find(|claim| claim.cluster == cluster)
    }
}

/// Where it was last, then each address of a claim.
fn places(claim: &Claim, last: Option<Via>) -> impl Iterator<Item = Via> {
    last.into_iter().chain(claim.addresses.iter().map(|to| Via::from(*to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SharedSecret;

    /// The second of three is first.
    const LOT: usize = 7;

    fn cluster(number: u8) -> ClusterId {
        ClusterId([number; 32])
    }

    /// The address of this number, of a cluster of this number.
    fn at(number: u8, nth: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, number, nth], 7475))
    }

    /// That of the cluster of this number, at so many addresses.
    fn claim(number: u8, addresses: u8) -> Claim {
        Claim {
            cluster: cluster(number),
            secret: SharedSecret::new([number; 32]),
            addresses: (0..addresses).map(|nth| at(number, nth)).collect(),
        }
    }

    fn tried(claims: &Claims, last: Option<Via>, count: usize) -> Vec<(ClusterId, SocketAddr)> {
        let tries = (0..count).map(|nth| claims.to_try(last, LOT, nth).unwrap());
        tries.map(|(claim, via)| (claim.cluster, via.to)).collect()
    }

    #[test]
    fn each_claim_has_its_turn_at_its_own_addresses_however_many_another_has() {
        let claims = Claims::new(vec![claim(1, 8), claim(2, 1), claim(3, 0), claim(4, 2)]);
        let expected = [(2, 0), (4, 0), (1, 0), (2, 0), (4, 1), (1, 1), (2, 0), (4, 0), (1, 2)];
        let expected = expected.map(|(number, nth)| (cluster(number), at(number, nth)));
        assert_eq!(tried(&claims, None, 9), expected);
        assert!(claims.is_disputed());
        assert_eq!(claims.tries(None), 3 * 8);
        assert!(Claims::new(vec![claim(1, 0)]).to_try(None, LOT, 0).is_none(), "it is nowhere");
        assert!(Claims::new(Vec::new()).to_try(None, LOT, 0).is_none());
    }

    #[test]
    fn whoever_has_proven_it_is_the_only_one_until_it_says_so_no_more() {
        for [owner, liar] in [[1, 2], [2, 1]] {
            let mut claims = Claims::new(vec![claim(1, 1), claim(2, 1)]);
            claims.prove(cluster(owner));
            let last = Via::from(at(owner, 9));
            let is_owners = |claims: &Claims| {
                let expected = [last.to, at(owner, 0), last.to].map(|at| (cluster(owner), at));
                assert_eq!(tried(claims, Some(last), 3), expected);
                assert_eq!(claims.to_answer(|| unreachable!()), [cluster(owner)]);
                assert!(!claims.is_disputed());
            };
            is_owners(&claims);
            claims.prove(cluster(liar));
            is_owners(&claims);
            claims.replace(vec![claim(liar, 3), claim(owner, 1), claim(7, 1)]);
            is_owners(&claims);
            claims.replace(vec![claim(liar, 1)]);
            assert_eq!(claims.owner(), None);
            assert_eq!(claims.to_answer(|| unreachable!()), [cluster(liar)]);
        }
    }

    #[test]
    fn of_a_crowd_of_claims_a_few_are_answered_and_each_has_its_turn() {
        let count = 3 * limits::CLAIMS as u8;
        let claims = Claims::new((0..count).map(|number| claim(number, 1)).collect());
        for drawn in 0..u64::from(count) {
            let answered = claims.to_answer(|| drawn);
            let expected = (0..limits::CLAIMS as u8).map(|nth| (drawn as u8 + nth) % count);
            assert_eq!(answered, expected.map(cluster).collect::<Vec<_>>());
        }
        let few = Claims::new((0..limits::CLAIMS as u8).map(|number| claim(number, 1)).collect());
        assert_eq!(few.to_answer(|| unreachable!()).len(), limits::CLAIMS);
    }
}
