//! The data path of one processor core: seals packets to peers and opens those that arrive. Each
//! shard has keys, counters and windows of its own, so that cores share nothing. Handshakes and
//! timers are the endpoint's, whose effects a carrier brings here; what a shard
//! sees of its peers is taken from it now and then, as [`Activity`].

mod error;
mod opened;

use std::net::SocketAddr;

use hashbrown::HashMap;

use crate::activity::Activity;
use crate::control::{Content, Control};
use crate::halves::Halves;
use crate::limits;
use crate::message::{DATA_HEADER_BYTES, Data, SHARD_BITS};
use crate::number_hash::BuildNumberHasher;
use crate::path_mtu::Path;
use crate::peer_index::PeerIndex;
use crate::room::{Room, outer_headers};
use crate::seal::{Opener, Sealer};
use crate::session_keys::SessionKeys;
use crate::via::Via;

pub use self::error::ShardError;
pub use self::opened::Opened;

/// The data path of one core.
pub struct Shard {
    number: u8,
    /// By our index of the session, which nobody else chooses.
    sessions: HashMap<u32, Session, BuildNumberHasher>,
    peers: HashMap<PeerIndex, Peer, BuildNumberHasher>,
    /// The packet that was last put together of two halves.
    joined: Vec<u8>,
    /// Whether something came that is to be answered at once.
    is_asked: bool,
}

struct Session {
    peer: PeerIndex,
    keys: SessionKeys,
    sealer: Sealer,
    /// By the peer's shard; made when the first packet of it comes.
    openers: [Option<Opener>; limits::SHARDS],
    halves: Halves,
    /// Whether anything authentic has come by it.
    is_confirmed: bool,
}

#[derive(Default)]
struct Peer {
    /// The session that seals, by our index of it.
    sealing: Option<u32>,
    via: Option<Via>,
    path: Path,
    activity: Activity,
}

impl Shard {
    /// The shard of this number, below [`limits::SHARDS`].
    pub fn new(number: u8) -> Self {
        assert!(usize::from(number) < limits::SHARDS, "an index has four bits for it");
        Self {
            number,
            sessions: HashMap::default(),
            peers: HashMap::default(),
            joined: Vec::new(),
            is_asked: false,
        }
    }

    /// Takes the keys of a session. It opens at once; it seals once it is
    /// [used](Shard::seal_with).
    ///
    /// # Panics
    /// When a session of this index is here already. Its keys would seal again from the first
    /// counter on, and a nonce that is used twice gives away an AEAD's key. The
    /// endpoint draws an index that none of its sessions has, and says that
    /// one is removed before it uses the index anew.
    pub fn install(&mut self, peer: PeerIndex, keys: SessionKeys) {
        let is_there = self.sessions.contains_key(&keys.own_index);
        assert!(!is_there, "the keys of a session are installed once: nonces would come twice");
        let sealer = keys.sealer(self.number);
        let openers = [const { None }; limits::SHARDS];
        let halves = Halves::default();
        let session = Session { peer, sealer, openers, halves, keys, is_confirmed: false };
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
    pub fn set_address<V: Into<Via>>(&mut self, peer: PeerIndex, via: V) {
        self.peers.entry(peer).or_default().via = Some(via.into());
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

    /// What is known of the way to this peer.
    pub fn set_path(&mut self, peer: PeerIndex, path: Path) {
        self.peers.entry(peer).or_default().path = path;
    }

    /// The own link refused a datagram to this address as too large.
    pub fn note_refused(&mut self, to: SocketAddr, datagram_bytes: usize) {
        let outer_bytes = datagram_bytes + outer_headers(Some(to));
        for peer in self.peers.values_mut().filter(|peer| peer.via.is_some_and(|via| via.to == to))
        {
            let refused = &mut peer.activity.refused;
            *refused = Some(refused.map_or(outer_bytes, |before| before.min(outer_bytes)));
        }
    }

    /// How large packets to this peer may be.
    pub fn room(&self, peer: PeerIndex) -> Room {
        self.peers.get(&peer).map_or_else(|| Room::new(Path::default(), None), Peer::room)
    }

    /// Seals what stands in the middle of `datagram`, after [`DATA_HEADER_BYTES`] of room in front
    /// and before the tag's 16 bytes. Says where the datagram goes to.
    ///
    /// # Errors
    /// When there is no session with the peer. It then wants one, which [`Shard::activities`] says.
    pub fn seal(
        &mut self,
        mono_ms: u64,
        peer: PeerIndex,
        datagram: &mut [u8],
    ) -> Result<Via, ShardError> {
        let entry = self.peers.entry(peer).or_default();
        let via = entry.via.ok_or(ShardError::NoSession);
        let sealed = via.and_then(|via| {
            seal_by(&mut self.sessions, entry, mono_ms, datagram).map(|is_old| (via, is_old))
        });
        let activity = &mut entry.activity;
        activity.wants_session |= matches!(sealed, Err(ShardError::NoSession) | Ok((_, true)));
        activity.sent_any |= sealed.is_ok();
        activity.sent_data |= sealed.is_ok() && datagram.len() > limits::SEALED_BYTES;
        sealed.map(|(via, _)| via)
    }

    /// Seals what is no packet of a pod. Gives the datagram, and where it goes to. It may be larger
    /// than the path carries, and must not be fragmented.
    ///
    /// # Errors
    /// When there is no session with the peer.
    pub fn seal_control(
        &mut self,
        mono_ms: u64,
        peer: PeerIndex,
        control: Control,
    ) -> Result<(Via, Vec<u8>), ShardError> {
        let entry = self.peers.get_mut(&peer).ok_or(ShardError::NoSession)?;
        let via = entry.via.ok_or(ShardError::NoSession)?;
        let padded = match control {
            Control::Probe(probe) => usize::from(probe.outer_bytes),
            Control::Echo(_)
            | Control::Keepalive
            | Control::Challenge(_)
            | Control::Answer(_)
            | Control::Ping(_)
            | Control::PingBack(_) => 0,
        };
        let bytes = padded.saturating_sub(outer_headers(Some(via.to)));
        let mut datagram = vec![0; bytes.max(limits::SEALED_BYTES + control.bytes())];
        control.write(&mut datagram[DATA_HEADER_BYTES..]);
        seal_by(&mut self.sessions, entry, mono_ms, &mut datagram)?;
        // A probe may be too large to arrive.
        entry.activity.sent_any |= !matches!(control, Control::Probe(_));
        Ok((via, datagram))
    }

    /// Seals a challenge of an address where this peer may be: it goes there, whatever else goes
    /// where the peer was.
    ///
    /// # Errors
    /// When there is no session with the peer.
    pub fn seal_challenge(
        &mut self,
        mono_ms: u64,
        peer: PeerIndex,
        number: u64,
    ) -> Result<Vec<u8>, ShardError> {
        let entry = self.peers.get_mut(&peer).ok_or(ShardError::NoSession)?;
        let control = Control::Challenge(number);
        let mut datagram = vec![0; limits::SEALED_BYTES + control.bytes()];
        control.write(&mut datagram[DATA_HEADER_BYTES..]);
        seal_by(&mut self.sessions, entry, mono_ms, &mut datagram)?;
        Ok(datagram)
    }

    /// Opens a sealed packet where it lies. What is not authentic changes nothing.
    ///
    /// # Errors
    /// When it is of no session of ours, too old, seen before or not authentic.
    pub fn open<'a, V: Into<Via>>(
        &'a mut self,
        mono_ms: u64,
        via: V,
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
        let opened = opener.open(counter, &mut datagram[DATA_HEADER_BYTES..])?;
        let peer = session.peer;
        let entry = self.peers.entry(peer).or_default();
        let via = via.into();
        entry.note_opened(own_index, via, session.is_confirmed);
        session.is_confirmed = true;
        let packet = match Content::read(opened) {
            Content::Packet(packet) => packet,
            Content::Half(kind, half) => {
                self.joined = session.halves.join(shard, counter, kind, half).unwrap_or_default();
                self.joined.as_mut_slice()
            }
            Content::Control(control) => {
                self.is_asked |= entry.activity.note(control, via);
                &mut []
            }
            Content::Nothing => &mut [],
        };
        entry.activity.received_data |= !packet.is_empty();
        Ok(Opened { peer, packet, room: entry.room() })
    }

    /// Whether something came since this was last called that is to be answered, or is an answer: a
    /// path is found in some round trips if nobody waits with these.
    pub(crate) fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.is_asked)
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

/// Seals by the session that a peer's packets go by. Says whether its key is nearly used up.
fn seal_by(
    sessions: &mut HashMap<u32, Session, BuildNumberHasher>,
    peer: &Peer,
    mono_ms: u64,
    datagram: &mut [u8],
) -> Result<bool, ShardError> {
    let session = peer.sealing.and_then(|index| sessions.get_mut(&index));
    let session = session.filter(|session| session.keys.is_good(mono_ms));
    let session = session.ok_or(ShardError::NoSession)?;
    session.sealer.seal(datagram).ok_or(ShardError::NoSession)?;
    Ok(session.sealer.sealed() > limits::REKEY_AFTER_PACKETS)
}

impl Peer {
    fn room(&self) -> Room {
        Room::new(self.path, self.via.map(|via| via.to))
    }

    /// Something authentic came from there, by this session.
    fn note_opened(&mut self, own_index: u32, via: Via, is_confirmed: bool) {
        if !is_confirmed || self.activity.received_by.is_none() {
            self.activity.received_by = Some(own_index);
        }
        if self.via != Some(via) {
            self.activity.came_from = Some(via);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Probe;
    use crate::handshake::Established;
    use crate::suite::Suite;

    fn at() -> Via {
        SocketAddr::from(([192, 0, 2, 2], 7475)).into()
    }

    /// Two shards with a session between them.
    fn pair() -> [(Shard, PeerIndex); 2] {
        [(1, 2), (2, 1)].map(|(send, receive)| {
            let keys = Established {
                send: Box::new([send; 32].into()),
                receive: Box::new([receive; 32].into()),
                suite: Suite::Aes256Gcm,
                peer_shards: 1,
            };
            let (mut shard, peer) = (Shard::new(0), PeerIndex::FIRST);
            shard.install(peer, SessionKeys::new(keys, 16, 16, 0));
            shard.seal_with(peer, 16);
            shard.set_address(peer, at());
            (shard, peer)
        })
    }

    fn activity(shard: &mut Shard) -> Activity {
        shard.activities().next().map_or_else(Activity::default, |(_, activity)| activity)
    }

    #[test]
    fn a_session_is_replaced_before_its_counter_ends_and_over_when_it_does() {
        let [(mut here, peer), (mut there, _)] = pair();
        let mut seal_after = |sealed: u64| {
            let session = here.sessions.get_mut(&16).unwrap();
            session.sealer.set_sealed(sealed);
            let mut datagram = [0x45; limits::SEALED_BYTES + 20];
            let result = here.seal(0, peer, &mut datagram);
            (result.map(|_| datagram), activity(&mut here).wants_session)
        };
        let (sealed, wants_session) = seal_after(limits::REKEY_AFTER_PACKETS - 1);
        assert!(sealed.is_ok() && !wants_session);
        let (sealed, wants_session) = seal_after(limits::REKEY_AFTER_PACKETS);
        assert!(sealed.is_ok() && wants_session);
        let (sealed, _) = seal_after(limits::REJECT_AFTER_PACKETS - 1);
        assert!(there.open(0, at(), &mut sealed.unwrap()).is_ok());
        let (sealed, wants_session) = seal_after(limits::REJECT_AFTER_PACKETS);
        assert_eq!(sealed, Err(ShardError::NoSession));
        assert!(wants_session);
    }

    #[test]
    fn keys_that_have_sealed_never_begin_anew() {
        let [(mut here, peer), _] = pair();
        let keys = here.sessions[&16].keys.clone();
        let seal = |shard: &mut Shard| {
            let mut datagram = [0; limits::SEALED_BYTES];
            shard.seal(0, peer, &mut datagram).unwrap();
            datagram[8]
        };
        assert_eq!(seal(&mut here), 0);
        let again = std::panic::AssertUnwindSafe(|| here.install(peer, keys));
        assert!(std::panic::catch_unwind(again).is_err());
        assert_eq!(seal(&mut here), 1, "the session goes on as it was");
    }

    #[test]
    fn a_probe_is_as_large_as_it_says_and_asks_for_no_session() {
        let [(mut here, peer), (mut there, _)] = pair();
        let probe = Probe { id: 3, outer_bytes: 1_400 };
        let (_, mut datagram) = here.seal_control(0, peer, Control::Probe(probe)).unwrap();
        assert_eq!(datagram.len() + 28, 1_400);
        assert_eq!(activity(&mut here), Activity::default());
        assert!(there.open(0, at(), &mut datagram).unwrap().packet.is_empty());
        assert_eq!(activity(&mut there).probed, Some(probe));
        let expired = here.seal_control(limits::REJECT_AFTER_MS, peer, Control::Echo(probe));
        assert_eq!(expired.err(), Some(ShardError::NoSession));
        assert_eq!(activity(&mut here), Activity::default());
    }
}
