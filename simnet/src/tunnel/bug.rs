//! Mistakes around a tunnel's session that its invariants are known to catch: each is planted
//! between a session and the link, so that the session itself carries no switch for it.

use std::fmt;
use std::str::FromStr;

/// A mistake that somebody might make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TunnelBug {
    /// The replay window moves before the tag is verified: a damaged counter shuts others out.
    WindowMovesFirst,
    /// Keys are kept, and used, after they should have been erased.
    KeysOutliveTheirEnd,
    /// What was received before is taken once more.
    ReplayTaken,
    /// A packet is given to the cluster without a look at the address table.
    TableSkipped,
}

impl TunnelBug {
    /// All planted bugs of the tunnel.
    pub const ALL: [Self; 4] =
        [Self::WindowMovesFirst, Self::KeysOutliveTheirEnd, Self::ReplayTaken, Self::TableSkipped];
}

impl fmt::Display for TunnelBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

impl FromStr for TunnelBug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|bug| bug.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no bug of the tunnel: simnet bugs"))
    }
}
