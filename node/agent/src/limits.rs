//! Every bound of this crate; those of its parts are their own.

use mercato_protocol::bounded::Room;
pub use mercato_protocol::limits::RANGES;

// What the broker publishes, gossip takes: it says less in a row than neighbours hear, since lines
// are not equally fast.
const _: () = assert!(
    mercato_broker::limits::PUBLISH_MS >= mercato_gossip::limits::LEASE_DISTANCE_MS
        && mercato_broker::limits::PUBLISH_BURST < mercato_gossip::limits::LEASE_BURST
        && mercato_broker::limits::PUBLISH_BODY_MS >= mercato_gossip::limits::BODY_DISTANCE_MS
);

/// One record as it is kept. The largest that other bounds let be is a policy with all of its
/// lists full; what is larger in spite of all fails the input that it came of.
pub const RECORD_BYTES: usize = 512 * 1_024;
/// Guest namespaces of one lease. A guess.
pub const NAMESPACES: usize = 64;
/// The name of a namespace, in bytes: a DNS label (RFC 1123).
pub const NAMESPACE_BYTES: usize = 63;
/// A guest namespace of a lease in which there is nothing at one look, nor at the next after this
/// long, is given up: at home it is gone, or empty. Should home need it again, it is made again in
/// a second or two. A guess.
pub const EMPTY_MS: u64 = 10_000;
/// As many guest namespaces of a lease are given up at once as there can be; from then on one in
/// such a time: the cluster makes one and removes another for each, with some twenty writes. A
/// guess.
pub const GIVE_UP_MS: u64 = 2_000;
/// From one new name of a lease's guest namespaces to the next: the cluster makes one and removes
/// another for each. A guess.
pub const MOVE_MS: u64 = 5_000;
/// Ranges that are told to a peer before all others: that of this cluster's nodes, and the one address
/// of the way to its API server.
pub const FIRST_RANGES: usize = 2;
/// Blocks of this cluster's pod network with addresses of the pool: beside those as many as are told to
/// a peer.
pub const OWN_BLOCKS: usize = RANGES - FIRST_RANGES;
/// Addresses for the nodes of this cluster, as a power of two: each that pods of other clusters are
/// called from has one. A guess, and at most what a peer takes ([`PEER_RANGE_BITS`]).
pub const NODES_BITS: u8 = 8;
/// Addresses of one range that a peer says its pods are known by, as a power of two: those of the
/// blocks that this release has. With as many ranges as a peer may name, the pool has room for some
/// thirty peers.
pub const PEER_RANGE_BITS: u8 = 8;
/// Ranges in which the guests of one lease are known by their home: it has one, and another when it
/// has grown.
pub const GUEST_RANGES: usize = 4;
/// The least number of pods for which a lease's range has addresses, twice: a lease may grow, and
/// ended pods keep theirs for a while. A guess.
pub const RANGE_PODS: u64 = 128;
/// Whoever has been silent for so long, over a connection that has not ended, is not reached: as long as
/// pods have patience by default.
pub const AWAY_MS: u64 = 1_000 * mercato_offload::limits::SILENCE_S as u64;
/// How long the provider tells home how its pods ended, after the lease is over and nothing
/// of it is left. A guess: home may have been down as it ended.
pub const AFTERLIFE_MS: u64 = 24 * 3_600_000;
/// For so long after that, and after each connection, it says so again while home is silent: home
/// may have forgotten the lease, and a connection that loses words does not last. A guess.
pub const AFTERLIFE_SPEAKS_MS: u64 = 600_000;
/// Words that no peer has taken; strangers' leave first. A guess: whoever misses an answer asks
/// again.
pub const UNSAID: usize = 256;
/// The directory is told again where a provider is once in such a time, however often that renews
/// its advertisement: it remembers for a day.
pub const SIGHT_MS: u64 = 900_000;
/// Clusters whose key is known; as many, and as many strangers among them, as there are
/// publishers in gossip. Strangers are forgotten some hundred at a time, to look at all of them
/// seldom.
pub const CLUSTERS: Room = Room { all: 22_000, strangers: 2_000, leave: 500 };
/// Members of a federation: as many. A member is forgotten before one with whom there is a
/// contract, and is known again when it shows its certificate again.
pub const MEMBERS: Room = Room::of(CLUSTERS.all);
/// Clusters that a registrar has let in: as many. Those whose certificates are over leave first,
/// of them the revoked last; those whose certificates hold stay, and nobody more is let in.
pub const ISSUED: Room = Room::of(CLUSTERS.all);
/// Advertisements of one organisation's clusters at once after a quiet time, all together: each
/// of a thousand clusters once. A guess.
pub const ORGANISATION_ADS: u64 = 1_024;
/// From then on one in such a time: five thousand clusters renew theirs every five minutes.
pub const ORGANISATION_AD_MS: u64 = 60;
/// Organisations whose advertisements are counted; those of one federation that find no room are
/// counted together. A guess.
pub const ORGANISATIONS: usize = 1_024;
/// Revocation lists kept of issuers that are not known as such yet: those of strangers leave
/// first, and gossip asks for them again. A guess.
pub const EARLY_LISTS: Room = Room::of(64);
/// Those who issue a federation's certificates, by its root's word. The root, our own registrar
/// and those whose lists are here stay: without its list a certificate would hold again that was
/// revoked. A guess.
pub const ISSUERS: Room = Room::of(1_024);
/// Keys kept out for fraud. Those of strangers leave first: a stranger is not traded with in any
/// case. A guess.
pub const FRAUDS: Room = Room { all: 1_024, strangers: 0, leave: 16 };
/// Join tokens that are not spent. A guess.
pub const TOKENS: usize = 1_024;
/// Certificates of one cluster that hold at a time: it renews at half of their time.
pub const LIVE_CERTIFICATES: usize = 8;
/// How soon a renewal that was not answered is tried again: at first, and at most; the latter
/// also after a no. Guesses.
pub const RENEW_MS: std::ops::RangeInclusive<u64> = 60_000..=6 * 3_600_000;
/// How long a registrar has to answer, a dial to it included: whoever asked waits for it.
pub const JOIN_MS: u64 = 25_000;
/// From one revocation list to the end of its freshness: seven days. The next comes at half.
pub const NEXT_LIST_MS: u64 = 7 * 86_400_000;
