//! The tables of a membership when they are full.

use std::sync::Arc;

use mercato_protocol::envelope::KeyPair;
use mercato_protocol::federation::Root;
use mercato_protocol::identity::Identity;

use super::*;

const WALL_MS: u64 = 1_800_000_000_000;

fn now() -> Now {
    Now { mono_ms: 0, wall_ms: WALL_MS }
}

fn membership() -> Membership {
    let root = Root::found(&KeyPair::from_seed(&[4; 32]), "alps".parse().unwrap(), now()).unwrap();
    let papers = Papers::of_domain(root, "alps.test".to_owned());
    let key = Arc::new(KeyPair::from_seed(&[1; 32]));
    let identity = Identity::found(&key, "one", now()).unwrap();
    Membership::new(now(), papers, &Config::new(key, identity)).unwrap()
}

fn bytes(n: usize) -> [u8; 32] {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    bytes
}

fn member(n: usize, until_ms: u64) -> Member {
    Member {
        cluster: ClusterId(bytes(n)),
        key: PublicKey(bytes(n)),
        organisation: None,
        roles: Vec::new(),
        attributes: Default::default(),
        certified_by: Vec::new(),
        until_ms,
    }
}

#[test]
fn a_member_without_a_contract_leaves_for_a_new_one() {
    let mut membership = membership();
    let is_partner = |of: &ClusterId| *of == ClusterId(bytes(0));
    let (all, later_ms) = (limits::MEMBERS.all, WALL_MS + 1_000);
    for n in 0..all {
        let until_ms = if n == 5 { WALL_MS - 1 } else { later_ms };
        assert!(membership.put_member(now(), member(n, until_ms), &is_partner));
    }
    let is_here = |of: &Membership, n: usize| of.is_member(&ClusterId(bytes(n)));
    assert!(membership.put_member(now(), member(all, later_ms), &is_partner));
    assert!(is_here(&membership, all) && !is_here(&membership, 5), "what is over leaves first");
    assert!(membership.put_member(now(), member(all + 1, later_ms), &is_partner));
    let [partner, oldest, next] = [0, 1, 2].map(|n| is_here(&membership, n));
    assert!(partner && !oldest && next && is_here(&membership, all + 1));
    assert_eq!(membership.members.len(), all);
}

#[test]
fn an_issuer_without_a_list_leaves_for_a_new_one() {
    let mut membership = membership();
    let root = *membership.federation.root();
    for n in 0..limits::ISSUERS.all + 10 {
        membership.add_issuer(PublicKey(bytes(n)));
        assert!(membership.is_issuer(&PublicKey(bytes(n))) && membership.is_issuer(&root));
    }
    assert_eq!(membership.issuers.len(), limits::ISSUERS.all);
    assert!(!membership.is_issuer(&PublicKey(bytes(0))), "the oldest");
}
