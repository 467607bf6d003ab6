//! What a router answers to a packet that is larger than the way ahead carries (RFC 792 with RFC
//! 1191, RFC 4443), and what it does so that TCP sends none (RFC 4459, section 3.2).

use crate::answer::icmp_error;
use crate::checksum::Change;
use crate::packet::{Layout, TCP};
use crate::translate::Checksum;

const FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
const PACKET_TOO_BIG: [u8; 2] = [2, 0];

const SYN: u8 = 0x02;
const END_OF_OPTIONS: u8 = 0;
const NO_OPTION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: [u8; 2] = [2, 4];
const TCP_HEADER_BYTES: usize = 20;

/// The packet that tells a sender that no more than `most` bytes pass, as if the packet's
/// destination had sent it. None where nobody is to be told: for a later fragment, an ICMP error,
/// or what was for many.
///
/// Made of a packet that was translated already, it is translated back like one that came from the
/// peer.
pub fn too_big(packet: &[u8], most: usize) -> Option<Vec<u8>> {
    let layout = Layout::read(packet).ok()?;
    let (kind, most) = if layout.is_version_6() {
        (PACKET_TOO_BIG, (most as u32).to_be_bytes())
    } else {
        let [high, low] = u16::try_from(most).unwrap_or(u16::MAX).to_be_bytes();
        (FRAGMENTATION_NEEDED, [0, 0, high, low])
    };
    icmp_error(packet, &layout, kind, most)
}

/// Lowers what a SYN says of the largest segment that may be sent to whoever sent it, to what
/// packets of `most` bytes carry. Each gateway does so for what its own pods will send: with the
/// packets that it gives to them. Other packets stay as they are.
pub fn clamp_segment_size(packet: &mut [u8], most: usize, checksum: Checksum) {
    let Ok(layout) = Layout::read(packet) else { return };
    if layout.protocol != TCP || layout.is_fragment {
        return;
    }
    let at = layout.transport.start;
    let Some(header) = packet.get(at..at + TCP_HEADER_BYTES) else { return };
    let end = at + usize::from(header[12] >> 4) * 4;
    if header[13] & SYN == 0 || end > packet.len() {
        return;
    }
    let ip_header = if layout.is_version_6() { 40 } else { 20 };
    let most = most.saturating_sub(ip_header + TCP_HEADER_BYTES);
    let Ok(most) = u16::try_from(most) else { return };
    let Some(size_at) = segment_size_at(packet, at + TCP_HEADER_BYTES, end) else { return };
    let size = u16::from_be_bytes([packet[size_at], packet[size_at + 1]]);
    if size <= most {
        return;
    }
    let change = set_bytes(packet, size_at, most.to_be_bytes());
    let checksum_at = at + 16;
    let word = u16::from_be_bytes([packet[checksum_at], packet[checksum_at + 1]]);
    // A partial checksum does not cover it yet.
    if checksum == Checksum::Complete {
        let word = change.to_checksum(word);
        packet[checksum_at..checksum_at + 2].copy_from_slice(&word.to_be_bytes());
    }
}

/// Where the size stands among TCP's options, which lie in this part of the packet.
fn segment_size_at(packet: &[u8], mut at: usize, end: usize) -> Option<usize> {
    while at < end {
        match packet[at..end] {
            [END_OF_OPTIONS, ..] | [] => return None,
            [NO_OPTION, ..] => at += 1,
            [kind, length, _, _, ..] if [kind, length] == MAXIMUM_SEGMENT_SIZE => {
                return Some(at + 2);
            }
            [_, length, ..] if length >= 2 => at += usize::from(length),
            [_, ..] => return None,
        }
    }
    None
}

/// Writes a word, which may begin at an odd place. Gives the change of the sum over even ones.
fn set_bytes(packet: &mut [u8], at: usize, word: [u8; 2]) -> Change {
    // TCP's header begins at an even place of the packet.
    let even = at & !1;
    let end = (at + 2).next_multiple_of(2).min(packet.len() & !1);
    let before = packet[even..end].to_vec();
    packet[at..at + 2].copy_from_slice(&word);
    Change::of(&before, &packet[even..end])
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::packet::UDP;
    use crate::packet::tests::{assert_right, packet};

    fn v4() -> [IpAddr; 2] {
        [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()]
    }

    fn v6() -> [IpAddr; 2] {
        ["fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()]
    }

    #[test]
    fn a_sender_is_told_how_much_passes() {
        for ([from, to], place, most_bytes) in [(v4(), 26..28, 576), (v6(), 46..48, 1_280)] {
            let large = packet(from, to, UDP, &[7; 1_400]);
            let told = too_big(&large, 1_280).unwrap();
            assert_right(&told);
            let layout = Layout::read(&told).unwrap();
            assert_eq!((layout.source, layout.destination), (to, from));
            assert_eq!(told.len(), most_bytes);
            assert_eq!(told[place.clone()], 1_280_u16.to_be_bytes());
            assert_eq!(told[place.end..], large[..told.len() - place.end], "what it quotes");
            assert_eq!(too_big(&told, 1_280), None, "an error is not answered by another");
        }
    }

    #[test]
    fn nobody_is_told_of_what_was_for_many_or_of_a_later_fragment() {
        let [from, _] = v4();
        assert_eq!(too_big(&packet(from, [224, 0, 0, 1].into(), UDP, &[0; 900]), 600), None);
        let mut fragment = packet(from, [10, 0, 0, 2].into(), UDP, &[0; 900]);
        fragment[7] = 9;
        assert_eq!(too_big(&fragment, 600), None);
    }

    fn syn([from, to]: [IpAddr; 2], flags: u8, options: &[u8]) -> Vec<u8> {
        let options =
            [options, &vec![0; options.len().next_multiple_of(4) - options.len()]].concat();
        let mut header = vec![0; TCP_HEADER_BYTES];
        header[12] = (((TCP_HEADER_BYTES + options.len()) / 4) as u8) << 4;
        header[13] = flags;
        packet(from, to, TCP, &[header, options].concat())
    }

    #[test]
    fn a_segment_size_is_lowered_and_never_raised() {
        for (ends, room) in [(v4(), 1_280), (v6(), 1_300)] {
            for before in [&[][..], &[1], &[4, 2], &[1, 3, 3, 7]] {
                let options = |size: u16| [before, &[2, 4], &size.to_be_bytes(), &[1]].concat();
                let mut clamped = syn(ends, SYN, &options(1_460));
                clamp_segment_size(&mut clamped, room, Checksum::Complete);
                assert_right(&clamped);
                assert_eq!(clamped, syn(ends, SYN, &options(1_240)));
                clamp_segment_size(&mut clamped, room + 9, Checksum::Complete);
                assert_eq!(clamped, syn(ends, SYN, &options(1_240)), "larger room");
                let other = syn(ends, 0x10, &options(1_460));
                let mut same = other.clone();
                clamp_segment_size(&mut same, room, Checksum::Complete);
                assert_eq!(same, other, "no SYN");
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_clamped_or_left(options in proptest::collection::vec(any::<u8>(), 0..40), most in 0_usize..9_000) {
            let mut bytes = syn(v4(), SYN, &options);
            clamp_segment_size(&mut bytes, most, Checksum::Complete);
            assert_right(&bytes);
        }
    }
}
