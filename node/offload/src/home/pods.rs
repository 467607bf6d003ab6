//! The pods of one lease by uid, the address that each has of the lease's range, and the one write
//! that is under way for each at home.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mercato_protocol::time::Now;

use super::addresses::Addresses;
use super::pod::Pod;
use super::way::{Ways, Word};
use super::{Effect, Record, RecordKey, Write};
use crate::address::Tunnel;
use crate::key::{Item, PodId, Uid};
use crate::limits;
use crate::output::Output;
use crate::retry::Retries;

/// All pods of one lease that are at home, or that the provider may hold.
#[derive(Debug, Default)]
pub(super) struct Pods {
    all: BTreeMap<Uid, Pod>,
    addresses: Addresses,
    tunnel: Tunnel,
    ways: Ways,
    /// Pods whose write is tried again later.
    retries: Retries<Uid>,
}

impl Pods {
    /// One that was removed at home, as a record has it.
    pub(super) fn restore_tombstone(&mut self, id: PodId) {
        self.entry(id).on_gone();
    }

    /// The address of one, likewise.
    pub(super) fn restore_address(&mut self, id: PodId, address: IpAddr) {
        self.addresses.restore(address, id.uid.clone());
        self.entry(id).address().restore(address);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pod> {
        self.all.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pod> {
        self.all.values_mut()
    }

    pub(super) fn get(&self, uid: &Uid) -> Option<&Pod> {
        self.all.get(uid)
    }

    pub(super) fn get_mut(&mut self, uid: &Uid) -> Option<&mut Pod> {
        self.all.get_mut(uid)
    }

    /// The pod of that uid, if it has that name too.
    pub(super) fn named(&mut self, id: &PodId) -> Option<&mut Pod> {
        self.all.get_mut(&id.uid).filter(|pod| pod.id() == id)
    }

    /// The same, if it is one of home's.
    pub(super) fn sent(&mut self, id: &PodId) -> Option<&mut Pod> {
        self.named(id).filter(|pod| pod.seen().is_some())
    }

    /// The pod of that uid; a new one, if there is none.
    pub(super) fn entry(&mut self, id: PodId) -> &mut Pod {
        self.all.entry(id.uid.clone()).or_insert_with(|| Pod::new(id))
    }

    pub(super) fn has(&self, uid: &Uid) -> bool {
        self.all.contains_key(uid)
    }

    /// There may be no other pod.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= limits::PODS
    }

    /// How it is with the tunnel to the provider.
    pub(super) fn tunnel(&self) -> Tunnel {
        self.tunnel
    }

    /// Nothing is under way at home, and nothing waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.retries.next().is_none() && self.all.values().all(Pod::is_quiet)
    }

    /// When there is something to write, in ms of the monotonic clock.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let (all, called) = (patiences(&self.all), called_patiences(&self.all));
        let lost = self.ways.deadline_ms(all, called);
        [self.retries.next(), lost].into_iter().flatten().min()
    }

    /// How it is with the way to the provider.
    pub(super) fn ways(&self) -> &Ways {
        &self.ways
    }

    /// Something is heard of that way, or is not.
    pub(super) fn hear(&mut self, word: Word, out: &mut Output<Effect>) {
        if self.ways.hear(word) {
            self.write_all(out);
        }
    }

    fn write_all(&mut self, out: &mut Output<Effect>) {
        for uid in self.all.keys().cloned().collect::<Vec<_>>() {
            self.write(&uid, out);
        }
    }

    /// How it is with the tunnel to the provider.
    pub(super) fn on_tunnel(&mut self, tunnel: Tunnel, out: &mut Output<Effect>) {
        if self.tunnel == tunnel {
            return;
        }
        self.tunnel = tunnel;
        if !self.tunnel.is_agreed() {
            self.ways.hear(Word::Packets);
        }
        let ids: Vec<PodId> = self.all.values().map(|pod| pod.id().clone()).collect();
        for id in ids {
            let uid = id.uid.clone();
            out.changed(Item::Pod(id));
            self.write(&uid, out);
        }
    }

    /// The write that was under way succeeded: it, if one was.
    pub(super) fn on_written(&mut self, uid: &Uid, out: &mut Output<Effect>) -> Option<Write> {
        let pod = self.all.get_mut(uid)?;
        let write = pod.on_written()?;
        if matches!(write, Write::Status { outcome: Some(_), .. }) && pod.seen().is_some() {
            out.changed(Item::Pod(pod.id().clone()));
        }
        self.retries.clear(uid);
        Some(write)
    }

    /// The write that was under way failed, perhaps since the bytes of the status are missing.
    pub(super) fn on_not_written(
        &mut self,
        now: Now,
        uid: &Uid,
        missing: bool,
        out: &mut Output<Effect>,
    ) {
        let way = self.ways.way(self.tunnel);
        let Some(pod) = self.all.get_mut(uid) else { return };
        let Some(write) = pod.on_not_written() else { return };
        if missing && pod.is_replaced(&write, way) {
            return self.write(uid, out);
        }
        if missing {
            pod.on_missing_status();
            out.changed(Item::Pod(pod.id().clone()));
        }
        self.retries.back_off(now.mono_ms, uid);
    }

    /// Its write is not tried again.
    pub(super) fn stop_waiting(&mut self, uid: &Uid) {
        self.retries.clear(uid);
    }

    /// Writes what could not be written earlier.
    pub(super) fn wake(&mut self, now: Now, out: &mut Output<Effect>) {
        let (all, called) = (patiences(&self.all), called_patiences(&self.all));
        if self.ways.are_lost_by(now, all, called) {
            self.write_all(out);
        }
        for uid in self.retries.due(now.mono_ms) {
            self.write(&uid, out);
        }
    }

    /// Writes at home what there is to write.
    pub(super) fn write(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        // Whether it is to wait for an address shows once it has had its chance of one.
        self.call(uid, out);
        let way = self.ways.way(self.tunnel);
        let Some(pod) = self.all.get_mut(uid) else { return };
        if self.retries.waits(uid) || self.ways.is_back() {
            return;
        }
        if let Some(write) = pod.write(way) {
            pod.begin(write.clone());
            out.push(Effect::Write(pod.id().clone(), write));
        }
    }

    /// Gives the pod an address, if it is to have one and has none of the range, and has packets
    /// for it carried.
    pub(super) fn call(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        let Tunnel::Agreed(range) = self.tunnel else { return };
        let Some(pod) = self.all.get_mut(uid).filter(|pod| pod.is_to_be_called()) else { return };
        let id = pod.id().clone();
        if !pod.address().is_of(range) {
            let address = self.addresses.take(range, uid);
            let before = pod.address().replace(address);
            if let Some(address) = address {
                out.changed(Item::Pod(id.clone()));
                out.push(Effect::Persist(Record::Address(id.clone(), address)));
            } else if before.is_some() {
                out.push(Effect::Erase(RecordKey::Address(uid.clone())));
            }
            if let Some(before) = before {
                self.addresses.give_back(before);
            }
        }
        pod.address().carry(&id, out);
    }

    /// Nothing of the pod runs over there any more, or neither side holds it.
    pub(super) fn uncall(&mut self, uid: &Uid, out: &mut Output<Effect>) {
        let Some(pod) = self.all.get_mut(uid) else { return };
        let id = pod.id().clone();
        let Some(address) = pod.address().give_up(&id, out) else { return };
        self.addresses.give_back(address);
        out.push(Effect::Erase(RecordKey::Address(uid.clone())));
        if self.addresses.take_short() {
            let without = self.all.values().filter(|pod| !pod.has_address());
            without.for_each(|pod| out.changed(Item::Pod(pod.id().clone())));
        }
    }

    /// Neither side holds it any more.
    pub(super) fn remove(&mut self, uid: &Uid) {
        self.all.remove(uid);
        self.retries.clear(uid);
    }
}

/// The patience of each pod, in ms.
fn patiences(all: &BTreeMap<Uid, Pod>) -> impl Iterator<Item = u64> {
    all.values().filter_map(Pod::patience_ms)
}

/// The same of those that have an address.
fn called_patiences(all: &BTreeMap<Uid, Pod>) -> impl Iterator<Item = u64> {
    all.values().filter(|pod| pod.has_address()).filter_map(Pod::patience_ms)
}
