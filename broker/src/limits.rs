//! Bounds of what is kept and time limits of what is waited for.

/// Ranges that an owner excepts from the way out that is sold. A guess.
pub const EXCEPTED_RANGES: usize = 64;
/// Providers in the order book (gossip keeps 20,000 that are known and 2,000 that are not).
pub const BOOK_PROVIDERS: usize = 22_000;
/// Offers of one answer: more than anybody looks at.
pub const CANDIDATES: usize = 200;
/// Terms that a selector may have.
pub const SELECTOR_TERMS: usize = 32;
/// Values that one term may name.
pub const SELECTOR_VALUES: usize = 64;
/// The longest selector, as it is written.
pub const SELECTOR_BYTES: usize = 4_096;
/// Rules of what is shared: a guess.
pub const RULES: usize = 64;
/// Entries of all lists of what is shared, its rules' included: a guess.
pub const SHARE_ENTRIES: usize = 4_096;
/// Products of GPUs that an owner names, and models that are sold though shared: a guess.
pub const DEVICE_WORDS: usize = 64;
/// A product of a GPU, which is the value of a label.
pub const PRODUCT_BYTES: usize = 63;
/// A taint of a node, as `key=value`: a prefix of 253 bytes, a name and a value of 63.
pub const TAINT_BYTES: usize = 253 + 1 + 63 + 1 + 63;
/// The name of a runtime class, which is a DNS subdomain.
pub const CLASS_BYTES: usize = 253;
/// A country, as a rule names it.
pub const COUNTRY_BYTES: usize = 64;
/// Namespaces that an order is for: a guess.
pub const ORDER_NAMESPACES: usize = 64;
/// Namespaces with a budget: a guess.
pub const NAMESPACES: usize = 1_024;
/// Models of GPUs that may be bought by themselves: a guess.
pub const BURST_GPUS: usize = 8;
/// Pods without room that are looked at; beyond, the youngest wait.
pub const BURST_PODS: usize = 4_096;
/// Kinds of pods without room that are told apart; beyond, the youngest wait.
pub const BURST_SHAPES: usize = 64;
/// Virtual nodes that are looked at with them: as many as there are contracts.
pub const BURST_NODES: usize = DEALS;
/// Kinds of pods of a namespace that no offer takes, and that are passed over in one look for others: a
/// guess.
pub const BURST_KINDS: usize = 8;
/// Pods that are told of one decision; the others of their kind read it there.
pub const BURST_TOLD: usize = 20;
/// Round trips that are known.
pub const ROUND_TRIPS: usize = 4_096;
/// Deals of both sides that are open, run, or wait for an answer though they are over.
pub const DEALS: usize = 4_096;
/// Closed leases that are kept whole, for what the other side may say of them yet; beyond, some are
/// archived at once: the oldest of whoever has the most.
pub const CLOSED: usize = 1_024;
/// Closed leases in the archive, a hundred a day for as long as they are kept; beyond, some are
/// forgotten: the oldest of whoever has the most.
pub const ARCHIVED: usize = 10_000;
/// Closed leases of one accepted organisation that wait for its answer, of 4,096 deals: a guess.
/// Beyond, it gets no new ones.
pub const UNANSWERED_PER_ORGANISATION: usize = 256;
/// The same of all strangers together: a guess. Beyond, the answer is not waited for: the oldest of
/// whoever has the most are archived.
pub const UNANSWERED_OF_STRANGERS: usize = 256;
/// Deals that are not over, of one accepted organisation: a guess.
pub const OPEN_PER_ORGANISATION: usize = 64;
/// Requests and holds of all strangers together, as long as no contract came of them.
pub const OPEN_OF_STRANGERS: usize = 16;
/// What is remembered of strangers whose requests came to nothing; beyond, the oldest of whoever
/// has the most are forgotten.
pub const ENDED_OF_STRANGERS: usize = 64;
/// What is remembered of all that came to nothing, negotiations and leases that were never ready;
/// beyond, the oldest of whoever has the most are forgotten.
pub const ENDED: usize = 1_024;
/// Requests that came before it was known what the cluster has; strangers' leave first. A guess:
/// that takes a moment after a start.
pub const EARLY_REQUESTS: usize = 64;
/// Negotiations that were ended before their request came; strangers' leave first. A guess: few
/// orders are taken back.
pub const WITHDRAWN: usize = 256;
/// A request that comes so long after the word that ended it is answered. A guess: longer than a
/// connection holds a word back.
pub const WITHDRAWN_MS: u64 = 300_000;
/// Names that match nothing known, and are said at once: as many as anybody reads.
pub const UNKNOWN: usize = 16;
/// The longest name, in characters, to which a near one is looked for: that of a label.
pub const SLIP_CHARS: usize = 64;
/// Orders of this cluster's own that are not contracts yet: a guess.
pub const OPEN_ORDERS: usize = 64;
/// So long nothing is ordered of a provider that would not sign what it offers, unless it is
/// asked for by name.
pub const UNFAITHFUL_MS: u64 = 3_600_000;
/// So many leases may be kept and never ready, or left unsigned until they are closed; beyond, the
/// buyer is granted nothing without its provider's owner.
pub const FORGIVEN: usize = 1;
/// So long each of them counts: a day.
pub const CARELESS_MS: u64 = 86_400_000;
/// A buyer that ends what it bought and never used has kept it if that took so long: half of the
/// time in which it is to be ready.
pub const NEVER_READY_MS: u64 = PROVISION_MS / 2;
/// Providers that are asked for firm offers in one round.
pub const ROUND: usize = 20;
/// Processors that one pod needs, in thousandths: the least that a scheduler tells apart from
/// nothing in practice, a guess.
pub const POD_CPU_MILLIS: u64 = 10;
/// Memory that one pod needs: less than this no container runtime starts anything in.
pub const POD_MEMORY_BYTES: u64 = 4 << 20;
/// Processors of one purchase, in thousandths: a million, more than any cluster has.
pub const MOST_CPU_MILLIS: u64 = 1_000_000_000;
/// Memory of one purchase: 64 PiB, more than any cluster has.
pub const MOST_MEMORY_BYTES: u64 = 1 << 56;
/// Storage of one purchase: 64 PiB, as of memory.
pub const MOST_STORAGE_BYTES: u64 = 1 << 56;
/// Words of an owner for its storage. A guess: how fast, how safe, how near.
pub const STORAGE_KINDS: usize = 8;
/// Pods, or GPUs of one model, of one purchase: more than any cluster has.
pub const MOST_COUNT: u64 = 1_000_000;
/// Changes of one lease, each a record of its own. A guess: one a day, for months.
pub const CHANGES: usize = 128;
/// Disputes that are remembered of one lease.
pub const DISPUTES: usize = 16;
/// Peers whom the owner trusted or blocked.
pub const PEERS: usize = 4_096;
/// A word to the other side.
pub const TEXT_BYTES: usize = mercato_protocol::limits::LINE_BYTES;
/// Replies kept for duplicates in one negotiation: each side has at most that many
/// messages under way that want an answer.
pub const REPLIES_KEPT: usize = 3;
/// Deadlines of one deal that may come at once: that of its stage, the end of the lease,
/// its last report, and one to spare.
pub const DEADLINES_AT_ONCE: usize = 4;
/// Numbers of advertisements that are reserved at once.
pub const SERIES_BLOCK: u64 = 256;

/// Between two changes of an advertisement, and from each of several in a row until it counts no
/// more.
pub const PUBLISH_MS: u64 = 10_000;
/// So many changes that the owner or a deal makes are said in a row: a price, a sale, and its end,
/// besides one that was said a moment before.
pub const PUBLISH_BURST: u64 = 4;
/// Between two changes of an advertisement's body that say only how much there is.
pub const PUBLISH_BODY_MS: u64 = 60_000;
/// A buyer waits so long for the first answer.
pub const REQUEST_MS: u64 = 10_000;
/// Who has not answered at all, and may have heard the request, is told so long that it is over. A
/// guess: perhaps nobody is there.
pub const UNHEARD_MS: u64 = 3_600_000;
/// So long a provider is left aside that did not sign what was to be bought by itself, at first; it
/// doubles each time.
pub const BURST_ASIDE_MS: u64 = 15_000;
/// The longest that it is left aside, and for how long a failure of its is counted.
pub const BURST_ASIDE_MOST_MS: u64 = 600_000;
/// What was bought is bought in vain if its node was ready for so long and no pod was bound to it
/// that waits. A guess: a scheduler takes no longer.
pub const BURST_VAIN_MS: u64 = 60_000;
/// So long nothing is bought again for pods for which something was bought in vain.
pub const BURST_VAIN_REST_MS: u64 = 3_600_000;
/// So long nothing is bought for a namespace whose contract was given back.
pub const BURST_IDLE_REST_MS: u64 = 60_000;
/// An extension that was not made is asked for again after this time.
pub const BURST_EXTEND_MS: u64 = 60_000;
/// Between two looks at the offers for pods that wait: they come and go all the time.
pub const BURST_LOOK_MS: u64 = 1_000;
/// The same where no offer has changed: budgets do by time alone.
pub const BURST_RETRY_MS: u64 = 10_000;
/// A provider's owner has so long to decide.
pub const REVIEW_MS: u64 = 24 * 3_600_000;
/// From the provider's signature to the last moment at which the buyer's is taken.
pub const COMMIT_MS: u64 = 30_000;
/// From the contract to the buyer's word that it can be used.
pub const PROVISION_MS: u64 = 120_000;
/// So long a firm offer that a person made is held, unless that person says otherwise: people
/// answer within hours.
pub const HOLD_MS: u64 = 4 * 3_600_000;
/// The shortest hold that a person can ask for, in seconds.
pub const HOLD_LEAST_S: u64 = COMMIT_MS / 1_000;
/// For how long at most before its end a term is known to end at home, where nothing new comes from then
/// on. A guess: what a large application needs to move, pod by pod.
pub const LEAVING_MS: u64 = 600_000;
/// What came to nothing is remembered so long, for duplicates, and a closed lease is kept whole.
pub const ENDED_KEPT_MS: u64 = 7 * 86_400_000;
/// A closed lease is kept so long, in the archive at last, for its statement: a guess.
pub const CLOSED_KEPT_MS: u64 = 90 * 86_400_000;
/// A window counts as so long at least while reports stay unsigned, however short a provider has made
/// it: six are longer than a link is away by chance.
pub const UNSIGNED_WINDOW_MS: u64 = 60_000;
/// Windows without a signed receipt until the lease is suspended.
pub const UNSIGNED_SUSPENDS: u64 = 3;
/// Windows without a signed receipt until the lease is closed.
pub const UNSIGNED_CLOSES: u64 = 6;
/// The first wait before something is said again; it doubles from time to time.
pub const RESEND_MS: u64 = 1_000;
/// The longest wait before something is said again.
pub const RESEND_MOST_MS: u64 = 60_000;
/// The shortest term on offer, in seconds.
pub const MIN_TERM_S: u64 = 60;
