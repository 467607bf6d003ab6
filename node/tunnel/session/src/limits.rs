//! Every bound and time of this crate. Times are milliseconds, and WireGuard's own (J. Donenfeld,
//! "WireGuard: Next Generation Kernel Network Tunnel", 2017, section 6) unless a line says
//! otherwise.

/// A session is replaced when it is so old, by whoever began it.
pub const REKEY_AFTER_MS: u64 = 120_000;
/// Nothing is sealed or opened with keys that are older.
pub const REJECT_AFTER_MS: u64 = 180_000;
/// A handshake is given up after so long without an answer.
pub const REKEY_ATTEMPT_MS: u64 = 90_000;
/// Between two attempts of one handshake, besides [`REKEY_JITTER_MS`].
pub const REKEY_TIMEOUT_MS: u64 = 5_000;
/// At most this is added to [`REKEY_TIMEOUT_MS`], so that two ends do not keep colliding.
pub const REKEY_JITTER_MS: u64 = 333;
/// While it is not known where a peer is, the next of its addresses is tried so soon. A guess: above
/// round trips that people bear.
pub const NEXT_ADDRESS_MS: u64 = 1_000;
/// Who received and had nothing to send answers with an empty packet after so long.
pub const KEEPALIVE_MS: u64 = 10_000;
/// Initiations of one peer that are answered are at least so far apart (20 a second).
pub const INITIATION_DISTANCE_MS: u64 = 50;
/// Whoever got a cookie shows it for so long.
pub const COOKIE_MS: u64 = 120_000;
/// Of one secret cookies are made for so long, and they are good for as long again: for
/// [`COOKIE_MS`], and for the way of two messages. WireGuard's secret lives for 120 s in all, so
/// that its last cookies are good for none of theirs.
pub const COOKIE_SECRET_MS: u64 = COOKIE_MS + 2 * REKEY_TIMEOUT_MS;

/// Packets of one key after which it is replaced. RFC 9001, appendix B.1.1, allows 2^28 packets
/// of up to 2^11 bytes under AES-GCM for an advantage of 2^-57; half of that leaves time.
pub const REKEY_AFTER_PACKETS: u64 = 1 << 27;
/// Packets of one key after which it seals no more: see [`REKEY_AFTER_PACKETS`].
pub const REJECT_AFTER_PACKETS: u64 = 1 << 28;
/// Packets that may arrive later than a newer one: at 10 Gbit/s, 9 ms of full packets.
pub const REPLAY_WINDOW: u64 = 8_192;

/// Shards of one end, at most: they have four bits of a receiver's index.
pub const SHARDS: usize = 16;
/// Peers of one gateway. A guess: hundreds of clusters are expected.
pub const PEERS: usize = 4_096;
/// Entries of the address table, of both kinds each. A guess: 1,000 leases with 110 pods fit.
pub const ADDRESSES: usize = 262_144;
/// Groups of all leases together: as many as there may be addresses, since a lease has a group where
/// it has a guest of it.
pub const GROUPS: usize = ADDRESSES;
/// Leases of one gateway. A guess: sixteen with each of a thousand clusters.
pub const LEASES: usize = 16_384;
/// Ranges of addresses of one lease: as many as a peer may name for its pods (64), and those of its
/// guests (4), in each family.
pub const RANGES: usize = 2 * 68;
/// Between two times at which leases that are over are dropped from the table.
pub const DROP_ENDED_MS: u64 = 1_000;
/// Initiations of strangers that are looked at in one second while under load, besides those that
/// carry a cookie: none. So many in a second are taken for load. A guess: a core answers some
/// 10,000 in a second.
pub const INITIATIONS_PER_SECOND: u32 = 1_000;

/// Cookies that are given in one second; as many more to addresses where peers are known to be. A
/// guess: each costs a few microseconds.
pub const COOKIES_PER_SECOND: u32 = 1_000;
/// Datagrams of handshakes that wait to be looked at, and as many more from addresses where peers
/// are known to be. A guess.
pub const HANDSHAKES: usize = 64;
/// Of these so many are looked at before packets are carried again: half a millisecond of X25519
/// at most.
pub const HANDSHAKES_A_TURN: usize = 4;

/// Under load, initiations with a cookie of one address that are looked at in one second: as
/// WireGuard's programs have it.
pub const INITIATIONS_PER_ADDRESS: u8 = 20;

/// Answers to one initiation that are not the peer's, until no more are looked at: each costs two
/// multiplications on the curve. The next initiation follows within [`REKEY_TIMEOUT_MS`]. A guess:
/// who does not see the initiation has to find its index among 2^28.
pub const FORGED_RESPONSES: u32 = 4;
/// By the secrets of so many clusters one initiation is answered, where several say that the gateway
/// is theirs: its sender takes the answer by its own secret, and looks at no more forged ones.
pub const CLAIMS: usize = FORGED_RESPONSES as usize;

/// A sealed packet is so much longer than what it carries: type, receiver, counter, tag.
pub const SEALED_BYTES: usize = 16 + 16;
/// The largest packet that IP knows.
pub const PACKET_BYTES: usize = 65_535;

/// Without a confirmed larger size, outer packets are at most so large.
pub const BASE_OUTER_BYTES: usize = 1_280;
/// The largest outer packet that is tried: Ethernet's jumbo frames.
pub const MOST_OUTER_BYTES: usize = 9_000;
/// Between two probes of one size (RFC 8899, section 5.1.1, asks for more than a second).
pub const PROBE_MS: u64 = 1_000;
/// Probes of one size without an answer, until it counts as too large (RFC 8899: 3).
pub const PROBES: u32 = 3;
/// A larger size than the confirmed one is tried anew so often, as RFC 8899 has it.
pub const PROBE_AGAIN_MS: u64 = 600_000;
/// While data is sent, the confirmed size is tried so often. A guess: with [`PROBES`] a path that
/// narrows is found out in eight seconds.
pub const CONFIRM_MS: u64 = 5_000;
/// What IPv6 asks of each link (RFC 8200, section 5): no sender is told that less passes.
pub const LEAST_INNER_BYTES: usize = 1_280;
/// What Ethernet carries, and what a pod sends until it is told of less: packets up to this size
/// always pass, over two datagrams if need be.
pub const PASSING_BYTES: usize = 1_500;
/// Between two challenges of where a peer may have gone. A guess: as between two probes.
pub const CHALLENGE_MS: u64 = PROBE_MS;
/// Where a peer may have gone is tried for so long, before another place is. A guess: three
/// challenges.
pub const CANDIDATE_MS: u64 = 3 * CHALLENGE_MS;
/// While a lease is in force, its peer is asked so often whether it is there: pods whose peer is away
/// for nine seconds stay ready, and for ten they do not.
pub const PING_MS: u64 = 400;
/// The same while it does not answer,
pub const PING_SOON_MS: u64 = 200;
/// for so long: a cut that is longer is noticed anyway.
pub const PING_SOON_FOR_MS: u64 = 30_000;
/// A peer that is asked, and that has not shown for so long that anything reaches it, is out of reach.
/// A guess: what a user waits for.
pub const LINK_DOWN_MS: u64 = 3_000;
/// A peer that is heard for so much longer than anything is known to reach it: there packets are
/// lost, and not on the way back. A guess: half of [`LINK_DOWN_MS`], and three pings.
pub const HEARD_ALONE_MS: u64 = LINK_DOWN_MS / 2;
/// Of a peer that is out of reach nothing has come for so long: nothing comes. Two initiations, since
/// there may be no session by which it could ask.
pub const HEARD_MS: u64 = 2 * (REKEY_TIMEOUT_MS + REKEY_JITTER_MS) + PROBE_MS;
/// Pings of which it is known when they were sent. A guess: those of six seconds, where one
/// goes each [`PING_SOON_MS`].
pub const PINGS: usize = 32;
/// Halves of packets that wait for their other half, in one session. A guess: datagrams of one
/// packet seldom overtake more of others.
pub const HALVES: usize = 16;

/// What waits for a session, of one lease in one shard, with its bookkeeping. A guess: what many
/// connections say first.
pub const WAITING_LEASE_BYTES: usize = 256 << 10;
/// The same, of all leases of one shard together. A guess.
pub const WAITING_BYTES: usize = 8 << 20;
/// What waits for the way out, of one lease: 20 ms at 1 Gbit/s. A guess.
pub const LEASE_QUEUE_BYTES: usize = 2 << 20;
/// The same, of all leases of one shard together. A guess.
pub const QUEUE_BYTES: usize = 32 << 20;
