//! The data path of one processor core: seals packets to peers and opens those that arrive. Each
//! shard has keys, counters and windows of its own, so that cores share nothing. Handshakes and
//! timers are the [`Endpoint`](crate::Endpoint)'s, whose effects are applied here; what a shard
//! sees of its peers is taken from it now and then, as [`Activity`].

use std::net::SocketAddr;

use hashbrown::HashMap;
use thiserror::Error;

use crate::endpoint::PeerIndex;
use crate::limits;
use crate::message::{DATA_HEADER_BYTES, Data};
use crate::seal::{OpenError, Opener, Sealer};
use crate::session_keys::SessionKeys;

/// The bits of an index that say which shard has sealed.
const SHARD_BITS: u32 = limits::SHARDS as u32 - 1;

type BuildHasher = std::hash::BuildHasherDefault<siphasher::sip::SipHasher13>;

/// The data path of one core.
pub struct Shard {
    number: u8,
    /// By our index of the session, which nobody else chooses.
    sessions: HashMap<u32, Session, BuildHasher>,
    peers: HashMap<PeerIndex, Peer, BuildHasher>,
}

struct Session {
    peer: PeerIndex,
    keys: SessionKeys,
    sealer: Sealer,
    /// By the peer's shard; made when the first packet of it comes.
    openers: [Option<Opener>; limits::SHARDS],
    /// Whether anything authentic has come by it.
    is_confirmed: bool,
}

#[derive(Default)]
struct Peer {
    /// The session that seals, by our index of it.
    sealing: Option<u32>,
    address: Option<SocketAddr>,
    activity: Activity,
}

/// What a shard saw of one peer since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// A packet that is not empty was sealed.
    pub sent_data: bool,
    /// Any packet was sealed.
    pub sent_any: bool,
    /// A packet that is not empty was opened.
    pub received_data: bool,
    /// The newest session by which something was opened, by our index.
    pub received_by: Option<u32>,
    /// Where the last authentic packet came from, if not from where we send to.
    pub moved_to: Option<SocketAddr>,
    /// There was something to send, and no key for it; or the key is nearly used up.
    pub wants_session: bool,
}

/// A packet that was opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// Who sealed it.
    pub peer: PeerIndex,
    /// What it carried; nothing in a keepalive.
    pub packet: &'a mut [u8],
}

/// Why nothing was sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShardError {
    /// There is no session with this peer yet, or no more.
    #[error("there is no session with this peer")]
    NoSession,
    /// It is not known where the peer is.
    #[error("it is not known where this peer is")]
    NoAddress,
    /// The receiver's index is of no session, or of another shard.
    #[error("a packet of no session")]
    UnknownIndex,
    /// The keys of this session are too old.
    #[error("a packet of a session that is over")]
    Expired,
    /// Its counter was seen, or is too old to tell.
    #[error("a packet that was seen before, or is too old to tell")]
    Replayed,
    /// It was not sealed with the session's key.
    #[error("a packet that was not sealed with the session's key")]
    NotAuthentic,
}

impl From<OpenError> for ShardError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Replayed => Self::Replayed,
            OpenError::NotAuthentic => Self::NotAuthentic,
        }
    }
}

impl Shard {
    /// The shard of this number, below [`limits::SHARDS`].
    pub fn new(number: u8) -> Self {
        assert!(usize::from(number) < limits::SHARDS, "an index has four bits for it");
        Self { number, sessions: HashMap::default(), peers: HashMap::default() }
    }

    /// Takes the keys of a session. It opens at once; it seals once it is
    /// [used](Shard::seal_with).
    pub fn install(&mut self, peer: PeerIndex, keys: SessionKeys) {
        let sealer = keys.sealer(self.number);
        let openers = [const { None }; limits::SHARDS];
        let session = Session { peer, sealer, openers, keys, is_confirmed: false };
        self.sessions.insert(session.keys.own_index, session);
        self.peers.entry(peer).or_default();
    }

    /// From now on packets to this peer are sealed by this session.
    pub fn seal_with(&mut self, peer: PeerIndex, own_index: u32) {
        if self.sessions.get(&own_index).is_some_and(|session| session.peer == peer) {
            self.peers.entry(peer).or_default().sealing = Some(own_index);
        }
    }

    /// Packets to this peer go there.
    pub fn set_address(&mut self, peer: PeerIndex, address: SocketAddr) {
        self.peers.entry(peer).or_default().address = Some(address);
    }

    /// Forgets a session and erases its keys.
    pub fn remove_session(&mut self, own_index: u32) {
        let Some(session) = self.sessions.remove(&own_index) else { return };
        if let Some(peer) = self.peers.get_mut(&session.peer) {
            peer.sealing = peer.sealing.filter(|sealing| *sealing != own_index);
        }
    }

    /// Forgets a peer and all sessions with it.
    pub fn remove_peer(&mut self, peer: PeerIndex) {
        self.peers.remove(&peer);
        self.sessions.retain(|_, session| session.peer != peer);
    }

    /// Whether something can be sealed for this peer now.
    pub fn can_seal(&self, mono_ms: u64, peer: PeerIndex) -> bool {
        let sealing = self.peers.get(&peer).and_then(|peer| peer.sealing);
        let session = sealing.and_then(|index| self.sessions.get(&index));
        session.is_some_and(|session| session.keys.is_good(mono_ms))
    }

    /// Seals what stands in the middle of `datagram`, after [`DATA_HEADER_BYTES`] of room in front
    /// and before the tag's 16 bytes. Says where the datagram goes to.
    ///
    /// # Errors
    /// When there is no session with the peer, or it is not known where it is. The peer then wants
    /// a session, which [`Shard::activities`] says.
    pub fn seal(
        &mut self,
        mono_ms: u64,
        peer: PeerIndex,
        datagram: &mut [u8],
    ) -> Result<SocketAddr, ShardError> {
        let entry = self.peers.entry(peer).or_default();
        let session = entry.sealing.and_then(|index| self.sessions.get_mut(&index));
        let Some(session) = session.filter(|session| session.keys.is_good(mono_ms)) else {
            entry.activity.wants_session = true;
            return Err(ShardError::NoSession);
        };
        let address = entry.address.ok_or(ShardError::NoAddress)?;
        if session.sealer.sealed() >= limits::REKEY_AFTER_PACKETS {
            entry.activity.wants_session = true;
        }
        session.sealer.seal(datagram).ok_or(ShardError::NoSession)?;
        entry.activity.sent_any = true;
        entry.activity.sent_data |= datagram.len() > limits::SEALED_BYTES;
        Ok(address)
    }

    /// Opens a sealed packet where it lies. What is not authentic changes nothing.
    ///
    /// # Errors
    /// When it is of no session of ours, too old, seen before or not authentic.
    pub fn open<'a>(
        &mut self,
        mono_ms: u64,
        from: SocketAddr,
        datagram: &'a mut [u8],
    ) -> Result<Opened<'a>, ShardError> {
        let Some((receiver, counter)) = Data::receiver_and_counter(datagram) else {
            return Err(ShardError::UnknownIndex);
        };
        let shard = (receiver & SHARD_BITS) as u8;
        let own_index = receiver & !SHARD_BITS;
        let session = self.sessions.get_mut(&own_index).ok_or(ShardError::UnknownIndex)?;
        if shard >= session.keys.peer_shards {
            return Err(ShardError::UnknownIndex);
        }
        if !session.keys.is_good(mono_ms) {
            return Err(ShardError::Expired);
        }
        let keys = &session.keys;
        let opener = session.openers[usize::from(shard)].get_or_insert_with(|| keys.opener(shard));
        let packet = opener.open(counter, &mut datagram[DATA_HEADER_BYTES..])?;
        session.is_confirmed = true;
        let peer = session.peer;
        let entry = self.peers.entry(peer).or_default();
        entry.activity.received_by = Some(own_index);
        entry.activity.received_data |= !packet.is_empty();
        if entry.address != Some(from) {
            entry.address = Some(from);
            entry.activity.moved_to = Some(from);
        }
        Ok(Opened { peer, packet })
    }

    /// What was seen of each peer since this was last called; of those of whom nothing was, nothing
    /// is said.
    pub fn activities(&mut self) -> impl Iterator<Item = (PeerIndex, Activity)> {
        let taken = |(index, peer): (&PeerIndex, &mut Peer)| {
            let activity = std::mem::take(&mut peer.activity);
            (activity != Activity::default()).then_some((*index, activity))
        };
        self.peers.iter_mut().filter_map(taken)
    }
}
