//! Every bound of what peers say. A message above its bound is refused before
//! anything is allocated for it. Sizes are bytes; those of what is signed are of the
//! payload.

/// A slug: pool ids, GPU models.
pub const SLUG_BYTES: usize = 32;
/// What an owner calls a cluster.
pub const NAME_BYTES: usize = 64;
/// What Kubernetes calls a namespace: a DNS label (RFC 1123).
pub const LABEL_BYTES: usize = 63;
/// What it calls most other objects: a DNS subdomain.
pub const SUBDOMAIN_BYTES: usize = 253;
/// The uid of a Kubernetes object (36 as the API server makes them).
pub const UID_BYTES: usize = 64;
/// Bytes of any text that has no bound of its own.
pub const TEXT_BYTES: usize = 1_024;
/// A note or a reason that a person writes for the other side.
pub const LINE_BYTES: usize = 512;
/// Items of one list or map, unless its own bound below is lower.
pub const LIST_ITEMS: usize = 4_096;
/// Nesting of lists and maps; ours need at most 8.
pub const DEPTH: usize = 12;
/// Unknown fields in one `ext`.
pub const EXT_FIELDS: usize = 16;

/// What a COSE_Sign1 adds to its payload, rounded up.
pub const ENVELOPE_BYTES: usize = 160;
/// An identity document, or the root document of a federation: 150 with the longest name, and
/// room for a field to come.
pub const IDENTITY_BYTES: usize = 256;
/// Identity documents after a cluster's first one, as far as others follow them.
pub const ROTATIONS: usize = 8;
/// A certificate: 140 with the longest organisation, and a dozen attributes. A cluster shows up
/// to [`CERTIFICATES`] of them to everyone it meets, so that each is small.
pub const CERTIFICATE_BYTES: usize = 640;
/// Federations that a cluster belongs to at a time.
pub const FEDERATIONS: usize = 8;
/// Certificates that a cluster shows: of each federation its own and its registrar's.
pub const CERTIFICATES: usize = CHAIN * FEDERATIONS;
/// Of a member in one federation: its own and its registrar's.
pub const CHAIN: usize = 2;
/// Successions of a federation's root that are followed. A guess.
pub const SUCCESSIONS: usize = 8;
/// The longest life of a member's certificate, in milliseconds: 30 days.
pub const MEMBERSHIP_MS: u64 = 30 * 86_400_000;
/// The longest life of a registrar's, in milliseconds: two years.
pub const REGISTRAR_MS: u64 = 730 * 86_400_000;
/// A revocation list: 4,096 serials at their longest.
pub const REVOCATIONS_BYTES: usize = 40 * 1_024;
/// The longest time to the next list, in milliseconds: 30 days.
pub const REVOCATIONS_MS: u64 = 30 * 86_400_000;
/// A join token, before it is text.
pub const TOKEN_BYTES: usize = 7 * 1_024;
/// The longest life of a join token, in milliseconds: a day.
pub const TOKEN_MS: u64 = 86_400_000;
/// A root document and the one that takes its place.
pub const SUCCESSION_BYTES: usize = 1_024;
/// A request to join: all identity documents, a secret and a federation.
pub const JOIN_BYTES: usize = 4 * 1_024;
/// The answer to one: the federation's documents, two certificates and a list.
pub const JOIN_REPLY_BYTES: usize = 52 * 1_024;
/// Who speaks: all identity documents, addresses and certificates.
pub const HELLO_BYTES: usize = 24 * 1_024;
/// Name and version of a peer's software.
pub const SOFTWARE_BYTES: usize = 256;
/// The first frame of a request stream: a hello is the largest, in the head of a choice.
pub const REQUEST_BYTES: usize = HELLO_BYTES + 8;
/// What answers one: a hello, the reply to a request to join, or nothing.
pub const RESPONSE_BYTES: usize = JOIN_REPLY_BYTES;

/// The header of an advertisement (233 with one pool that is free of charge). Its publisher leaves
/// out the pools that do not fit.
pub const AD_HEADER_BYTES: usize = 16 * 1_024;
/// The body of an advertisement: as much as a hello says of its publisher, and 10 KiB of what is
/// offered (a guess: some forty pools without GPUs). Its publisher leaves out the pools that do
/// not fit.
pub const AD_BODY_BYTES: usize = HELLO_BYTES + 10 * 1_024;
/// Pools that one advertisement may have.
pub const POOLS: usize = 64;
/// Attributes that one advertisement may have.
pub const ATTRIBUTES: usize = 64;
/// Dial addresses of one cluster: each of its addresses over TCP and QUIC. A guess.
pub const ADDRESSES: usize = 16;
/// A dial address: a multiaddress with the longest name of DNS, a port, a transport and a peer's
/// id.
pub const ADDRESS_BYTES: usize = 384;
/// How far a publisher's clock may run ahead of ours, and behind, in milliseconds.
pub const CLOCK_SKEW_MS: u64 = 30_000;
/// The longest life of the header of an advertisement, in seconds: a day.
pub const AD_TTL_S: u32 = 86_400;

/// Models of GPUs in one quantity, each with a count above zero. A guess: a node has one or two,
/// with a dozen profiles to cut them by.
pub const GPU_MODELS: usize = 32;
/// Lines of one price. A guess: one for each model of a cluster's pools, and the three others.
pub const PRICE_LINES: usize = 48;
/// Ranges of the Internet in one way out. A guess: of IPv6 they take 710 bytes of the
/// [`TEXT_BYTES`] that an extension has.
pub const EGRESS_RANGES: usize = 32;
/// A contract: as large as the bounds above let it be, and a little more.
pub const CONTRACT_BYTES: usize = 8 * 1_024;
/// Bytes of an encoded usage receipt.
pub const RECEIPT_BYTES: usize = 4 * 1_024;
/// A message of a negotiation: a signed contract, or terms with a note.
pub const NEGOTIATION_BYTES: usize = 16 * 1_024 - ENVELOPE_BYTES;

/// A gossip message (the request and response bound of the stream).
pub const GOSSIP_BYTES: usize = 256 * 1_024;
/// Marks in one announcement, ids in one pull or reconciliation message.
pub const GOSSIP_ITEMS: usize = 2_048;
/// Publications in one push, and bodies.
pub const PUSH_ITEMS: usize = 256;
/// Buckets of a reconciliation: one for each first byte of a publisher's key.
pub const BUCKETS: usize = 256;
/// How long a proof of equivocation keeps its publisher out, in milliseconds: a week.
pub const QUARANTINE_MS: u64 = 7 * 86_400_000;

/// What opens a stream of a lease: which contract it is of.
pub const OPEN_BYTES: usize = 1_024;
/// A workload message without its bodies.
pub const WORKLOAD_BYTES: usize = 256 * 1_024;
/// Statements in one workload message.
pub const FRAME_STATEMENTS: usize = 64;
/// The JSON body of one Kubernetes object (etcd's own bound is half of it), and all the
/// bodies of one workload message together.
pub const OBJECT_BYTES: usize = 3 * 1_024 * 1_024;
/// The status of one pod; a kubelet's holds 12 KiB of a pod's own words at most.
pub const STATUS_BYTES: usize = 256 * 1_024;
/// Clusters that a workload may have passed through.
pub const PATH_CLUSTERS: usize = 8;
/// A request to open a kubelet stream as `/mercato/kubelet/1` carries it, and the reply to any.
pub const STREAM_BYTES: usize = 32 * 1_024;
/// A request to open a kubelet stream as `/mercato/kubelet/2` carries it: the longest command, up to
/// five bytes before each word, and as much beside them as in the first.
pub const LONG_STREAM_BYTES: usize = COMMAND_BYTES + 5 * COMMAND_WORDS + 8 * 1_024;
/// Gateways of one cluster. A guess, as the next two are.
pub const GATEWAYS: usize = 4;
/// Addresses of one gateway: configured, of its local networks, as others see it.
pub const GATEWAY_ADDRESSES: usize = 8;
/// Ranges by which a cluster is known inside a tunnel: one of its nodes, one of the way to its API
/// server, and one for each node with pods that are called. A guess: larger clusters call by few of their nodes.
pub const RANGES: usize = 64;
/// A list of gateways: as large as the bounds above let it be, and a little more.
pub const GATEWAYS_BYTES: usize = 4 * 1_024;
/// What one cluster says to another about their tunnel, and the answer: a signed list and a hash.
pub const TUNNEL_BYTES: usize = GATEWAYS_BYTES + ENVELOPE_BYTES + 64;

/// A token of a node's account: those of Kubernetes have some 1,200 bytes.
pub const NODE_TOKEN_BYTES: usize = 8 * 1_024;
/// What a node says to the daemon of its cluster: a token, or how it is there with names that are not open.
pub const FROM_NODE_BYTES: usize = 16 * 1_024;
/// Names of one lease that are not open, and that its home is told of at a time. A guess: an application calls
/// a few Services of others.
pub const LEASE_UNOPENED: usize = 16;
/// The same of all leases on a node: some 180 bytes each.
pub const NODE_UNOPENED: usize = 4 * LEASE_UNOPENED;
/// Leases in a snapshot for a node.
pub const NODE_LEASES: usize = 1_024;
/// Ranges in it, each said once.
pub const NODE_RANGES: usize = 4_096;
/// How often leases name one, all together: as if each had as many as a cluster may have.
pub const NODE_LEASE_RANGES: usize = 64 * NODE_LEASES;
/// Pods in it, of all leases together: a kubelet runs 110 unless told otherwise.
pub const NODE_PODS: usize = 4_096;
/// Guests in it that are closed, of all leases together.
pub const NODE_GUESTS: usize = 512;
/// Addresses of Services of one lease that its closed guests reach: as many as a guest namespace
/// holds.
pub const LEASE_SERVICES: usize = 512;
/// The same in a snapshot, of all leases together.
pub const NODE_SERVICES: usize = 4_096;
/// Addresses in it of pods that are nobody's closed guests: two each of as many as a kubelet runs
/// where somebody has shown most.
pub const NODE_OTHERS: usize = 2_048;
/// Guests in it that ask for names, of all leases together: as many as pods.
pub const NODE_ASKERS: usize = 4_096;
/// Name servers that a node asks what it does not know: as many as a pod may have.
pub const NODE_SERVERS: usize = 3;
/// Networks of a cluster's own that no guest reaches by the egress of its contract, whatever that is: those of
/// its pods, Services, nodes and API servers, and what its owner leaves out.
pub const NODE_NEVER: usize = 256;
/// Ranges that the contracts of a node's guests name for egress, together.
pub const NODE_OUTSIDE: usize = 4_096;
/// What the daemon says to a node: as many ranges and pods as there may be, of IPv6; or the names
/// of one lease.
pub const TO_NODE_BYTES: usize = 1_280 * 1_024;

/// What a cluster calls itself, or a Service stands for: a name of DNS.
pub const DOMAIN_BYTES: usize = 253;
/// Of one home at a time: one, and the one before while its pods are there.
pub const NAMES_DOMAINS: usize = 4;
/// Namespaces whose names one lease has. A guess, as are the next three.
pub const NAMES_NAMESPACES: usize = 512;
/// Services in them, of all namespaces together.
pub const NAMES_SERVICES: usize = 1_024;
/// Their ports and addresses, all together.
pub const NAMES_PORTS: usize = 4_096;
/// Endpoints of those that are headless.
pub const NAMES_ENDPOINTS: usize = 4_096;
/// Guests of one lease that have a name of their own: as many as a node has.
pub const NAMES_OWN: usize = 512;
/// Ranges of pods that guests reach by other addresses than home shows: those of home and of the lease.
pub const NAMES_RANGES: usize = 2 * RANGES;
/// Parts of names that are said to have changed: of more than so many, all are said. A guess.
pub const NAMES_CHANGES: usize = 1_024;
/// Guests of which it is said whether they are told of home's API server.
pub const NAMES_GUESTS: usize = NODE_ASKERS;

/// The uid of a guest pod: Kubernetes gives them 36.
pub const GATE_UID_BYTES: usize = 64;
/// What a guest's gate asks: a uid and the end of its line.
pub const GATE_QUESTION_BYTES: usize = GATE_UID_BYTES + 1;
/// What a gate is answered: `open` or `wait`, and the end of the line.
pub const GATE_ANSWER_BYTES: usize = 5;

/// What guests use, one page of it.
pub const USAGE_BYTES: usize = 1_024 * 1_024;
/// Pods of one such page (some 100 bytes each with one container).
pub const USAGE_PODS: usize = 1_024;
/// What nodes of a lease are like: as many resources, labels and bytes of each as follow.
pub const NODE_FACTS_BYTES: usize = 20 * 1_024;
/// Resources of devices of one node; its models of GPUs are as many.
pub const NODE_RESOURCES: usize = GPU_MODELS;
/// Labels of devices of one node; discovery writes some thirty. A guess.
pub const NODE_LABELS: usize = 64;
/// The key of such a label, or the name of a resource. A guess.
pub const NODE_KEY_BYTES: usize = 128;
/// Words of a command to execute. A guess: more than people write, and scripts take as arguments.
pub const COMMAND_WORDS: usize = 1_024;
/// All the words of a command together: the longest word that Linux passes to a program
/// (`MAX_ARG_STRLEN`, 128 KiB), and some more.
pub const COMMAND_BYTES: usize = 160 * 1_024;
/// The same of `/mercato/kubelet/1`, which earlier releases speak alone.
pub const SHORT_COMMAND_WORDS: usize = 256;
/// The bytes of [`SHORT_COMMAND_WORDS`] together.
pub const SHORT_COMMAND_BYTES: usize = STREAM_BYTES - 8 * 1_024;
/// Sub-protocols offered with one upgrade; kubectl offers five.
pub const SUB_PROTOCOLS: usize = 8;
/// Ports that one port-forward may name.
pub const PORTS: usize = 32;
