//! What guests of this node send to the world beyond clusters, as far as a contract of theirs has it: a
//! second wall, behind the rules of their own devices (`closed/outside.rs`), which know what each of them may
//! reach. It takes no tunnel: so it comes before what is said of those that are not mapped.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::bounds;
use super::closed::outside::internet_v6;
use super::errors;
use super::expression::{
    Expression, Verdict, destination, is_established, is_protocol, is_reply, not_by, not_from,
    source, within,
};
use super::protocols::{DESTINATION_PORT, MAIL, TCP};
use super::rule::{drop_of, rule, said};
use super::scope::apart;
use super::table::{PacketRule, Table};
use crate::family::Family;
use crate::wanted::Wanted;

pub(super) const OUTWARD: &str = "outward";

/// What the rules of a family are about; none: no guest goes out.
pub(super) struct Outwards<'a> {
    wanted: &'a Wanted,
    family: Family,
}

impl<'a> Outwards<'a> {
    pub(super) fn of(wanted: &'a Wanted, family: Family) -> Option<Self> {
        let goes_out = wanted.outward.guests().any(|guest| Family::of(guest) == family);
        goes_out.then_some(Self { wanted, family })
    }

    pub(super) fn sets(&self) -> [(String, BTreeSet<IpAddr>); 2] {
        let outward = &self.wanted.outward;
        let is_here = |guest: &IpAddr| Family::of(*guest) == self.family;
        let all = outward.guests().filter(is_here).collect();
        let named = outward.named.iter().copied().filter(is_here).collect();
        [(Table::OUTWARD.to_owned(), all), (Table::NAMED.to_owned(), named)]
    }

    pub(super) fn nets(&self) -> BTreeMap<String, BTreeSet<IpNet>> {
        let is_here = |net: &IpNet| Family::of_net(*net) == self.family;
        let of = |nets: &BTreeSet<IpNet>| apart(nets.iter().copied().filter(is_here).collect());
        let outward = &self.wanted.outward;
        [(Table::NEVER, of(&outward.never)), (Table::NAMED_TO, of(&outward.to))]
            .map(|(name, nets)| (name.to_owned(), nets))
            .into()
    }

    /// Before all else that is said of guests whose packets are forwarded.
    pub(super) fn forward(&self) -> PacketRule {
        rule("guests that go out", self.leaves(), Verdict::Goto(OUTWARD.to_owned()))
    }

    /// A chain that lets through what may go out, and drops the rest.
    pub(super) fn chain(&self) -> Vec<PacketRule> {
        let to = || destination(self.family);
        let guest = self.is_one();
        let mail = [DESTINATION_PORT, Expression::CmpEq(MAIL.to_be_bytes().to_vec())];
        let named = [source(self.family), Expression::Lookup(Table::NAMED.to_owned())];
        let not_named = [to(), Expression::LookupInv(Table::NAMED_TO.to_owned())];
        let never = [to(), Expression::Lookup(Table::NEVER.to_owned())];
        let mut rules = vec![
            drop_of("to whom no guest goes", never),
            drop_of("mail", is_protocol(TCP).into_iter().chain(mail)),
            drop_of("to what no contract names", named.into_iter().chain(not_named)),
        ];
        rules.extend(bounds::of(&source(self.family), &guest));
        let internet = match self.family {
            Family::V4 => Vec::new(),
            Family::V6 => [to()].into_iter().chain(within(internet_v6())).collect(),
        };
        let words = guest.into_iter().chain(internet);
        rules.push(rule("guests go out", words, Verdict::Accept));
        rules.push(drop_of("to no world", []));
        rules
    }

    /// Before nobody else calls guests: answers, and errors of routers on the way.
    pub(super) fn back(&self) -> [PacketRule; 2] {
        let to_one = [destination(self.family), Expression::Lookup(Table::OUTWARD.to_owned())];
        let elsewhere = || self.ours().into_iter().flat_map(not_from);
        let replies = || to_one.clone().into_iter().chain(elsewhere()).chain(is_reply());
        let comment = "errors about what guests have sent out";
        let not_ours = [Expression::LookupInv(Table::NEVER.to_owned())];
        [
            rule("answers to guests", replies().chain(is_established()), Verdict::Accept),
            errors::let_in(self.family, comment, replies(), not_ours),
        ]
    }

    /// A guest is known there by its node's address, as any pod: it knows itself by one that its home gave it,
    /// so that no pod network does this for it. IPv6 leaves as the pod network has it leave.
    pub(super) fn sources(&self) -> Option<PacketRule> {
        let masquerades = || {
            let words = self.leaves().into_iter().chain([Expression::Masquerade]);
            said("guests that go out have the node's address", words)
        };
        (self.family == Family::V4).then(masquerades)
    }

    fn is_one(&self) -> [Expression; 2] {
        [source(self.family), Expression::Lookup(Table::OUTWARD.to_owned())]
    }

    /// By which other clusters are reached, and not the world.
    fn ours(&self) -> [&str; 2] {
        [&self.wanted.marks.device, &self.wanted.marks.overlay]
    }

    fn leaves(&self) -> Vec<Expression> {
        let elsewhere = self.ours().into_iter().flat_map(not_by);
        self.is_one().into_iter().chain(elsewhere).collect()
    }
}
