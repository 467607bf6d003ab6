//! What shards see of their peers, for the endpoint.

use crate::control::{Control, Ping, Probe};
use crate::via::Via;

/// What a shard saw of one peer since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// A packet that is not empty was sealed.
    pub sent_data: bool,
    /// Any packet was sealed, an empty one too.
    pub sent_any: bool,
    /// A packet that is not empty was opened.
    pub received_data: bool,
    /// A session by which something was opened, by our index: one by which nothing had come
    /// before, if there was one.
    pub received_by: Option<u32>,
    /// Where the last authentic packet came from, if not from where we send to.
    pub came_from: Option<Via>,
    /// A challenge of the peer's, the last one.
    pub challenged: Option<u64>,
    /// A challenge of ours, and where it came back from, the last one.
    pub came_back: Option<(u64, Via)>,
    /// The peer's ping that came last.
    pub pinged: Option<Ping>,
    /// The ping of ours that came back last.
    pub ping_came_back: Option<u64>,
    /// There was something to send, and no key for it; or the key is nearly used up.
    pub wants_session: bool,
    /// The peer's probe that came last.
    pub probed: Option<Probe>,
    /// The echo of ours that came last.
    pub echoed: Option<Probe>,
    /// The smallest outer packet that the own link refused as too large, in bytes.
    pub refused: Option<usize>,
}

impl Activity {
    /// Whether the endpoint is to be told at once: there is something to answer, or to begin.
    pub fn is_urgent(&self) -> bool {
        self.wants_session
            || self.probed.is_some()
            || self.echoed.is_some()
            || self.challenged.is_some()
            || self.came_back.is_some()
            || self.pinged.is_some()
            || self.ping_came_back.is_some()
    }

    /// Takes what came from there for the gateway itself. Says whether that is urgent.
    pub(crate) fn note(&mut self, control: Control, via: Via) -> bool {
        match control {
            Control::Probe(probe) => self.probed = Some(probe),
            Control::Echo(probe) => self.echoed = Some(probe),
            Control::Challenge(number) => self.challenged = Some(number),
            Control::Answer(number) => self.came_back = Some((number, via)),
            Control::Ping(ping) => self.pinged = Some(ping),
            Control::PingBack(number) => self.ping_came_back = Some(number),
            Control::Keepalive => return false,
        }
        true
    }

    /// What the peer is to be answered.
    pub(crate) fn answers(&self) -> impl Iterator<Item = Control> {
        let all = [
            self.probed.map(Control::Echo),
            self.challenged.map(Control::Answer),
            self.pinged.map(|ping| Control::PingBack(ping.number)),
        ];
        all.into_iter().flatten()
    }

    /// Adds what another shard saw, or the same one later. Of what says one thing, the last is
    /// kept; who was heard by two sessions is to be told twice, and gives what is told first.
    pub fn add(&mut self, later: Self) -> Option<Self> {
        let other = self.received_by.filter(|_| later.received_by.is_some());
        let other = other.filter(|other| Some(*other) != later.received_by);
        self.sent_data |= later.sent_data;
        self.sent_any |= later.sent_any;
        self.received_data |= later.received_data;
        self.wants_session |= later.wants_session;
        self.received_by = later.received_by.or(self.received_by);
        self.came_from = later.came_from.or(self.came_from);
        self.challenged = later.challenged.or(self.challenged);
        self.came_back = later.came_back.or(self.came_back);
        self.pinged = later.pinged.or(self.pinged);
        self.ping_came_back = later.ping_came_back.or(self.ping_came_back);
        self.probed = later.probed.or(self.probed);
        self.echoed = later.echoed.or(self.echoed);
        self.refused = [later.refused, self.refused].into_iter().flatten().min();
        other.map(|received_by| Self { received_by: Some(received_by), ..Self::default() })
    }
}
