//! How much of conntrack's table others may take up, which is the whole node's: a guest, with connections
//! that it begins and those that others begin with it; a guest elsewhere, with what it begins here; and
//! all guests of one lease elsewhere. What goes on is not touched.
//!
//! There are two bounds. How many connections there are is counted by asking conntrack for each of
//! them, and the kernel cleans that list up by and by, so that no more of them may begin than it
//! keeps up with; and those that are closed count no more, though conntrack knows them for a while
//! yet. Therefore it is bounded as well how many begin.

use std::collections::BTreeMap;

use super::expression::{BYTES_V4, BYTES_V6, Bound, Expression, begins, source};
use super::rule::drop_of;
use super::table::{PacketRule, Table, Tally};
use crate::family::Family;
use crate::limits;

/// In which it is counted. Who has no connection any more is forgotten.
pub(super) fn tallies() -> BTreeMap<String, Tally> {
    let quiet_ms = u64::try_from(limits::BEGINNINGS_QUIET.as_millis()).ok();
    let most = limits::COUNTED;
    let of = |names: Names| {
        [
            (names.connections.to_owned(), Tally { most, quiet_ms: None }),
            (names.beginnings.to_owned(), Tally { most, quiet_ms }),
        ]
    };
    let questions = (Table::QUESTIONS.to_owned(), Tally { most, quiet_ms });
    [Names::OF_ONE, Names::OF_LEASE].into_iter().flat_map(of).chain([questions]).collect()
}

/// Drops what a guest, whose address is loaded so, sends too often of what meets these conditions: there is
/// no connection by which it could be counted.
pub(super) fn of_packets(comment: &str, address: Expression, words: &[Expression]) -> PacketRule {
    let (rate, burst) = (limits::OF_NAMES_BY_TCP_A_SECOND, limits::OF_NAMES_BY_TCP);
    let over = Expression::Dynset(Table::QUESTIONS.to_owned(), Bound::Limit { rate, burst });
    drop_of(comment, words.iter().cloned().chain([address, over]))
}

/// Drops what would be a connection too many of a guest, whose address is loaded so, and who is found by
/// these conditions. What is dropped by other rules should come before.
pub(super) fn of(address: &Expression, guest: &[Expression]) -> Vec<PacketRule> {
    let counted = Counted {
        names: Names::OF_ONE,
        who: "guest",
        key: vec![address.clone()],
        connections: limits::CONNECTIONS,
        a_second: limits::BEGINNINGS_A_SECOND,
    };
    counted.rules(guest).into()
}

/// Drops what would be a connection too many of a guest elsewhere, or of its lease, whose packets meet
/// these conditions. Its provider can send in the name of each guest of the lease.
pub(super) fn of_elsewhere(family: Family, guest: &[Expression]) -> Vec<PacketRule> {
    let lease = Counted {
        names: Names::OF_LEASE,
        who: "lease",
        key: vec![source(family), Expression::Bitwise(of_lease(family))],
        connections: limits::OF_LEASE,
        a_second: limits::OF_LEASE_A_SECOND,
    };
    let [lease_begins, lease_has] = lease.rules(guest);
    let mut rules = of(&source(family), guest);
    // One that begins too many takes none of its lease's; and to count them all is the dearest.
    rules.insert(1, lease_begins);
    rules.push(lease_has);
    rules
}

/// The tallies in which something is counted.
#[derive(Clone, Copy)]
struct Names {
    connections: &'static str,
    beginnings: &'static str,
}

impl Names {
    const OF_ONE: Self = Self { connections: Table::CONNECTIONS, beginnings: Table::BEGINNINGS };
    const OF_LEASE: Self =
        Self { connections: Table::OF_LEASE, beginnings: Table::OF_LEASE_BEGINNINGS };
}

/// Whose connections are counted, and how many there may be.
struct Counted {
    names: Names,
    who: &'static str,
    /// Loads what stands for it.
    key: Vec<Expression>,
    /// At a time, and as many at once.
    connections: u32,
    a_second: u32,
}

impl Counted {
    /// What has begun already meets none of their conditions, and is past them soon.
    fn rules(&self, conditions: &[Expression]) -> [PacketRule; 2] {
        let over = |comment, tally: &str, bound| {
            let over = [Expression::Dynset(tally.to_owned(), bound)];
            let key = self.key.iter().cloned();
            let words = begins().into_iter().chain(conditions.iter().cloned());
            drop_of(comment, words.chain(key).chain(over))
        };
        let has = format!("too many connections of a {}", self.who);
        let (rate, burst) = (self.a_second, self.connections);
        let packets = Bound::Limit { rate, burst };
        [
            over(&format!("{has} begin"), self.names.beginnings, packets),
            over(&has, self.names.connections, Bound::Connlimit(self.connections)),
        ]
    }
}

/// Each lease has at least 256 addresses for its guests, and no part of them is another one's; by IPv6
/// these are the last bits as well.
fn of_lease(family: Family) -> Vec<u8> {
    let bytes = match family {
        Family::V4 => BYTES_V4,
        Family::V6 => BYTES_V6,
    };
    let mut mask = vec![0xff; bytes as usize];
    mask[bytes as usize - 1] = 0;
    mask
}
