//! Ranges of addresses that have the same pods in them, by other addresses.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, ensure, wire_map};

/// A range of addresses of pods, as home shows them and as guests reach them: of the same length, each
/// address in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedRange {
    /// As home shows them (`status.podIP`).
    pub home: IpNet,
    /// As the guests of the lease reach them.
    pub here: IpNet,
}

impl NamedRange {
    /// As which address guests reach the pod that home shows with this one; none: it is of another
    /// range.
    pub fn here_of(&self, home: IpAddr) -> Option<IpAddr> {
        moved(home, self.home, self.here)
    }

    /// With which address home shows the pod that guests reach as this one, likewise.
    pub fn home_of(&self, here: IpAddr) -> Option<IpAddr> {
        moved(here, self.here, self.home)
    }

    pub(super) fn validate(&self) -> Result<(), CodecError> {
        let of_one_family = self.home.max_prefix_len() == self.here.max_prefix_len();
        let is_as_long = self.home.prefix_len() == self.here.prefix_len();
        ensure(of_one_family && is_as_long, "ranges of other lengths for the same pods")?;
        // As each range is checked that is read.
        let is_plain = |it: IpNet| it.trunc() == it && it.addr().to_canonical() == it.addr();
        ensure(is_plain(self.home) && is_plain(self.here), "a range that no message may have")
    }
}

/// The address of `to` in the place that `address` has in `from`, of the same length; none: it is in
/// neither, or of another family.
pub fn moved(address: IpAddr, from: IpNet, to: IpNet) -> Option<IpAddr> {
    if !from.contains(&address) {
        return None;
    }
    Some(match (address, from.network(), to.network()) {
        (IpAddr::V4(address), IpAddr::V4(from), IpAddr::V4(to)) => {
            let place = u32::from(address) - u32::from(from);
            IpAddr::V4(u32::from(to).checked_add(place)?.into())
        }
        (IpAddr::V6(address), IpAddr::V6(from), IpAddr::V6(to)) => {
            let place = u128::from(address) - u128::from(from);
            IpAddr::V6(u128::from(to).checked_add(place)?.into())
        }
        (IpAddr::V4(_) | IpAddr::V6(_), ..) => return None,
    })
}

wire_map!(NamedRange { 1 => home, 2 => here });
