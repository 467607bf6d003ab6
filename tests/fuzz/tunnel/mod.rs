//! What is fuzzed of the tunnel: each entry point of the session, on what a stranger, a peer that
//! lies, or a device may give it. Shared by the fuzz targets and by the test that runs the kept
//! corpora.
#![allow(dead_code, clippy::unwrap_used, reason = "each target uses one; what panics is found")]

mod handshake;
mod input;
mod liar;
mod noise;
mod packets;
mod sealed;
mod segments;
mod table;

pub(crate) use self::handshake::handshake;
pub(crate) use self::liar::liar;
pub(crate) use self::sealed::sealed;
pub(crate) use self::segments::segments;
pub(crate) use self::table::table;

/// A target: what its corpus is called, and what reads one input.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: [Target; 5] = [
    ("handshake", handshake),
    ("liar", liar),
    ("sealed", sealed),
    ("segments", segments),
    ("table", table),
];

/// Functions of the session that read bytes of somebody else, each with its target.
pub(crate) const READERS: [(&str, &str); 17] = [
    ("take_datagram", "handshake"),
    ("handle_datagram", "handshake"),
    ("open", "sealed"),
    ("seal", "sealed"),
    ("outbound", "table"),
    ("inbound", "table"),
    ("lease_of_outbound", "table"),
    ("lease_of_inbound", "table"),
    ("too_big", "table"),
    ("nobody_there", "table"),
    ("clamp_segment_size", "table"),
    ("take_partial_mark", "segments"),
    ("complete_checksum", "segments"),
    ("from_bytes", "segments"),
    ("count", "segments"),
    ("send", "segments"),
    ("push", "segments"),
];
