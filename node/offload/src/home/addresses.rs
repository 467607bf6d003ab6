//! A pod gets its address, and gives it back; and what is known of the tunnel.

use std::net::IpAddr;

use super::session::HomeSession;
use super::{Effect, Record, RecordKey};
use crate::address::Tunnel;
use crate::key::{Item, PodId, Uid};

impl HomeSession {
    pub(super) fn on_tunnel(&mut self, tunnel: Tunnel, out: &mut Vec<Effect>) {
        if self.tunnel == tunnel {
            return;
        }
        self.tunnel = tunnel;
        for uid in self.pods.keys().cloned().collect::<Vec<_>>() {
            let Some(pod) = self.pods.get(&uid) else { continue };
            self.unsaid.insert(Item::Pod(pod.id.clone()));
            self.write(&uid, out);
        }
    }

    pub(super) fn on_in_force(
        &mut self,
        id: &PodId,
        address: Option<IpAddr>,
        second: bool,
        out: &mut Vec<Effect>,
    ) {
        let Some(pod) = self.pods.get_mut(&id.uid).filter(|pod| pod.id == *id) else { return };
        if pod.on_in_force(address, second) {
            out.extend(pod.carry_second());
            self.write(&id.uid, out);
        }
    }

    pub(super) fn on_carried(
        &mut self,
        id: &PodId,
        address: IpAddr,
        done: bool,
        out: &mut Vec<Effect>,
    ) {
        let pod = self.pods.get_mut(&id.uid).filter(|pod| pod.id == *id);
        if pod.is_some_and(|pod| pod.on_carried(address, done)) {
            self.write(&id.uid, out);
        }
    }

    pub(super) fn on_second_carried(
        &mut self,
        id: &PodId,
        address: IpAddr,
        second: Option<IpAddr>,
        out: &mut Vec<Effect>,
    ) {
        let pod = self.pods.get_mut(&id.uid).filter(|pod| pod.id == *id);
        if pod.is_some_and(|pod| pod.on_second_carried(address, second)) {
            self.write(&id.uid, out);
        }
    }

    /// Gives the pod an address, if it is to have one and has none of the range, and has packets
    /// for it carried.
    pub(super) fn call(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let Tunnel::Agreed(range) = self.tunnel else { return };
        let Some(pod) = self.pods.get_mut(uid).filter(|pod| pod.is_to_be_called()) else { return };
        if !pod.address.is_some_and(|address| range.contains(&address)) {
            let before = pod.address.take();
            (pod.in_force, pod.second.in_force) = (None, false);
            pod.address = self.addresses.take(range, uid);
            if let Some(address) = pod.address {
                self.unsaid.insert(Item::Pod(pod.id.clone()));
                out.push(Effect::Persist(Record::Address(pod.id.clone(), address)));
            } else if before.is_some() {
                out.push(Effect::Erase(RecordKey::Address(uid.clone())));
            }
            if let Some(before) = before {
                self.addresses.give_back(before);
            }
        }
        if pod.asked != pod.address {
            pod.ask();
            let id = pod.id.clone();
            out.push(match pod.address {
                Some(address) => Effect::Carry(id, address),
                None => Effect::Uncarry(id),
            });
            out.extend(pod.carry_second());
        }
    }

    /// Nothing of the pod runs over there any more, or neither side holds it.
    pub(super) fn uncall(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(address) = pod.address.take() else { return };
        out.extend(pod.uncarry());
        self.addresses.give_back(address);
        out.push(Effect::Erase(RecordKey::Address(uid.clone())));
        if std::mem::take(&mut self.addresses.short) {
            let without = self.pods.values().filter(|pod| pod.address.is_none());
            self.unsaid.extend(without.map(|pod| Item::Pod(pod.id.clone())));
        }
    }
}
