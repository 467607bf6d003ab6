//! Every bound and time of this crate. Those without a source are guesses.

use mercato_protocol::bounded::Room;

/// Announcements to one neighbour are at least so far apart; the first goes at once. With 100, a
/// busy federation sends a tenth more marks and half as many messages again; see the benchmarks.
pub const ANNOUNCE_MS: u64 = 150;
/// What a neighbour is yet to be told has room for so many at any time.
pub const UNTOLD_ROOM: usize = 256;
/// What ends something is pushed unasked up to this size; a larger one is announced.
pub const URGENT_BYTES: usize = 2_048;
/// Between two reconciliations that we open with a random neighbour.
pub const RECONCILE_MS: u64 = 30_000;
/// What is younger is still on its way, and stays out of a reconciliation: what was issued in
/// the last one to two of these.
pub const SETTLED_MS: u64 = 10_000;
/// One neighbour's reconciliations are answered no more often.
pub const ANSWER_ROOT_MS: u64 = 5_000;

/// One publication of a publisher is taken in such a time: a provider refreshes its header
/// no more often.
pub const LEASE_DISTANCE_MS: u64 = 10_000;
/// So many at once after a quiet time: an owner sets a price, sells, and takes back. One more than
/// a provider says in a row, since what it says comes through lines of which some are slower.
pub const LEASE_BURST: u64 = 5;
/// Bodies of a publisher that change are taken once in such a time.
pub const BODY_DISTANCE_MS: u64 = 60_000;
/// So many at the distance of headers after a quiet time: a cluster that starts, and one whose
/// owner tries things, changes its offer a few times in a row.
pub const BODY_BURST: u64 = 4;

/// An unknown publisher that is new is taken from a neighbour once in such a time. It cut
/// a flood of 30,100 valid identities to 460.
pub const LANE_MS: u64 = 1_000;
/// So many at once after a quiet time.
pub const LANE_BURST: u64 = 20;

/// A neighbour that pulled nothing of so many marks hears them sooner from others.
pub const UNPULLED: usize = 8;
/// So many of those, on average, drawn anew with each reconciliation, are told all the same:
/// one whose other neighbours stop telling it hears of everything from as many.
pub const TOLD_LATER: u32 = 4;
/// They are told so late, in one message: most will have said that they hold it.
pub const LATER_MS: std::ops::RangeInclusive<u64> = 3_000..=5_000;
/// For so long after a neighbour has come nobody counts as one that others tell sooner: halves
/// of a network that come together are one again by then.
pub const UNSETTLED_MS: u64 = 10_000;

/// Publishers that are known, by what the application says: trusted, bound by contract, or
/// certified. It names no more, partners first; beside them each neighbour is known.
pub const KNOWN_PUBLISHERS: usize = 20_000;
/// Other publishers kept. Where there are more, those leave first whose word is over, then those
/// that have said nothing for the longest time; none of them takes the place of one that is known.
pub const UNKNOWN_PUBLISHERS: usize = 2_000;
/// So many of them leave together: to find them all are looked at.
pub const UNKNOWN_LEAVE: usize = 50;
/// Neighbours. Of those who are connected the application chooses whom, strangers last.
pub const NEIGHBOURS: usize = 128;
/// Fetches that begin with what one neighbour advertised first.
pub const FETCHES_PER_NEIGHBOUR: usize = 2_048;
/// Publishers asked of one neighbour at a time: 4 MiB, were all bodies of the largest.
pub const ASKED_OF_NEIGHBOUR: usize = 256;

/// The wait for an answer before the next neighbour is asked, while nothing is measured.
pub const FIRST_PATIENCE_MS: u64 = 1_000;
/// The shortest wait, and the longest, before it is rounded up.
pub const PATIENCE_MS: std::ops::RangeInclusive<u64> = 300..=5_000;
/// Waits end at multiples of this, so that there are few times to keep and to wake up at.
pub const PATIENCE_STEP_MS: u64 = 50;

/// What a publication counts against its neighbour that is forged.
pub const FORGED_POINTS: u64 = 40;
/// The same of one that the application rejects.
pub const REJECTED_POINTS: u64 = 20;
/// The same of an announcement that nothing came of.
pub const EMPTY_POINTS: u64 = 1;
/// A neighbour with so many points is banned.
pub const BAN_POINTS: u64 = 100;
/// One point is forgiven in such a time.
pub const FORGIVE_MS: u64 = 10_000;
/// For how long one is banned.
pub const BAN_MS: u64 = 600_000;
/// Banned neighbours remembered; whose time ends first leaves first.
pub const BANNED: Room = Room::of(1_024);
