//! Sealed packets: what a peer that lies may put into them, in any order, once and again, and with
//! bits changed on the way. A second reading of docs/wire.md says what comes of each.

use std::collections::{BTreeSet, VecDeque};
use std::sync::OnceLock;

use mercato_session::{
    Activity, DATA_HEADER_BYTES, DataPath, Order, Outbox, PeerIndex, Ping, Probe, SessionKeys,
    Shard, ShardError, limits,
};

use super::input::Input;
use super::noise::{self, NOW, SHARDS};

/// Halves that wait for the other one.
const HALVES: usize = 16;

/// Packets that one end seals, and what the other makes of them.
pub(crate) fn sealed(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let sealing = input.byte() % SHARDS;
    let mut pair = Pair::new(sealing);
    while !input.is_empty() {
        match input.byte() {
            0..=127 => pair.seal(&mut input),
            128..=199 => pair.open(usize::from(input.byte()), None),
            200..=239 => {
                let nth = usize::from(input.byte());
                pair.open(nth, Some((input.byte(), input.byte() | 1)));
            }
            240.. => pair.open_raw(&mut input),
        }
    }
}

/// Both ends of a session, one shard each, and what the receiving one is to have seen.
struct Pair {
    here: Shard,
    there: Shard,
    /// By which each knows the other.
    peers: [PeerIndex; 2],
    /// Contents with their datagrams; the place is the counter.
    sealed: Vec<(Vec<u8>, Vec<u8>)>,
    opened: BTreeSet<usize>,
    /// Counter of a packet's first half, which half it is, its bytes.
    halves: VecDeque<(usize, u8, Vec<u8>)>,
    activity: Activity,
}

fn keys() -> &'static [(PeerIndex, SessionKeys); 2] {
    static KEYS: OnceLock<[(PeerIndex, SessionKeys); 2]> = OnceLock::new();
    KEYS.get_or_init(|| {
        let [(mut here, peer), (mut there, _)] = [noise::gateway(0), noise::gateway(1)];
        here.connect(NOW, peer);
        let (begun, from) = (here.take_wants(), noise::peer_address());
        there.handle_datagram(NOW, from, begun.sent().unwrap()).unwrap();
        let answer = there.take_wants();
        here.handle_datagram(NOW, from, answer.sent().unwrap()).unwrap();
        [here.take_wants(), answer].map(|wants| wants.installed().unwrap())
    })
}

/// The data path of a shard with a session, and whom it is with.
pub(super) fn data_path() -> (DataPath, PeerIndex) {
    let (peer, keys) = keys()[0].clone();
    let own_index = keys.own_index();
    let (mut path, mut outbox) = (DataPath::new(0), Outbox::default());
    for order in [
        Order::Install(peer, keys),
        Order::Address(peer, noise::peer_address().into()),
        Order::SealWith(peer, own_index),
    ] {
        path.obey(NOW.mono_ms, order, &mut outbox);
    }
    (path, peer)
}

impl Pair {
    fn new(sealing: u8) -> Self {
        let [(there_is, here_keys), (here_is, there_keys)] = keys();
        let (mut here, mut there) = (Shard::new(sealing), Shard::new(0));
        here.install(*there_is, here_keys.clone());
        here.seal_with(*there_is, here_keys.own_index());
        here.set_address(*there_is, noise::peer_address());
        there.install(*here_is, there_keys.clone());
        there.set_address(*here_is, noise::peer_address());
        Self {
            here,
            there,
            peers: [*there_is, *here_is],
            sealed: Vec::new(),
            opened: BTreeSet::new(),
            halves: VecDeque::new(),
            activity: Activity::default(),
        }
    }

    fn seal(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let length = usize::from(input.byte());
        let mut content = input.take(length).to_vec();
        if choice & 0x40 != 0
            && let Some(first) = content.first_mut()
        {
            *first = [1, 2, 3, 4, 5, 7, 0x45, 0xc5][usize::from(choice & 7)];
        }
        let mut datagram = vec![0; content.len() + limits::SEALED_BYTES];
        datagram[DATA_HEADER_BYTES..][..content.len()].copy_from_slice(&content);
        let to = self.here.seal(NOW.mono_ms, self.peers[0], &mut datagram);
        assert_eq!(to, Ok(noise::peer_address().into()));
        assert_eq!(datagram[8..16], (self.sealed.len() as u64).to_le_bytes());
        self.sealed.push((content, datagram));
    }

    /// Opens one of those that were sealed, perhaps with some bits of one byte changed.
    fn open(&mut self, nth: usize, changed: Option<(u8, u8)>) {
        let Some(nth) = nth.checked_rem(self.sealed.len()) else { return };
        let (content, mut datagram) = self.sealed[nth].clone();
        if let Some((at, bits)) = changed {
            let at = usize::from(at) % datagram.len();
            datagram[at] ^= bits;
            let refused = self.there.open(NOW.mono_ms, noise::peer_address(), &mut datagram);
            assert!(refused.is_err(), "a packet that nobody sealed: {refused:?}");
        } else if self.opened.insert(nth) {
            let expected = self.read(nth, &content);
            let opened = self.there.open(NOW.mono_ms, noise::peer_address(), &mut datagram);
            let opened = opened.unwrap();
            assert_eq!((opened.peer, &*opened.packet), (self.peers[1], &expected[..]));
            self.activity.received_data |= !expected.is_empty();
        } else {
            let again = self.there.open(NOW.mono_ms, noise::peer_address(), &mut datagram);
            assert_eq!(again.err(), Some(ShardError::Replayed));
        }
        let seen = self.there.activities().next().map(|(_, seen)| seen).unwrap_or_default();
        let expected = std::mem::take(&mut self.activity);
        assert_eq!(Activity { received_by: None, ..seen }, expected);
    }

    fn open_raw(&mut self, input: &mut Input<'_>) {
        let mut datagram = input.padded(32);
        datagram[..4].copy_from_slice(&[4, 0, 0, 0]);
        if datagram[31] & 1 != 0 {
            let index = keys()[1].1.own_index() | u32::from(datagram[4] & 15);
            datagram[4..8].copy_from_slice(&index.to_le_bytes());
        }
        let refused = self.there.open(NOW.mono_ms, noise::peer_address(), &mut datagram);
        assert!(refused.is_err(), "a packet that nobody sealed");
        assert!(self.there.activities().next().is_none());
    }

    /// What comes of a content: the packet that it is or completes.
    fn read(&mut self, counter: usize, content: &[u8]) -> Vec<u8> {
        let probe = || {
            let &[_, 0, low, high, a, b, c, d] = content.get(..8)? else { return None };
            let outer_bytes = u16::from_le_bytes([low, high]);
            Some(Probe { id: u32::from_le_bytes([a, b, c, d]), outer_bytes })
        };
        let number = || {
            let [_, 0, 0, 0, number @ ..] = content.first_chunk::<12>()? else { return None };
            Some(u64::from_le_bytes(*number))
        };
        match content.first() {
            Some(1) => self.activity.probed = probe(),
            Some(2) => self.activity.echoed = probe(),
            Some(5) => self.activity.challenged = number(),
            Some(6) => {
                let via = noise::peer_address().into();
                self.activity.came_back = number().map(|number| (number, via));
            }
            Some(7) => {
                let heard = || Some(u64::from_le_bytes(*content.get(12..20)?.first_chunk()?));
                self.activity.pinged = number().map(|number| Ping { number, heard: heard() });
            }
            Some(8) => self.activity.ping_came_back = number(),
            Some(3) => return self.join(Some(counter), 3, &content[1..]),
            Some(4) => return self.join(counter.checked_sub(1), 4, &content[1..]),
            // What is no IP packet either is dropped by the address table, and counted there.
            Some(_) => return content.to_vec(),
            None => {}
        }
        Vec::new()
    }

    fn join(&mut self, first: Option<usize>, kind: u8, bytes: &[u8]) -> Vec<u8> {
        let Some(first) = first else { return Vec::new() };
        let other = self.halves.iter().position(|half| half.0 == first && half.1 != kind);
        if let Some(other) = other {
            let other = self.halves.remove(other).unwrap().2;
            return if kind == 3 { [bytes, &other].concat() } else { [&other, bytes].concat() };
        }
        if self.halves.len() == HALVES {
            self.halves.pop_front();
        }
        self.halves.push_back((first, kind, bytes.to_vec()));
        Vec::new()
    }
}
