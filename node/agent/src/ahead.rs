//! Which leases are ahead of the records once an answer was not taken.

use std::collections::BTreeSet;

use mercato_protocol::id::ContractId;

/// The leases that have gone on with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeasesAhead {
    /// These leases alone, if any.
    These(BTreeSet<ContractId>),
    /// All of them, or what they have in common.
    All,
}

impl LeasesAhead {
    /// No lease has a part in it.
    pub(crate) const NONE: Self = Self::These(BTreeSet::new());

    /// This one alone, and no other.
    pub(crate) fn one(contract: ContractId) -> Self {
        Self::These([contract].into())
    }

    /// Those of both, without doubles.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::These(mut some), Self::These(more)) => {
                some.extend(more);
                Self::These(some)
            }
            (Self::All, Self::These(_) | Self::All) | (Self::These(_), Self::All) => Self::All,
        }
    }
}
