//! How much of conntrack's table a guest may take up, which is the whole node's: connections that it
//! begins, and those that others begin with it. What goes on is not touched.
//!
//! There are two bounds. How many connections there are is counted by asking conntrack for each of
//! them, and the kernel cleans that list up by and by, so that no more of them may begin than it
//! keeps up with; and those that are closed count no more, though conntrack knows them for a while
//! yet. Therefore it is bounded as well how many begin.

use std::collections::BTreeMap;

use super::expression::{Bound, Expression, begins};
use super::rule::drop_of;
use super::table::{PacketRule, Table, Tally};
use crate::limits;

/// In which it is counted. A guest that has no connection any more is forgotten.
pub(super) fn tallies() -> BTreeMap<String, Tally> {
    let quiet_ms = u64::try_from(limits::BEGINNINGS_QUIET.as_millis()).ok();
    let most = limits::COUNTED;
    BTreeMap::from([
        (Table::CONNECTIONS.to_owned(), Tally { most, quiet_ms: None }),
        (Table::BEGINNINGS.to_owned(), Tally { most, quiet_ms }),
    ])
}

/// Drops what would be a connection too many of a guest, whose address is loaded so, and who is found by
/// these conditions. What is dropped by other rules should come before.
pub(super) fn of(
    address: &Expression,
    guest: impl IntoIterator<Item = Expression>,
) -> [PacketRule; 2] {
    let guest: Vec<Expression> = guest.into_iter().collect();
    let over = |comment, tally: &str, bound| {
        let over = [address.clone(), Expression::Over(tally.to_owned(), bound)];
        drop_of(comment, guest.iter().cloned().chain(begins()).chain(over))
    };
    let (a_second, burst) = (limits::BEGINNINGS_A_SECOND, limits::CONNECTIONS);
    let connections = Bound::Connections(limits::CONNECTIONS);
    [
        over(
            "too many connections of a guest begin",
            Table::BEGINNINGS,
            Bound::Packets { a_second, burst },
        ),
        over("too many connections of a guest", Table::CONNECTIONS, connections),
    ]
}
