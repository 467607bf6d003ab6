//! In which ranges guests of several leases of this cluster know each other: those of all leases,
//! in pieces that a peer takes, as far as there is room for them beside what is said already.

use ipnet::IpNet;

use crate::limits;

/// Of leases with these ranges, in their order. One lease meets nobody. A lease has room for all of
/// its range, or is left out: half of its guests would be reached, and nobody could say which.
pub(super) fn meeting(leases: &[Vec<IpNet>], room: usize) -> Vec<IpNet> {
    let mut told = Vec::new();
    if leases.len() < 2 {
        return told;
    }
    let mut left = room;
    for lease in leases {
        let pieces: Vec<IpNet> = lease.iter().copied().flat_map(pieces).take(room + 1).collect();
        if let Some(less) = left.checked_sub(pieces.len()) {
            left = less;
            told.extend(pieces);
        }
    }
    told
}

/// A peer takes none that is larger.
fn pieces(range: IpNet) -> impl Iterator<Item = IpNet> {
    let whole = range.max_prefix_len();
    let longest = whole.saturating_sub(limits::PEER_RANGE_BITS);
    // No error: it is as long as the range, or longer.
    range.subnets(longest.max(range.prefix_len())).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(ranges: &[&str]) -> Vec<IpNet> {
        ranges.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn one_lease_meets_nobody() {
        assert!(meeting(&[lease(&["10.201.4.0/24"])], 64).is_empty());
        let two = [lease(&["10.201.4.0/24"]), lease(&["10.202.5.0/25"])];
        assert_eq!(meeting(&two, 64), two.concat());
    }

    #[test]
    fn a_large_range_is_told_in_pieces_that_a_peer_takes() {
        let two = [lease(&["10.201.4.0/22"]), lease(&["fd00::/118"])];
        let pieces = lease(&[
            "10.201.4.0/24",
            "10.201.5.0/24",
            "10.201.6.0/24",
            "10.201.7.0/24",
            "fd00::/120",
            "fd00::100/120",
            "fd00::200/120",
            "fd00::300/120",
        ]);
        assert_eq!(meeting(&two, 8), pieces);
    }

    #[test]
    fn a_lease_without_room_is_left_out_whole() {
        let all = [lease(&["10.201.4.0/23"]), lease(&["10.202.0.0/13"]), lease(&["10.203.5.0/24"])];
        assert_eq!(meeting(&all, 3), lease(&["10.201.4.0/24", "10.201.5.0/24", "10.203.5.0/24"]));
        assert_eq!(meeting(&all, 1), lease(&["10.203.5.0/24"]));
    }
}
