//! What kinds of packets cross between two clusters. TCP, UDP, SCTP, echoes and errors of ICMP do;
//! whatever carries packets of its own does not, since the address table does not see those.
//! Routers and neighbours are each cluster's own affair.

use thiserror::Error;

use crate::packet::{ICMP, ICMPV6, Layout, NoPacket, SCTP, TCP, UDP};

/// Why a packet was not translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TranslateError {
    /// It is no whole packet.
    #[error(transparent)]
    NoPacket(#[from] NoPacket),
    /// It is an ICMP error about a packet that does not concern its two ends. Whoever gets it
    /// would believe it of a connection to somebody else.
    #[error("an ICMP error about a packet between others")]
    Quotation,
    /// It is of a kind that does not cross between clusters.
    #[error("a protocol or a kind of ICMP message that does not cross")]
    Protocol,
}

/// Echo reply and echo request.
const ECHOES_V4: [u8; 2] = [0, 8];
/// Echo request and echo reply.
const ECHOES_V6: [u8; 2] = [128, 129];
/// Unreachable, source quench, time exceeded, parameter problem. A redirect is an error as well,
/// but it is for whoever is on the same link.
const ERRORS_V4: [u8; 4] = [3, 4, 11, 12];
/// All types below are errors, known or not (RFC 4443, section 2.1).
const FIRST_INFORMATION_V6: u8 = 128;

/// What a packet is that may cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossing {
    /// It is translated by its headers alone.
    Plain,
    /// It is an ICMP error, which quotes another packet.
    Error,
}

impl Crossing {
    /// Judges a packet by what it transports.
    ///
    /// A first fragment of ICMP is judged like a whole message. Later ones pass: the type is the
    /// message's first byte, and they begin eight bytes behind it at least, wherever they overlap
    /// with others. An error is refused as any fragment, since not all of the quotation is there.
    ///
    /// # Errors
    /// When it may not cross.
    pub(crate) fn of(bytes: &[u8], layout: &Layout) -> Result<Self, TranslateError> {
        let is_version_6 = layout.is_version_6();
        match layout.protocol {
            TCP | UDP | SCTP => Ok(Self::Plain),
            ICMP if !is_version_6 => Self::of_message(bytes, layout, &ECHOES_V4),
            ICMPV6 if is_version_6 => Self::of_message(bytes, layout, &ECHOES_V6),
            _ => Err(TranslateError::Protocol),
        }
    }

    fn of_message(bytes: &[u8], layout: &Layout, echoes: &[u8]) -> Result<Self, TranslateError> {
        if is_icmp_error(bytes, layout) {
            return if layout.is_fragment {
                Err(TranslateError::Quotation)
            } else {
                Ok(Self::Error)
            };
        }
        let kind = icmp_type(bytes, layout);
        let is_echo = kind.is_none_or(|kind| echoes.contains(&kind));
        if is_echo { Ok(Self::Plain) } else { Err(TranslateError::Protocol) }
    }
}

/// Whether it is, or begins, an ICMP message that quotes a packet: RFC 792, RFC 4443.
pub(crate) fn is_icmp_error(bytes: &[u8], layout: &Layout) -> bool {
    icmp_type(bytes, layout).is_some_and(|kind| match layout.protocol {
        ICMP => ERRORS_V4.contains(&kind),
        ICMPV6 => kind < FIRST_INFORMATION_V6,
        _ => false,
    })
}

/// The type of an ICMP message; none if it is a later fragment.
fn icmp_type(bytes: &[u8], layout: &Layout) -> Option<u8> {
    let is_first = !layout.is_later_fragment;
    is_first.then(|| bytes.get(layout.transport.start).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::packet::tests::packet;

    const FRAGMENT: u8 = 44;
    const DESTINATION_OPTIONS: u8 = 60;

    fn judged(bytes: &[u8]) -> Result<Crossing, TranslateError> {
        Crossing::of(bytes, &Layout::read(bytes).unwrap())
    }

    fn ends(is_version_6: bool) -> [IpAddr; 2] {
        let ends = if is_version_6 { ["fd00::1", "fd00::2"] } else { ["10.0.0.1", "10.0.0.2"] };
        ends.map(|end| end.parse().unwrap())
    }

    /// A packet that transports this, of version 4 with these fragment bits.
    fn version_4(protocol: u8, fragment: u16, transport: &[u8]) -> Vec<u8> {
        let [one, other] = ends(false);
        let mut bytes = packet(one, other, protocol, transport);
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes
    }

    fn version_6(protocol: u8, transport: &[u8]) -> Vec<u8> {
        let [one, other] = ends(true);
        packet(one, other, protocol, transport)
    }

    /// A fragment of version 6; `fragment` as it stands in its header.
    fn fragment_6(protocol: u8, fragment: u16, transport: &[u8]) -> Vec<u8> {
        let [high, low] = fragment.to_be_bytes();
        version_6(FRAGMENT, &[&[protocol, 0, high, low, 0, 0, 0, 1], transport].concat())
    }

    fn message(kind: u8) -> [u8; 40] {
        let mut message = [0; 40];
        message[0] = kind;
        message
    }

    #[test]
    fn nothing_that_carries_packets_of_its_own_crosses() {
        for protocol in 0..=u8::MAX {
            let is_plain = matches!(protocol, TCP | UDP | SCTP);
            let bytes = version_4(protocol, 0, &message(8));
            assert_eq!(judged(&bytes).is_ok(), is_plain || protocol == ICMP, "{protocol}");
            let later = version_4(protocol, 2, &message(8));
            assert_eq!(judged(&later).is_ok(), is_plain || protocol == ICMP, "{protocol}");
            let first = fragment_6(protocol, 1, &message(128));
            assert_eq!(judged(&first).is_ok(), is_plain || protocol == ICMPV6, "{protocol}");
            let later = fragment_6(protocol, 16, &message(128));
            assert_eq!(judged(&later).is_ok(), is_plain || protocol == ICMPV6, "{protocol}");
        }
        // IPv6 in IPv6, GRE, ESP, AH, nothing at all, Mobility, what nobody has defined.
        for protocol in [41, 47, 50, 51, 59, 135, 200] {
            let bytes = version_6(protocol, &message(0));
            assert_eq!(judged(&bytes), Err(TranslateError::Protocol), "{protocol}");
            let optioned = [&[protocol, 0, 1, 4, 0, 0, 0, 0], &message(0)[..]].concat();
            let optioned = version_6(DESTINATION_OPTIONS, &optioned);
            assert_eq!(judged(&optioned), Err(TranslateError::Protocol), "{protocol} behind one");
        }
    }

    #[test]
    fn of_icmp_echoes_and_errors_cross() {
        for kind in 0..=u8::MAX {
            let expected = match kind {
                0 | 8 => Ok(Crossing::Plain),
                3 | 4 | 11 | 12 => Ok(Crossing::Error),
                _ => Err(TranslateError::Protocol),
            };
            assert_eq!(judged(&version_4(ICMP, 0, &message(kind))), expected, "version 4, {kind}");
            let expected = match kind {
                0..128 => Ok(Crossing::Error),
                128 | 129 => Ok(Crossing::Plain),
                _ => Err(TranslateError::Protocol),
            };
            assert_eq!(judged(&version_6(ICMPV6, &message(kind))), expected, "version 6, {kind}");
        }
    }

    #[test]
    fn an_error_in_fragments_is_refused_and_no_other_fragment_becomes_one() {
        let quotation = Err(TranslateError::Quotation);
        for kind in ERRORS_V4 {
            assert_eq!(judged(&version_4(ICMP, 0x2000, &message(kind))), quotation, "{kind}");
        }
        for kind in 0..FIRST_INFORMATION_V6 {
            // The last bit says that more follow; without it this is an "atomic" fragment.
            for more in [0, 1] {
                let first = fragment_6(ICMPV6, more, &message(kind));
                assert_eq!(judged(&first), quotation, "{kind}, {more}");
            }
        }
        for housekeeping in [133, 134, 135, 136, 137, 143] {
            let first = fragment_6(ICMPV6, 0, &message(housekeeping));
            assert_eq!(judged(&first), Err(TranslateError::Protocol), "{housekeeping}");
        }
        assert_eq!(judged(&version_4(ICMP, 0x2000, &message(8))), Ok(Crossing::Plain));
        assert_eq!(judged(&version_4(ICMP, 1, &message(3))), Ok(Crossing::Plain));
        assert_eq!(judged(&fragment_6(ICMPV6, 8, &message(1))), Ok(Crossing::Plain));
        // Options behind the fragment header would put the type where a later fragment reaches.
        let optioned = [&[ICMPV6, 0, 1, 4, 0, 0, 0, 0], &message(128)[..]].concat();
        for fragment in [0, 1, 8] {
            let bytes = fragment_6(DESTINATION_OPTIONS, fragment, &optioned);
            assert_eq!(judged(&bytes), Err(TranslateError::Protocol), "{fragment}");
        }
    }
}
