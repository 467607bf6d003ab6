//! Guests that go out to the Internet, for tables of all kinds.

use super::net;
use crate::egress::Outward;

/// One that goes everywhere, and one of the other family that goes to a range.
pub(super) fn of_both() -> Outward {
    Outward {
        never: ["10.0.0.0/8", "2002::/16"].map(net).into(),
        internet: [net("10.42.0.5")].into(),
        named: [net("fd42::5")].into(),
        to: [net("2620:fe::/48")].into(),
    }
}
