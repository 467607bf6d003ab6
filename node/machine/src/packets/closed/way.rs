//! One way by the device of a pod, in which an address of a packet is written anew: whoever sends or gets
//! it knows another one than is on the wire. Nothing is remembered.

use super::arp;
use crate::packets::errors::KINDS_V4;
use crate::packets::expression::{Expression, Rewritten, Verdict, is_kind, is_protocol};
use crate::packets::frames::{FrameBase, FrameChain, FrameTable};
use crate::packets::protocols::{ICMP, ICMP_TYPE, IPV4};
use crate::packets::rule::{rule, said};
use crate::packets::table::{PacketRule, Side};

/// Behind the rules for what comes, and before those for what leaves: these speak of what is on the
/// wire.
const BETWEEN: i32 = 0;

/// What is written anew on it.
pub(super) struct Way {
    pub(super) chain: &'static str,
    pub(super) side: Side,
    /// What the address is looked up in.
    pub(super) map: &'static str,
    pub(super) address: Rewritten,
    /// The one that is looked up there as well, of the packet that an error is about.
    pub(super) in_error: Rewritten,
    /// And the one of what is asked and said of neighbours.
    pub(super) in_arp: Option<Rewritten>,
    /// What it is that has the address, as rules say it.
    pub(super) whose: &'static str,
}

impl Way {
    /// Adds to a table in a pod's own namespace, at its device, what does so.
    pub(super) fn add_to(&self, table: &mut FrameTable, device: &str) {
        let of_four = format!("{}_four", self.chain);
        let base = FrameBase { accepts: true, ..FrameBase::dropping(device, self.side, BETWEEN) };
        let goes_on = Verdict::Goto(of_four.clone());
        let mut rules = vec![rule("of this family", is_kind(IPV4), goes_on)];
        rules.extend(self.in_arp.map(|what| {
            let words = is_kind(arp::ARP).into_iter().chain(arp::of_ipv4());
            said(&format!("neighbours, of {}", self.whose), words.chain(self.written(what)))
        }));
        table.chains.extend([
            (self.chain.to_owned(), FrameChain { base: Some(base), rules }),
            (of_four, FrameChain::plain(self.rules())),
        ]);
    }

    /// Of an error, the packet that it is about has its addresses the other way around. That one
    /// comes first, since the rest is not read any more once it is known to be none.
    fn rules(&self) -> Vec<PacketRule> {
        let of_error = |kind: &u8| {
            let is = [ICMP_TYPE, Expression::CmpEq(vec![*kind])];
            let words = is_protocol(ICMP).into_iter().chain(is);
            said(
                &format!("an error about {}", self.whose),
                words.chain(self.written(self.in_error)),
            )
        };
        let mut rules: Vec<_> = KINDS_V4.iter().map(of_error).collect();
        rules.push(said(&format!("an address of {}", self.whose), self.written(self.address)));
        rules
    }

    fn written(&self, what: Rewritten) -> [Expression; 3] {
        [what.load(), Expression::LookupDreg(self.map.to_owned()), Expression::PayloadSet(what)]
    }
}
