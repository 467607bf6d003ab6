//! Every bound of this crate. Those without a source are guesses.

/// Addresses of one sighting; further ones are cut off.
pub const ADDRESSES_PER_SIGHTING: usize = 8;
/// Addresses in one dial, over all sightings of a peer.
pub const ADDRESSES_PER_DIAL: usize = 16;
/// Bytes of a sighting's instance name: a DNS label has 63, a list entry may be longer.
pub const INSTANCE_BYTES: usize = 512;
/// Sightings kept of each kind of source that lists all that it sees: where there are more, a
/// random sample of them.
pub const SIGHTINGS_PER_KIND: usize = 512;
/// The same of what peers say, who are as many as a federation has providers. Up to eight
/// neighbours are chosen of them. J. Leitão et al., "HyParView: a membership protocol for reliable
/// gossip-based broadcast", 2007, keeps 30 of 10,000 besides five neighbours; the cube root of
/// 10,000, which Brahms keeps at least, is 22.
pub const SIGHTINGS_BY_PEERS: usize = 64;
/// Where there is no room, peers' own words go first that were not heard for so long: they are
/// said again every quarter of an hour.
pub const STALE_MS: u64 = 3_600_000;
/// So often they are looked for, while there are none.
pub const SWEEP_MS: u64 = 60_000;
/// Sightings by one peer's word, besides the one of itself.
pub const SIGHTINGS_PER_WITNESS: usize = 32;

/// Dials under way at one time.
pub const DIALS: usize = 8;
/// Connections that we dialled, beyond which no more are but for those to be kept: what
/// the network layer grants.
pub const OUTBOUND: usize = 32;
/// Neighbours of our own choice, dialled at once: those that strangers open, or leases need,
/// do not say alone what we hear. As many dial us, where there are many.
pub const CHOSEN: usize = 4;
/// Neighbours, whoever dialled. With fewer one more is dialled now and then. So many reach 99 %
/// of 1,000 clusters within eight round trips in the benchmark `spread`.
pub const NEIGHBOURS: usize = 8;
/// From one of those to the next, so that others have time to dial us.
pub const MORE_MS: u64 = 10_000;
/// So long a connection stays that was dialled because it was needed.
pub const LINGER_MS: u64 = 60_000;
/// So long one that broke before that is dialled again: the last word may be lost.
pub const OWED_MS: u64 = 600_000;

/// The first dial comes within this time of the sighting, so that two clusters that
/// see each other at one moment seldom dial each other at one moment.
pub const FIRST_DIAL_MS: u64 = 500;
/// The pause after the first failure; doubled by each further one.
pub const BACKOFF_MIN_MS: u64 = 1_000;
/// The longest pause between dials,
pub const BACKOFF_MAX_MS: u64 = 300_000;
/// and to a peer that a lease needs: its pods wait for the link to return.
pub const BACKOFF_MAX_KEPT_MS: u64 = 8_000;
/// A fresh sighting ends a pause, but dials to one peer keep this distance.
pub const DIAL_DISTANCE_MS: u64 = 5_000;
/// A connection that lasted so long was no failure.
pub const STABLE_MS: u64 = 30_000;
/// A dial without an answer counts as failed: several times the network's own timeout.
pub const DIAL_TIMEOUT_MS: u64 = 60_000;
/// What was neither seen nor connected for so long is forgotten; the list never is.
pub const FORGET_MS: u64 = 24 * 3_600_000;
