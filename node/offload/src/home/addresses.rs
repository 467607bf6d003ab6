//! A pod gets its address, and gives it back; and what is known of the tunnel.

use std::net::IpAddr;

use super::pod::Second;
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
        // An answer to an earlier word of ours, or a lie.
        if address.is_some_and(|address| pod.address != Some(address)) || pod.address.is_none() {
            return;
        }
        pod.in_force = Some(address);
        pod.second.in_force = second && address.is_some();
        self.carry_second(&id.uid, out);
        self.write(&id.uid, out);
    }

    pub(super) fn on_carried(
        &mut self,
        id: &PodId,
        address: IpAddr,
        done: bool,
        out: &mut Vec<Effect>,
    ) {
        let Some(pod) = self.pods.get_mut(&id.uid).filter(|pod| pod.id == *id) else { return };
        if pod.asked == Some(address) {
            pod.carried = Some(done.then_some(address));
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
        let Some(pod) = self.pods.get_mut(&id.uid).filter(|pod| pod.id == *id) else { return };
        if pod.asked == Some(address) && pod.second.asked {
            pod.second.carried = Some(second);
            self.write(&id.uid, out);
        }
    }

    /// Has packets of the second family carried where the provider says that it brings them.
    fn carry_second(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let is_first = pod.asked.is_some() && pod.in_force == Some(pod.asked);
        let there = is_first && pod.second.in_force;
        if !there {
            pod.second.carried = Some(None);
        }
        if std::mem::replace(&mut pod.second.asked, there) != there {
            let asked = pod.asked.map(|it| Effect::CarrySecond(pod.id.clone(), it, there));
            out.extend(asked);
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
            (pod.asked, pod.carried) = (pod.address, None);
            (pod.second.asked, pod.second.carried) = (false, None);
            let id = pod.id.clone();
            out.push(match pod.address {
                Some(address) => Effect::Carry(id, address),
                None => Effect::Uncarry(id),
            });
            if pod.in_force.is_some() {
                self.carry_second(uid, out);
            }
        }
    }

    /// Nothing of the pod runs over there any more, or neither side holds it.
    pub(super) fn uncall(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let Some(address) = pod.address.take() else { return };
        (pod.in_force, pod.carried) = (None, None);
        pod.second = Second::default();
        if pod.asked.take().is_some() {
            out.push(Effect::Uncarry(pod.id.clone()));
        }
        self.addresses.give_back(address);
        out.push(Effect::Erase(RecordKey::Address(uid.clone())));
        if std::mem::take(&mut self.addresses.short) {
            let without = self.pods.values().filter(|pod| pod.address.is_none());
            self.unsaid.extend(without.map(|pod| Item::Pod(pod.id.clone())));
        }
    }
}
