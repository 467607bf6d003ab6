//! Which address of the pool a node has.

use std::net::IpAddr;

use ipnet::IpNet;
use mercato_protocol::id::Digest;

use crate::limits;

/// The one that is in force at the node if nobody has it, else one that follows from the node's name,
/// so that it has the same again; never the first one.
pub(super) fn address_of(
    node: &str,
    range: IpNet,
    held: Option<IpAddr>,
    is_free: impl Fn(&IpAddr) -> bool,
) -> Option<IpAddr> {
    let held = held.filter(|held| range.contains(held) && *held != range.network());
    if let Some(held) = held.filter(&is_free) {
        return Some(held);
    }
    let bits = u32::from(range.max_prefix_len() - range.prefix_len()).min(limits::NODE_BITS);
    let count = (1_u128 << bits).checked_sub(1).filter(|count| *count > 0)?;
    let lot = Digest::of(node.as_bytes()).0;
    let lot = u128::from(u64::from_be_bytes(*lot.first_chunk()?));
    let mut turn = (0..count).map(|step| nth(range, 1 + (lot + step) % count));
    turn.find(is_free)
}

fn nth(range: IpNet, n: u128) -> IpAddr {
    match range.network() {
        IpAddr::V4(first) => IpAddr::V4((u32::from(first) + n as u32).into()),
        IpAddr::V6(first) => IpAddr::V6((u128::from(first) + n).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_kept_by_who_has_them_and_drawn_by_name() {
        let any = |_: &IpAddr| true;
        let range: IpNet = "10.203.7.0/24".parse().unwrap();
        let drawn = address_of("n2", range, None, any).unwrap();
        assert_eq!(address_of("n2", range, None, any), Some(drawn));
        assert_ne!(address_of("n2", range, None, |it| *it != drawn), Some(drawn));
        assert_ne!(address_of("n3", range, None, any), Some(drawn));
        assert_eq!(
            address_of("n2", range, Some(address("10.203.7.9")), any),
            Some(address("10.203.7.9"))
        );
        for held in ["10.203.7.0", "10.204.7.9"] {
            assert_eq!(address_of("n2", range, Some(address(held)), any), Some(drawn), "{held}");
        }
        assert_eq!(address_of("n2", range, None, |_| false), None);
        let small: IpNet = "10.203.7.8/31".parse().unwrap();
        assert_eq!(address_of("n2", small, None, any), Some(address("10.203.7.9")));
        assert_eq!(address_of("n2", "10.203.7.8/32".parse().unwrap(), None, any), None);
    }
}
