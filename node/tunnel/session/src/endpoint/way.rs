//! The way to one peer as shards are told of it: whether packets reach it, and how large they may
//! be.

use std::collections::VecDeque;

use mercato_protocol::id::ClusterId;

use super::effect::{Effect, Link};
use crate::activity::Activity;
use crate::control::Control;
use crate::path_mtu::{Path, PathMtu};
use crate::peer_index::PeerIndex;

/// Whether packets reach one peer, and how large they may be.
pub(super) struct Way {
    link: Link,
    /// Since when it is so, on the monotonic clock; none if it never was otherwise.
    since_ms: Option<u64>,
    mtu: PathMtu,
    /// What the shards know of it.
    announced: Path,
}

impl Way {
    pub(super) fn new(link_mtu: usize) -> Self {
        let (mtu, announced) = (PathMtu::new(link_mtu), Path::default());
        Self { link: Link::Down, since_ms: None, mtu, announced }
    }

    pub(super) fn link(&self) -> Link {
        self.link
    }

    /// Since when the link is as it is; none if it never was otherwise.
    pub(super) fn since_ms(&self) -> Option<u64> {
        self.since_ms
    }

    pub(super) fn path(&self) -> Path {
        self.mtu.path()
    }

    /// Says that the link is so, if it was otherwise, and by whose secret.
    pub(super) fn set_link(
        &mut self,
        mono_ms: u64,
        index: PeerIndex,
        link: Link,
        by: ClusterId,
        effects: &mut VecDeque<Effect>,
    ) {
        if self.link != link {
            (self.link, self.since_ms) = (link, Some(mono_ms));
            effects.push_back(Effect::Link(index, link, by));
            self.doubt(index, effects);
        }
    }

    /// It may be another one: what was known of it says nothing.
    pub(super) fn doubt(&mut self, index: PeerIndex, effects: &mut VecDeque<Effect>) {
        self.mtu.doubt();
        self.announce(index, effects);
    }

    /// Takes what a shard saw of sizes.
    pub(super) fn note(&mut self, mono_ms: u64, activity: &Activity) {
        if let Some(echo) = activity.echoed {
            self.mtu.on_echo(mono_ms, echo);
        }
        if let Some(outer_bytes) = activity.refused {
            self.mtu.on_refused(outer_bytes);
        }
        if activity.sent_data {
            self.mtu.on_sent(mono_ms);
        }
    }

    /// Probes it, if that is due and there is a session to do so, and says what is known.
    pub(super) fn probe(
        &mut self,
        mono_ms: u64,
        index: PeerIndex,
        has_session: bool,
        effects: &mut VecDeque<Effect>,
    ) {
        if has_session && let Some(probe) = self.mtu.poll(mono_ms) {
            effects.push_back(Effect::Control(index, Control::Probe(probe)));
        }
        self.announce(index, effects);
    }

    /// When the next probe is due.
    pub(super) fn probe_ms(&self) -> Option<u64> {
        self.mtu.wakeup_ms()
    }

    fn announce(&mut self, index: PeerIndex, effects: &mut VecDeque<Effect>) {
        let path = self.mtu.path();
        if self.announced != path {
            self.announced = path;
            effects.push_back(Effect::Path(index, path));
        }
    }
}
