//! Every bound of this crate. Those without a source are guesses.

use std::time::Duration;

/// How long a resolver may keep a name of home, and that there is none, in seconds: CoreDNS' default.
pub(crate) const TTL_S: u32 = 5;
/// The largest question. One without EDNS has 512 bytes at most (RFC 1035); names have 255.
pub(crate) const QUESTION_BYTES: usize = 1_232;
/// The largest answer by UDP: no fragment of it gets lost on the way (DNS flag day 2020).
pub(crate) const ANSWER_BYTES: u16 = 1_232;
/// The largest answer of a resolver that knows no EDNS (RFC 1035, section 4.2.1).
pub(crate) const PLAIN_ANSWER_BYTES: u16 = 512;
/// What a record takes in an answer at least, in bytes: its own name as a pointer to the question's, type,
/// class, time and length (RFC 1035, section 4.1.3). Of one with an address,
pub(crate) const ADDRESS_BYTES: usize = RECORD_BYTES + 4;
/// of one with the name of an address, which may end in a pointer,
pub(crate) const PTR_BYTES: usize = RECORD_BYTES + 4;
/// and of one with a port, whose name is written out (RFC 2782), besides that name.
pub(crate) const SRV_BYTES: usize = RECORD_BYTES + 6;
const RECORD_BYTES: usize = 12;
/// Ports of names that are looked at for one question: far more than fit into the largest answer, as several
/// slices may have the same ones.
pub(crate) const TARGETS_LOOKED_AT: usize = 8_192;
/// Names that stand for each other, one after another.
pub(crate) const ALIASES: usize = 8;
/// Bytes of questions that wait in the socket: a guest that asks fast fills no more.
pub(crate) const RECEIVE_BYTES: usize = 4 * 1_024 * 1_024;

/// How long a look-up elsewhere may take. A guest asks twice, a second each time: it hears before that
/// what has come of it.
pub(crate) const FORWARD_WAIT: Duration = Duration::from_millis(1_700);
/// Where a name server elsewhere has said nothing for so long, the next one is asked as well.
pub(crate) const FORWARD_NEXT: Duration = Duration::from_millis(300);
/// How often one question is asked elsewhere at most; and each server twice at most.
pub(crate) const FORWARD_TRIES: usize = 3;
/// How long a name server is asked last that was silent while another one answered.
pub(crate) const FORWARD_SILENT: Duration = Duration::from_secs(10);
/// The largest answer of a name server elsewhere, by TCP.
pub(crate) const FORWARD_BYTES: usize = 16 * 1_024;
/// Look-ups elsewhere that are under way at once, for all guests of a node.
pub(crate) const FORWARDS: usize = 1_024;

/// Answers from elsewhere that are kept for one lease.
pub(crate) const CACHED: usize = 256;
/// Records of one that is kept.
pub(crate) const CACHED_RECORDS: usize = 16;
/// How long one is kept at most, in seconds, and how long that there is none.
pub(crate) const CACHED_S: u32 = 300;
/// What is not there may be there a moment later.
pub(crate) const CACHED_NONE_S: u32 = 30;

/// How long it is said of a guest that it has asked for a name of a namespace that is not open. Then it may be
/// said once more.
pub(crate) const UNOPENED_AGAIN: Duration = Duration::from_secs(600);

/// Connections of all guests at once.
pub(crate) const CONNECTIONS: usize = 1_024;
/// A connection on which nothing is asked for so long is closed.
pub(crate) const CONNECTION_IDLE: Duration = Duration::from_secs(5);
/// A connection on which more is asked than may be waits so long before it is read again.
pub(crate) const TURN_AGAIN: Duration = Duration::from_millis(50);
/// Answers that wait for one that reads slowly are none: it is closed.
pub(crate) const CONNECTION_WRITE: Duration = Duration::from_secs(5);
/// After a failure to take a connection, as without file descriptors.
pub(crate) const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What one guest may ask, whatever others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Questions in a second, on average.
    pub questions_per_second: u32,
    /// Questions at once, after a pause.
    pub burst: u32,
    /// Its look-ups elsewhere that are under way at a time.
    pub forwards: usize,
    /// Its connections at a time.
    pub connections: usize,
}

impl Default for Bounds {
    /// As many questions as the node lets through in packets (`node/machine/src/packets/closed.rs`): of
    /// three hundred names in a second, each with five to try in both families. Some ask each question
    /// on a connection of its own.
    fn default() -> Self {
        Self { questions_per_second: 3_000, burst: 6_000, forwards: 256, connections: 256 }
    }
}
