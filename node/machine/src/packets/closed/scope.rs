//! What the rules of a closed pod have in common, of one family.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::closed::Closed;
use crate::family::Family;
use crate::packets::expression::{Expression, Verdict, is_protocol, lacks_more_headers};
use crate::packets::protocols::{ICMP, ICMPV6, IPV4, IPV6};
use crate::packets::rule::rule;
use crate::packets::scope::apart;
use crate::packets::table::PacketRule;

/// The set of the ranges that it reaches.
pub(super) const REACHED: &str = "reached";

/// Those of a family that has an address of the pod.
pub(super) struct Scope<'a> {
    pub(super) wanted: &'a Closed,
    pub(super) family: Family,
}

pub(super) fn scopes(wanted: &Closed) -> Vec<Scope<'_>> {
    let has = |family: &Family| wanted.own.iter().any(|own| Family::of(*own) == *family);
    let families = Family::ALL.into_iter().filter(has);
    families.map(|family| Scope { wanted, family }).collect()
}

impl Scope<'_> {
    /// What a set or chain of this family is called.
    pub(super) fn name(&self, what: &str) -> String {
        let family = match self.family {
            Family::V4 => "four",
            Family::V6 => "six",
        };
        format!("{what}_{family}")
    }

    /// Whom it reaches, and who reaches it.
    pub(super) fn reached(&self) -> BTreeSet<IpNet> {
        let of_family = |range: &&IpNet| Family::of_net(**range) == self.family;
        apart(self.wanted.reached.iter().filter(of_family).copied().collect())
    }

    /// What is loaded is in a range that is reached, if there is one.
    pub(super) fn is_reached(&self, loaded: &Expression, comment: &str) -> Option<PacketRule> {
        let words = self.is_in(loaded.clone(), REACHED);
        (!self.reached().is_empty()).then(|| rule(comment, words, Verdict::Accept))
    }

    pub(super) fn has_node(&self) -> bool {
        self.wanted.node.iter().any(|node| Family::of(*node) == self.family)
    }

    pub(super) fn is_in(&self, loaded: Expression, what: &str) -> [Expression; 2] {
        [loaded, Expression::Lookup(self.name(what))]
    }

    pub(super) fn kind(&self) -> u16 {
        match self.family {
            Family::V4 => IPV4,
            Family::V6 => IPV6,
        }
    }

    pub(super) fn icmp(&self) -> u8 {
        match self.family {
            Family::V4 => ICMP,
            Family::V6 => ICMPV6,
        }
    }

    /// Of this protocol, and whole: nothing is put together of it where it arrives.
    pub(super) fn whole(&self, protocol: u8) -> Vec<Expression> {
        match self.family {
            Family::V4 => {
                // More to come, or where this part belongs (RFC 791, section 3.1).
                let parts = Expression::PayloadNetwork { offset: 6, len: 2 };
                let mask = Expression::Bitwise(vec![0x3f, 0xff]);
                let whole = [parts, mask, Expression::CmpEq(vec![0, 0])];
                is_protocol(protocol).into_iter().chain(whole).collect()
            }
            Family::V6 => {
                lacks_more_headers(protocol).into_iter().chain(is_protocol(protocol)).collect()
            }
        }
    }

    pub(super) fn goto(&self, what: &str) -> Verdict {
        Verdict::Goto(self.name(what))
    }
}
