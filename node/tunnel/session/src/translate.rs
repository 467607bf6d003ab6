//! Another source and destination for a packet, with checksums changed and not computed: a packet
//! of any size costs the same. What an ICMP error quotes is translated with it.

use std::net::IpAddr;

use crate::checksum::Change;
use crate::crossing::{Crossing, TranslateError};
use crate::packet::{Layout, NoPacket, UDP};

/// Of an ICMP error in front of what it quotes.
const ICMP_HEADER_BYTES: usize = 8;

/// What the transport checksum of a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It is whole.
    Complete,
    /// It is the sum of the pseudo header alone; whoever puts the packet on a wire finishes it.
    Partial,
}

/// What stands in the place of the addresses of a packet that an ICMP error quotes.
pub(crate) trait Quoted {
    /// The source and destination for a quoted packet with these ones; none if it is not one that
    /// whoever gets the error has sent to whoever sends it.
    fn quoted(&self, source: IpAddr, destination: IpAddr) -> Option<(IpAddr, IpAddr)>;
}

/// Gives a packet another source and destination. The packet that an ICMP error quotes is changed
/// as `quoted` says.
///
/// # Errors
/// When it is no whole packet, of a kind that does not cross, or quotes a packet that it may not.
/// It is then as it was.
pub(crate) fn translate(
    bytes: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
    checksum: Checksum,
    quoted: &impl Quoted,
) -> Result<(), TranslateError> {
    let layout = Layout::read(bytes)?;
    if layout.checksum_at().is_some_and(|at| at + 2 > bytes.len()) {
        return Err(NoPacket::Length.into());
    }
    match Crossing::of(bytes, &layout)? {
        Crossing::Plain => {}
        Crossing::Error => translate_quotation(bytes, &layout, quoted)?,
    }
    let change = set_addresses(bytes, &layout, source, destination);
    set_transport_checksum(bytes, &layout, change, checksum);
    Ok(())
}

/// Writes both addresses, and an IPv4 header's own checksum. Gives the change of what a pseudo
/// header covers.
fn set_addresses(bytes: &mut [u8], layout: &Layout, source: IpAddr, destination: IpAddr) -> Change {
    let change = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) if !layout.is_version_6() => {
            let change = replace(&mut bytes[12..16], &source.octets())
                .and(replace(&mut bytes[16..20], &destination.octets()));
            change_word(bytes, 10, |checksum| change.to_checksum(checksum));
            change
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) if layout.is_version_6() => {
            replace(&mut bytes[8..24], &source.octets())
                .and(replace(&mut bytes[24..40], &destination.octets()))
        }
        mixed => panic!("an entry maps addresses of one family: {mixed:?}"),
    };
    assert!(bytes.len() >= 20, "a header was read");
    change
}

fn set_transport_checksum(bytes: &mut [u8], layout: &Layout, change: Change, checksum: Checksum) {
    let Some(at) = layout.checksum_at().filter(|_| layout.has_pseudo_header()) else { return };
    if at + 2 > bytes.len() {
        // A quotation that ends before it.
        return;
    }
    let is_udp = layout.protocol == UDP;
    change_word(bytes, at, |word| match checksum {
        Checksum::Partial => change.to_partial(word),
        // A UDP packet without a checksum (RFC 768) stays without.
        Checksum::Complete if is_udp && word == 0 => 0,
        Checksum::Complete => match change.to_checksum(word) {
            0 if is_udp => 0xffff,
            word => word,
        },
    });
}

/// Translates the packet that an ICMP error quotes, of which only the beginning is here, and the
/// error's checksum with it.
fn translate_quotation(
    bytes: &mut [u8],
    layout: &Layout,
    quoted: &impl Quoted,
) -> Result<(), TranslateError> {
    let begin = layout.transport.start + ICMP_HEADER_BYTES;
    let checksum_at = layout.transport.start + 2;
    let inner = bytes.get(begin..layout.transport.end).ok_or(NoPacket::Length)?;
    let inner_layout = Layout::read_headers(inner)?;
    let mapped = quoted.quoted(inner_layout.source, inner_layout.destination);
    let is_same_family = inner_layout.is_version_6() == layout.is_version_6();
    let (source, destination) =
        mapped.filter(|_| is_same_family).ok_or(TranslateError::Quotation)?;
    // Words of the quotation up to the end of the transport checksum are all that may change.
    let touched = inner_layout.checksum_at().map_or(inner_layout.transport.start, |at| at + 2);
    let end = (begin + touched.next_multiple_of(2)).min(layout.transport.end & !1);
    let before = bytes[begin..end].to_vec();
    let inner = &mut bytes[begin..layout.transport.end];
    let change = set_addresses(inner, &inner_layout, source, destination);
    set_transport_checksum(inner, &inner_layout, change, Checksum::Complete);
    let change = Change::of(&before, &bytes[begin..end]);
    change_word(bytes, checksum_at, |checksum| change.to_checksum(checksum));
    Ok(())
}

fn replace(field: &mut [u8], by: &[u8]) -> Change {
    let change = Change::of(field, by);
    field.copy_from_slice(by);
    change
}

fn change_word(bytes: &mut [u8], at: usize, change: impl FnOnce(u16) -> u16) {
    let word = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + 2].copy_from_slice(&change(word).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::packet::tests::{assert_right, complete_checksum, packet};
    use crate::packet::{ICMP, ICMPV6, SCTP, TCP};

    impl Quoted for BTreeMap<IpAddr, IpAddr> {
        fn quoted(&self, source: IpAddr, destination: IpAddr) -> Option<(IpAddr, IpAddr)> {
            Some((*self.get(&source)?, *self.get(&destination)?))
        }
    }

    fn addresses() -> impl Strategy<Value = [IpAddr; 4]> {
        let v4 = any::<[u32; 4]>().prop_map(|all| all.map(|bits| Ipv4Addr::from_bits(bits).into()));
        let v6 =
            any::<[u128; 4]>().prop_map(|all| all.map(|bits| Ipv6Addr::from_bits(bits).into()));
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn checksums_stay_right(
            [source, destination, new_source, new_destination] in addresses(),
            protocol in prop_oneof![Just(TCP), Just(UDP), Just(ICMPV6), Just(SCTP)],
            payload in proptest::collection::vec(any::<u8>(), 20..200),
        ) {
            let (mut payload, mut protocol) = (payload, protocol);
            if protocol == ICMPV6 {
                let is_version_6 = source.is_ipv6();
                payload[0] = if is_version_6 { 128 } else { 8 };
                protocol = if is_version_6 { ICMPV6 } else { ICMP };
            }
            let mut bytes = packet(source, destination, protocol, &payload);
            let none = BTreeMap::new();
            translate(&mut bytes, new_source, new_destination, Checksum::Complete, &none).unwrap();
            assert_right(&bytes);
            let layout = Layout::read(&bytes).unwrap();
            prop_assert_eq!((layout.source, layout.destination), (new_source, new_destination));
            let at = layout.transport.start + 6;
            prop_assert!(protocol != UDP || bytes[at..at + 2] != [0; 2], "it would be none");
            // To all others 0 and 0xffff are the same.
            complete_checksum(&mut bytes);
            prop_assert_eq!(bytes, packet(new_source, new_destination, protocol, &payload));
        }

        #[test]
        fn an_error_quotes_what_was_sent(
            [pod, guest, pod_there, guest_there] in addresses(),
            payload in proptest::collection::vec(any::<u8>(), 20..120),
            quoted_bytes in 28_usize..140,
        ) {
            // A guest answers to pod_there -> guest_there with an error; at home both have others.
            let sent = packet(pod, guest, UDP, &payload);
            let arrived = packet(pod_there, guest_there, UDP, &payload);
            let least = if pod.is_ipv6() { 48 } else { 28 };
            let cut = quoted_bytes.max(least).min(sent.len());
            let (protocol, kind) = if pod.is_ipv6() { (ICMPV6, 1) } else { (ICMP, 3) };
            let error = |of: &[u8]| [&[kind, 1, 0, 0, 0, 0, 0, 0], &of[..cut]].concat();
            let mut bytes = packet(guest_there, pod_there, protocol, &error(&arrived));
            let mapping = BTreeMap::from([(pod_there, pod), (guest_there, guest)]);
            prop_assume!(mapping.len() == 2);
            translate(&mut bytes, guest, pod, Checksum::Complete, &mapping).unwrap();
            assert_right(&bytes);
            let mut expected = packet(guest, pod, protocol, &error(&sent));
            complete_checksum(&mut expected);
            prop_assert_eq!(bytes, expected);
        }

        #[test]
        fn whatever_comes_is_translated_or_left(mut bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(first) = bytes.first_mut() {
                *first = 0x45;
            }
            if bytes.len() >= 20 {
                let total = (bytes.len() as u16).to_be_bytes();
                bytes[2..4].copy_from_slice(&total);
            }
            let before = bytes.clone();
            let any = Ipv4Addr::LOCALHOST.into();
            let done = translate(&mut bytes, any, any, Checksum::Complete, &BTreeMap::new());
            prop_assert!(done.is_ok() || bytes == before);
        }
    }

    #[test]
    fn a_partial_checksum_stays_partial() {
        let all = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 9, 0, 1], [10, 9, 0, 2]].map(IpAddr::from);
        let partial = |source, destination| {
            let mut bytes = packet(source, destination, TCP, &[0; 20]);
            // What a kernel leaves: the pseudo header's sum, over addresses, protocol and length.
            let header = crate::checksum::sum(&bytes[12..20]);
            let rest = u16::from(TCP) + 20;
            bytes[36..38].copy_from_slice(&crate::checksum::add(header, rest).to_be_bytes());
            bytes
        };
        let mut bytes = partial(all[0], all[1]);
        translate(&mut bytes, all[2], all[3], Checksum::Partial, &BTreeMap::new()).unwrap();
        assert_eq!(bytes, partial(all[2], all[3]));
    }
}
