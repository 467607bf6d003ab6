//! Every bound of the daemon. Those without a source are guesses.

mod page;
mod resources;

use std::time::Duration;

use mercato_protocol::bounded::Room;

pub(crate) use page::*;
pub(crate) use resources::*;

/// A file of a state, all of it: far above what is kept.
pub(crate) const STATE_BYTES: u64 = 1 << 30;
/// A file that a person names and that is read whole: a configuration, the root key of a federation.
pub(crate) const CONFIG_BYTES: u64 = 1 << 20;
/// One part of a record; sled is slow and fragile with larger values.
pub(crate) const PART_BYTES: usize = 32 << 10;
/// Files that this program has open at most, as in `config/deploy/mercato.service`: a guess.
pub(crate) const FILES: u64 = 65_536;
/// What sled keeps in memory.
pub(crate) const STORE_CACHE_BYTES: u64 = 8 << 20;
/// A write that takes longer has failed.
pub(crate) const STORE_WRITE: Duration = Duration::from_secs(10);
/// How often the lock of records that another holds is looked at, and how long between.
pub(crate) const STORE_LOCK_LOOKS: u32 = 50;
/// How long there is between two looks: [`STORE_LOCK_LOOKS`].
pub(crate) const STORE_LOCK_LOOK: Duration = Duration::from_millis(20);
/// A peer that had no answer about the tunnel is asked again after this time, then after twice as
/// long each time,
pub(crate) const TUNNEL_RETRY_MS: u64 = 1_000;
/// up to this. Who has a reason to answer otherwise asks by itself.
pub(crate) const TUNNEL_RETRY_MOST_MS: u64 = 60_000;
/// Questions of peers about the tunnel that wait for the gateway's task; more are refused.
pub(crate) const TUNNEL_ASKS: usize = 64;
/// Addresses of one lease's guests that are known to be gone. A guess: a rolling update gives up hundreds.
pub(crate) const GONE_GUESTS: usize = 1_024;
/// So long after the last guest of a namespace has gone this cluster's pods of it are reached by the
/// tunnel yet, and hear of that. A guess: TCP says again what was lost after 0.2 s, 0.4 s, and so on.
pub(crate) const GONE_LATELY: Duration = Duration::from_secs(5);
/// A peer's list of gateways is taken once in this time at most; of those that come meanwhile the last
/// counts. Of each 64 ranges may be other ones: records on disk, routes and rules of this machine, of
/// each node and of each guest, which take 0.7 ms. Less than half of what a pod waits for a tunnel
/// ([`TUNNEL_WAIT`]), whose range may be in the next list.
pub(crate) const TUNNEL_LISTS: Duration = Duration::from_secs(2);
/// Answers, links and lists of pods that wait for it; whoever tells more waits.
pub(crate) const TUNNEL_EVENTS: usize = 64;
/// Of the tunnel's device, and of the overlay at most. What a way does not take whole goes in halves.
pub(crate) const TUNNEL_MTU: usize = mercato_session::limits::PASSING_BYTES;
/// The largest packet that is tried in one datagram between gateways: with IPv4 and seal 1,480 bytes.
pub(crate) const TUNNEL_DATAGRAM: usize = 1_420;
/// How long a pod waits for a tunnel that may come up. A guess: two round trips and a disk.
pub(crate) const TUNNEL_WAIT: Duration = Duration::from_secs(5);
/// How soon a gateway that ended is started again.
pub(crate) const TUNNEL_AGAIN: Duration = Duration::from_secs(5);
/// How soon it is looked at again why no gateway can run here, and how soon a peer's other reason
/// is told.
pub(crate) const TUNNEL_PROBE: Duration = Duration::from_secs(10);
/// How long a link is down before that is told: a daemon that is started again is back before.
pub(crate) const TUNNEL_DOWN: Duration = Duration::from_secs(10);
/// How long the gateway has for a change of its addresses, which is a matter of milliseconds.
pub(crate) const TUNNEL_APPLY: Duration = Duration::from_secs(5);
/// How long it has to tell what it knows.
pub(crate) const TUNNEL_ANSWER: Duration = Duration::from_secs(1);
/// How often its task looks for what time alone changes, with a lease and without.
pub(crate) const TUNNEL_LOOK: Duration = Duration::from_millis(500);
/// The same while there is no lease.
pub(crate) const TUNNEL_IDLE: Duration = Duration::from_secs(60);
/// How long a node has to shake hands, and then to say who it is.
pub(crate) const NODE_HELLO: Duration = Duration::from_secs(5);
/// How long the API server has to say whose a token is.
pub(crate) const NODE_REVIEW: Duration = Duration::from_secs(10);
/// Connections whose tokens nobody has vouched for yet. A guess: all nodes of a cluster come back
/// within seconds after a start, and each tries again.
pub(crate) const NODE_STRANGERS: usize = 64;
/// Tokens that the API server is asked about at once; the others wait.
pub(crate) const NODE_REVIEWS: usize = 4;
/// After so long a connection ends, and the next one's token is looked at: that of a pod holds for
/// an hour.
pub(crate) const NODE_CONNECTION: Duration = Duration::from_secs(3_600);
/// Who says nothing for so long is gone: three times what lies between two words.
pub(crate) const NODE_SILENCE: Duration = Duration::from_secs(15);
/// New guests wait so long at most until it is known where they are told names: a pod has its name
/// server for life.
pub(crate) const NAMES_WAIT: Duration = Duration::from_secs(5);
/// Where names cannot be told yet, that is tried again after so long.
pub(crate) const NAMES_AGAIN: Duration = Duration::from_millis(500);
/// The port of name servers (RFC 1035, section 4.2).
pub(crate) const NAMES_PORT: u16 = 53;
/// After a start, nodes that are not there yet are waited for so long: each tries again within five
/// seconds.
pub(crate) const NODE_GATHER: Duration = Duration::from_secs(10);
/// How long a node that was added is waited for before others lose by what it lacks: its programs may
/// still be fetched.
pub(crate) const NODE_AWAITED: Duration = Duration::from_secs(60);
/// How soon it is accepted again after a failure.
pub(crate) const NODE_ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Addresses that are looked at for a node, as a power of two.
pub(crate) const NODE_BITS: u32 = 16;
/// Questions of gates that wait for the task which closes guests.
pub(crate) const GATE_ASKS: usize = 64;
/// Those that wait there of one pod, with the one that is heard: a gate has one at a time.
pub(crate) const GATE_ASKS_OF_POD: usize = 2;
/// From one question of a pod to its next one, at least, where it was to wait: a gate takes 20 ms.
pub(crate) const GATE_PACE: Duration = Duration::from_millis(10);
/// Those of whom it is not known yet whether they are pods of this machine.
pub(crate) const GATE_STRANGERS: usize = 32;
/// For them all network namespaces are looked at so often at most: 1 ms with two hundred pods.
pub(crate) const GATE_LOOK: Duration = Duration::from_millis(50);
/// So long after it could not be had, the port of gates is tried again.
pub(crate) const GATE_BIND: Duration = Duration::from_secs(5);
/// Who asks for a guest has so long, from the connection to the answer.
pub(crate) const GATE_TIME: Duration = Duration::from_secs(5);
/// After an answer it has so long to hang up, before the address of its pod is another one.
pub(crate) const GATE_CLOSES: Duration = Duration::from_millis(100);
/// Changes of the Services of a lease are gathered for so long before its guests' rules change again.
pub(crate) const SERVICES_GATHER: Duration = Duration::from_secs(1);
/// Guests that are kept closed on one node: as many as its rules have.
pub(crate) const CLOSED: usize = 512;
/// Each guest is looked at so often, and made good what somebody has changed.
pub(crate) const CLOSE_LOOK: Duration = Duration::from_secs(5);
/// For so long it is told that a guest was found open, which is closed by then: a guess, long enough for a
/// person to see.
pub(crate) const FOUND_OPEN: Duration = Duration::from_secs(60);
/// It is tried so often whether anybody can be closed.
pub(crate) const CLOSE_TRY: Duration = Duration::from_secs(60);
/// It is looked so often whether packet rules have changed, by which what guests send may be dropped; and
/// tried again where it is. Soon enough that one try in vain does not count ([`NODE_AWAY`]).
pub(crate) const FORWARD_LOOK: Duration = Duration::from_secs(2);
/// How often an event of a node is tried to be written, and how long after each time: it is of some
/// use for a minute.
pub(crate) const NODE_EVENT_TRIES: usize = 12;
pub(crate) const NODE_EVENT_AGAIN: Duration = Duration::from_secs(5);
/// Connections of one guest elsewhere to this cluster's API server at a time: client libraries have one
/// or two, and controllers with older protocols some for each kind that they watch. A guess,
pub(crate) const API_OF_GUEST: usize = 64;
/// as are those of all; guests in one cluster have half of them at most. Each has two sockets and two
/// buffers.
pub(crate) const API_CONNECTIONS: usize = 1_024;
/// Bytes of a buffer, of which each connection has one each way: a record of TLS.
pub(crate) const API_BUFFER: usize = 16 * 1_024;
/// Guests that may call at a time: as many as the machine's rules name. No others do.
pub(crate) const API_CALLERS: usize = 4_096;
/// The port of HTTPS, which everybody knows API servers by.
pub(crate) const API_PORT: u16 = 443;
/// How long an API server has to take a connection, before the next one is tried.
pub(crate) const API_DIAL: Duration = Duration::from_secs(2);
/// How long it is tried after the others, where it did not.
pub(crate) const API_RESTS: Duration = Duration::from_secs(10);
/// How long it is taken for true where API servers are,
pub(crate) const API_SERVERS_FRESH: Duration = Duration::from_secs(10);
/// and how long they have to say so.
pub(crate) const API_SERVERS_ANSWER: Duration = Duration::from_secs(2);
/// A connection on which nothing is said, as one that watches, is asked after so long whether its other
/// end is still there, again after each of these pauses, and given up after so many. There is no other
/// bound on silence.
pub(crate) const API_ALIVE: Duration = Duration::from_secs(60);
pub(crate) const API_ALIVE_AGAIN: Duration = Duration::from_secs(15);
pub(crate) const API_ALIVE_TRIES: u32 = 4;
/// How long one side may still speak once the other has said its last.
pub(crate) const API_HALF_CLOSED: Duration = Duration::from_secs(600);
/// After a failure to take a connection, as without file descriptors.
pub(crate) const API_ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How often people are told of one node whose packet rules somebody else changes.
pub(crate) const MENDED_AGAIN: Duration = Duration::from_secs(60);
/// How often people are told of one node that something of leases is not told to it.
pub(crate) const UNTOLD_AGAIN: Duration = Duration::from_secs(60);
/// A node that closes guests may be away for so long before it counts as one that does not: its
/// process starts again, or its connection ends to be looked at anew.
pub(crate) const NODE_AWAY: Duration = Duration::from_secs(5);
/// Nodes have so long to hear that they need nothing any more.
pub(crate) const NODE_DISMISS: Duration = Duration::from_secs(10);
/// How often it is said again where the daemon is: whoever has removed that is made good for.
pub(crate) const NODE_TELL: Duration = Duration::from_secs(300);
/// Between two attempts to write again.
pub(crate) const STORE_RETRY_MS: u64 = 10_000;

/// Inputs that wait for the agent; whoever brings more waits.
pub(crate) const INPUTS: usize = 1_024;
/// Inputs that are answered, and written, as one group.
pub(crate) const GROUP: usize = 128;
/// Rules by jurisdiction that cover nobody are looked for so often.
pub(crate) const RULES_MS: u64 = 600_000;
/// The driver looks at the clocks at least so often: a wall clock may be set.
pub(crate) const IDLE_MS: u64 = 60_000;
/// Notices that a slow listener may be behind.
pub(crate) const NOTICES: usize = 256;
/// Sightings that an agent which is rebuilt is told again.
pub(crate) const SIGHTINGS: usize = 1_024;
/// Messages of peers who are known that are opened at one time,
pub(crate) const OPENERS: usize = 8;
/// and of strangers, all together.
pub(crate) const STRANGERS_OPENERS: usize = 2;
/// Messages of one peer whose signatures are checked at a time, or wait for that with others'.
pub(crate) const WORDS: usize = 2;
/// Bytes of gossip that one peer who is known may say at once, and then each second: it may bring
/// all that a large federation holds.
pub(crate) const GOSSIP_OF_KNOWN: (u64, u64) = (64 << 20, 1 << 20);
/// The same of a stranger.
pub(crate) const GOSSIP_OF_STRANGER: (u64, u64) = (8 << 20, 128 << 10);
/// Requests of one peer who is known at once, and then each second.
pub(crate) const REQUESTS_OF_KNOWN: (u64, u64) = (256, 64);
/// The same of a stranger.
pub(crate) const REQUESTS_OF_STRANGER: (u64, u64) = (64, 4);
/// A peer that says so much more than it may that it would have to wait longer is hung up on. One
/// that waits for its turn, as the network makes it, never owes as much.
pub(crate) const DEBT: Duration = Duration::from_secs(10);
/// Peers for whom that is remembered, those who are known the longest.
pub(crate) const SPEAKERS: Room = Room { all: 4_096, strangers: 1_024, leave: 64 };
/// Messages that came before their peer's hello, of strangers and of others each,
pub(crate) const EARLY: usize = 32;
/// wait for it so long.
pub(crate) const HELLO_WAIT: Duration = Duration::from_secs(1);
/// A word in a negotiation that was not taken is said again after this long, then after twice as
/// long,
pub(crate) const SAY_AGAIN: Duration = Duration::from_millis(50);
/// and so often in all, for some twelve seconds.
pub(crate) const SAYINGS: u32 = 8;

/// Work that waits for a lease's task. Its session keeps one write for each item under
/// way, so that no more than its items and a few questions ever wait.
pub(crate) const WORK: usize =
    4 * (mercato_offload::limits::PODS + mercato_offload::limits::OBJECTS);
/// Workload frames that wait for a slow peer.
pub(crate) const FRAMES: usize = 256;
/// A stream of a lease of which nothing is left in this cluster ends after so long without a
/// frame. A guess: an answer to what the other side asks comes at once.
pub(crate) const OVER_RESTS: Duration = Duration::from_secs(5);
/// A stream of a lease that is not known yet waits for it so long.
pub(crate) const LEASE_WAIT: Duration = Duration::from_secs(5);
/// Statements of a lease's other party that are taken at once: all that it may ever hold,
pub(crate) const STATEMENTS: u64 =
    (mercato_offload::limits::PODS + mercato_offload::limits::OBJECTS) as u64;
/// and then so many a second: each may be a write to the API server. A guess.
pub(crate) const STATEMENTS_EACH_S: u64 = 500;
/// Breaches of the rules that use up as much.
pub(crate) const BREACHES: u64 = 8;
/// Bytes of bodies that are taken at once: all that a lease may have here,
pub(crate) const BODY_BYTES: u64 = mercato_kubelet::limits::BODIES as u64;
/// and then so many a second: etcd keeps what is overwritten for five minutes, and holds
/// 2 GiB.
pub(crate) const BODY_BYTES_EACH_S: u64 = 512 << 10;
/// A stream of a lease whose party owes more than is paid in this time ends: a multiple of what
/// the largest frame costs, after which it waits.
pub(crate) const LEASE_DEBT: Duration = Duration::from_secs(60);
/// Kubelet streams that a lease's consumer may open at once,
pub(crate) const ASKS: u64 = 256;
/// and then so many a second. A guess.
pub(crate) const ASKS_EACH_S: u64 = 32;
/// Inbound streams of a peer, for each lease with it: two of workload and their
/// successors, the rest for
/// `kubectl logs` and its like.
pub(crate) const STREAMS_PER_LEASE: usize = 64;

/// A step in a cluster that failed is tried again after this long, then twice as long, up
/// to [`CLUSTER_RETRY_MAX`].
pub(crate) const CLUSTER_RETRY: Duration = Duration::from_secs(1);
/// The longest wait between two tries.
pub(crate) const CLUSTER_RETRY_MAX: Duration = Duration::from_secs(30);
/// Between two looks whether the cluster answers,
pub(crate) const CLUSTER_LOOK: Duration = Duration::from_secs(10);
/// and whether rights that were missing have been granted.
pub(crate) const RIGHTS_LOOK: Duration = Duration::from_secs(60);
/// Objects that were put back of which `status` and `doctor` say so by name.
pub(crate) const PUT_BACK_LINES: usize = 8;
/// Between two looks at the logins for the image of gates: a guess, below the hours that a short-lived one
/// holds.
pub(crate) const LOGIN_LOOK: Duration = Duration::from_secs(60);
/// Between two looks at what is being removed, at first; doubled up to [`DRAIN_LOOK_MAX`].
pub(crate) const DRAIN_LOOK: Duration = Duration::from_millis(500);
/// The longest wait between two looks at what is being removed.
pub(crate) const DRAIN_LOOK_MAX: Duration = Duration::from_secs(5);
/// Between two looks what the nodes are like on which guests of a lease run,
pub(crate) const FACTS_LOOK: Duration = Duration::from_secs(15);
/// and before the provider is asked once more that did not say.
pub(crate) const FACTS_RETRY: Duration = Duration::from_secs(5);
/// A namespace's rights and the webhook take a moment after it was opted in or out.
pub(crate) const OPT_IN: Duration = Duration::from_secs(15);
/// The port of the first virtual node's kubelet API, next to a kubelet's own; the
/// following ones are for the others.
pub(crate) const KUBELET_PORT: u16 = 10_350;
/// Leases that can be shown at home at a time.
pub(crate) const KUBELET_PORTS: u16 = 1_000;

/// Ports are looked for so often before the local network is told of them,
pub(crate) const LISTEN_LOOKS: u32 = 100;
/// and there is so long between two looks.
pub(crate) const LISTEN_LOOK: Duration = Duration::from_millis(20);

/// Name and version of this program, as peers are told.
pub(crate) const SOFTWARE: &str = concat!("mercato/", env!("CARGO_PKG_VERSION"));
/// A request of the admin API; a share policy that names many clusters is the largest.
pub(crate) const ADMIN_REQUEST_BYTES: usize = 256 << 10;
/// An answer of the admin API; a full order book is the largest.
pub(crate) const ADMIN_ANSWER_BYTES: usize = 64 << 20;
/// Requests of the admin API that are answered at once.
pub(crate) const ADMIN_REQUESTS: usize = 32;
/// Those of one user from a desk: one for each of a few windows.
pub(crate) const ADMIN_OF_USER: usize = 8;
/// Those from a desk besides, of users who were allowed nothing lately: until it is known what they
/// may.
pub(crate) const ADMIN_STRANGERS: usize = 8;
/// For so long it counts that a user from a desk was allowed something,
pub(crate) const ADMIN_ALLOWED: Duration = Duration::from_secs(3_600);
/// and for so many users: the one who was allowed something longest ago is forgotten first.
pub(crate) const ADMIN_USERS: usize = 1_024;
/// How long a request from a desk may take to arrive, and an answer to be taken.
pub(crate) const ADMIN_ARRIVES: Duration = Duration::from_secs(5);
pub(crate) const ADMIN_TAKEN: Duration = Duration::from_secs(30);
/// How much of an answer is handed on before it is asked for more.
pub(crate) const ADMIN_CHUNK: usize = 16 << 10;
/// Between two tries to open the admin socket where nothing can be written.
pub(crate) const ADMIN_RETRY: Duration = Duration::from_secs(2);
/// Between two tries to tell people how the admin API is known.
pub(crate) const ADMIN_TELL_AGAIN: Duration = Duration::from_secs(10);
/// A driver that has not answered for so long is not alive.
pub(crate) const ALIVE: Duration = Duration::from_secs(10);
/// Connections for health and metrics at a time,
pub(crate) const HEALTH_CONNECTIONS: usize = 32;
/// how long each has to ask,
pub(crate) const HEALTH_HEADERS: Duration = Duration::from_secs(10);
/// and the pause where none can be accepted.
pub(crate) const HEALTH_PAUSE: Duration = Duration::from_millis(100);
/// A registrar that was dialled just now is asked so often,
pub(crate) const JOIN_TRIES: u32 = 5;
/// with a pause of this length between two tries.
pub(crate) const JOIN_PAUSE: Duration = Duration::from_millis(500);
/// A registrar is reminded so long before its certificate ends: the root key has to be fetched.
pub(crate) const ENDING_MS: u64 = 60 * 86_400_000;
/// Clusters of which it is remembered what people were told: more than a neighbourhood has.
pub(crate) const TOLD: usize = 4_096;
/// What went wrong with an order, a change or a contract needs attention for so long: a day.
pub(crate) const ATTENTION_MS: u64 = 86_400_000;
/// So many orders and contracts are named among what needs attention; the rest are counted.
pub(crate) const ATTENTION_DEALS: usize = 8;
/// A contract is about to end in the last tenth of its term,
pub(crate) const ENDS_PART: u64 = 10;
/// or in its last hour, if that is shorter.
pub(crate) const ENDS_SOON_MS: u64 = 3_600_000;
/// A node that is not Ready this long before its provider gives up needs attention.
pub(crate) const NODE_SLOW_MS: u64 = 90_000;
/// A budget of which no more than this part is left is used up: a fiftieth.
pub(crate) const BUDGET_PART: u64 = 50;
/// A member's certificate that is not renewed so long before its end needs attention: the
/// registrar was to renew it when a third of its life was left.
pub(crate) const MEMBERSHIP_ENDING_MS: u64 = 3 * 86_400_000;
/// From the answer that a daemon starts again to that start.
pub(crate) const RESTART: Duration = Duration::from_millis(200);
/// Between two looks whether it has.
pub(crate) const RESTART_LOOK: Duration = Duration::from_millis(100);
/// How many events `mercato events` remembers.
pub(crate) const EVENTS: usize = 1_024;

/// Between two looks at where the peers with leases are met.
pub(crate) const PARTNERS_LOOK: Duration = Duration::from_secs(5);
/// Peers of whom that is kept: a guess, four times as many as ever had leases with one cluster in
/// the simulation.
pub(crate) const PARTNERS: usize = 4_096;

/// How long a gate has to reach its node, which is the machine that it runs on.
pub(crate) const GATE_CONNECT: Duration = Duration::from_secs(1);
/// How long it waits for an answer; a node answers each question at once, or hangs up.
pub(crate) const GATE_ANSWER: Duration = Duration::from_secs(2);
/// So many times it asks again so soon, since most nodes are ready within that,
pub(crate) const GATE_EAGER: u32 = 10;
/// (the time between two questions,)
pub(crate) const GATE_SOON: Duration = Duration::from_millis(20);
/// and after that so often.
pub(crate) const GATE_AGAIN: Duration = Duration::from_millis(50);
/// So often it says what it waits for.
pub(crate) const GATE_SAYS: Duration = Duration::from_secs(10);

/// A node that does not reach its daemon tries again after this time, then after twice as long
/// each time: a daemon that is started again carries nothing before its nodes are back,
pub(crate) const FOLLOW_RETRY: Duration = Duration::from_millis(250);
/// up to this; so it does where it was refused.
pub(crate) const FOLLOW_RETRY_MOST: Duration = Duration::from_secs(2);
/// How long a node has to reach one address of its daemon, with TLS.
pub(crate) const FOLLOW_CONNECT: Duration = Duration::from_secs(5);
/// A node says its state so often though nothing has changed (docs/wire.md, "Nodes").
pub(crate) const FOLLOW_STATE: Duration = Duration::from_secs(5);
/// Who hears nothing for so long hangs up (the same page).
pub(crate) const FOLLOW_SILENCE: Duration = Duration::from_secs(15);
/// Between two looks whether all is still there that a node has set up: others flush what is not
/// theirs.
pub(crate) const FOLLOW_LOOK: Duration = Duration::from_secs(5);
/// What an earlier process of a node has set up stays for so long while its daemon is sought: a
/// guess, longer than a daemon takes to start.
pub(crate) const FOLLOW_EARLIER_MS: u64 = 60_000;
/// After the end of the last lease by a node's own clock what it has set up refuses for so long,
/// and then goes.
pub(crate) const FOLLOW_ENDED_MS: u64 = 60_000;
/// Bytes of a file that names the daemon, or has its certificate: each has far fewer.
pub(crate) const FOLLOW_FILE: usize = 64 << 10;
/// Characters that are shown of what should have been an address.
pub(crate) const FOLLOW_SHOWN: usize = 64;
