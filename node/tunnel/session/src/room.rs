//! How large packets to one peer may be, by what is known of the path: what one datagram carries,
//! what goes over two, and what is refused.

use std::net::SocketAddr;

use crate::control::HALF_HEADER_BYTES;
use crate::limits;
use crate::path_mtu::Path;

/// Of an IPv4 header and UDP's; and of an IPv6 header and UDP's.
const OUTER_HEADERS: [usize; 2] = [20 + 8, 40 + 8];

/// How large packets to one peer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What one datagram carries.
    datagram: usize,
    is_settled: bool,
}

impl Room {
    /// What a path leaves for packets to this address.
    pub(crate) fn new(path: Path, to: Option<SocketAddr>) -> Self {
        let datagram = path.outer_bytes - outer_headers(to) - limits::SEALED_BYTES;
        Self { datagram, is_settled: path.is_settled }
    }

    /// Each datagram carries so many bytes, and that is certain.
    pub fn certain(datagram: usize) -> Self {
        assert!(datagram > HALF_HEADER_BYTES, "room for one byte at least");
        Self { datagram, is_settled: true }
    }

    /// The largest packet that one datagram carries.
    pub fn datagram(self) -> usize {
        self.datagram
    }

    /// The same, if it is certain: what to tell those who would send larger ones.
    pub fn settled(self) -> Option<usize> {
        self.is_settled.then_some(self.datagram)
    }

    /// The largest packet that passes, over two datagrams if need be. While the path is not
    /// certain, or the packet may be fragmented, all that two carry; else what one carries, or
    /// whatever a pod sends before it is told of less.
    pub(crate) fn most(self, may_be_fragmented: bool) -> usize {
        let two = 2 * (self.datagram - HALF_HEADER_BYTES);
        let told = self.told().filter(|_| !may_be_fragmented);
        told.map_or(two, |told| told.max(limits::PASSING_BYTES).min(two))
    }

    /// What a sender of larger packets is told, if it is certain.
    pub(crate) fn told(self) -> Option<usize> {
        self.settled().map(|datagram| datagram.max(limits::LEAST_INNER_BYTES))
    }
}

/// What stands in front of a datagram to this address, or at most to any.
pub(crate) fn outer_headers(to: Option<SocketAddr>) -> usize {
    let is_version_4 = to.is_some_and(|to| to.ip().to_canonical().is_ipv4());
    OUTER_HEADERS[usize::from(!is_version_4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(outer_bytes: usize, to: &str, is_settled: bool) -> Room {
        Room::new(Path { outer_bytes, is_settled }, Some(to.parse().unwrap()))
    }

    #[test]
    fn headers_of_both_versions_are_taken_off() {
        assert_eq!(room(1_500, "192.0.2.1:1", true).settled(), Some(1_440));
        assert_eq!(room(1_500, "[::ffff:192.0.2.1]:1", true).datagram(), 1_440);
        assert_eq!(room(1_500, "[2001:db8::1]:1", false).datagram(), 1_420);
        assert_eq!(room(1_500, "[2001:db8::1]:1", false).settled(), None);
    }

    #[test]
    fn two_datagrams_carry_what_one_does_not() {
        let narrow = room(1_280, "[2001:db8::1]:1", true);
        assert_eq!((narrow.datagram(), narrow.most(false)), (1_200, 1_500));
        assert_eq!(narrow.told(), Some(1_280));
        assert_eq!(narrow.most(true), 2_398, "its sender lets it be fragmented");
        let wide = room(1_500, "192.0.2.1:1", true);
        assert_eq!((wide.most(false), wide.told()), (1_500, Some(1_440)));
        let jumbo = room(9_000, "192.0.2.1:1", true);
        assert_eq!((jumbo.most(false), jumbo.told()), (8_940, Some(8_940)));
        let unknown = room(1_280, "192.0.2.1:1", false);
        let nothing_yet = (unknown.most(false), unknown.told());
        assert_eq!(nothing_yet, (2_438, None), "nothing is certain yet");
        assert_eq!(Room::certain(100).most(false), 198, "no more than two carry");
    }
}
