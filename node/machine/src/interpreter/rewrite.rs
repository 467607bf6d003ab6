//! Addresses that are written into packets anew, and the sums that become others by that
//! (net/netfilter/nft_payload.c).

use super::frame::{Frame, Transport};
use crate::packets::Rewritten;
use crate::packets::protocols::{ICMPV6, TCP, UDP};

const ADDRESS_BYTES: usize = 4;
/// Where an IPv4 header has its sum, and where an ICMP error has that of the packet it is about.
const HEADER_SUM: usize = 10;
const SUM_IN_ERROR: usize = 8 + HEADER_SUM;

/// Writes an address; whether there was room for it, and for the sum.
pub(super) fn write(
    frame: &mut Frame,
    transport: Option<Transport>,
    what: Rewritten,
    address: [u8; ADDRESS_BYTES],
) -> bool {
    let readable = transport.filter(|transport| !transport.is_later_part);
    let (base, sum, counts_below) = match what {
        Rewritten::Source | Rewritten::Destination => (frame.network, Some(HEADER_SUM), true),
        Rewritten::ErrorSource | Rewritten::ErrorDestination => match readable {
            Some(transport) => (transport.offset, Some(SUM_IN_ERROR), false),
            None => return false,
        },
        Rewritten::ArpSender | Rewritten::ArpTarget => (frame.network, None, false),
    };
    let at = base + what.offset() as usize;
    let Some(old) = frame.bytes.get(at..at + ADDRESS_BYTES).map(<[u8]>::to_vec) else {
        return false;
    };
    if sum.is_some_and(|sum| !change_sum(&mut frame.bytes, base + sum, &old, &address)) {
        return false;
    }
    // What is in a packet has a sum of its own over both addresses, where this is not a later part.
    if let Some(at) = readable.filter(|_| counts_below).and_then(|it| sum_below(frame, it))
        && !change_sum(&mut frame.bytes, at, &old, &address)
    {
        return false;
    }
    frame.bytes[at..at + ADDRESS_BYTES].copy_from_slice(&address);
    true
}

/// Where the sum of what is in the packet stands, if it has one.
fn sum_below(frame: &Frame, transport: Transport) -> Option<usize> {
    match transport.protocol {
        TCP => Some(transport.offset + 16),
        UDP => {
            let at = transport.offset + 6;
            // Zero is none (RFC 768).
            frame.bytes.get(at..at + 2).filter(|sum| **sum != [0, 0]).map(|_| at)
        }
        ICMPV6 => Some(transport.offset + 2),
        _ => None,
    }
}

/// Changes a sum as these bytes change (RFC 1624); whether it is there.
fn change_sum(bytes: &mut [u8], at: usize, old: &[u8], new: &[u8]) -> bool {
    let Some(sum) = bytes.get_mut(at..at + 2) else { return false };
    let words = |bytes: &[u8]| -> u32 {
        bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
    };
    let removed = old.iter().map(|byte| !byte).collect::<Vec<_>>();
    let mut all = words(&[!sum[0], !sum[1]]) + words(&removed) + words(new);
    while all > 0xffff {
        all = (all & 0xffff) + (all >> 16);
    }
    let changed = !(all as u16);
    // A sum of zero would be none (`CSUM_MANGLED_0`).
    let changed = if changed == 0 { 0xffff } else { changed };
    sum.copy_from_slice(&changed.to_be_bytes());
    true
}
