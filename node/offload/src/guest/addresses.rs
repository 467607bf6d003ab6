//! The gateway is kept in step with where guests are, and home with what the gateway does.

use std::net::IpAddr;

use super::Effect;
use super::session::GuestSession;
use crate::address::GuestAddress;
use crate::key::{Item, PodId, Uid};

impl GuestSession {
    pub(super) fn on_address(&mut self, id: &PodId, address: IpAddr, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(&id.uid).filter(|pod| pod.id == *id) else { return };
        pod.called.address = Some(address);
        pod.called.told = None;
        self.unsaid.insert(Item::Pod(id.clone()));
        self.map(&id.uid, out);
    }

    pub(super) fn on_mapped(&mut self, of: &GuestAddress, done: bool) {
        let Some(pod) = self.pods.get_mut(&of.pod.uid) else { return };
        if pod.called.asked.as_ref() == Some(of) {
            pod.called.done = Some(done);
            self.unsaid.insert(Item::Pod(of.pod.clone()));
        }
    }

    pub(super) fn on_second_mapped(&mut self, of: &GuestAddress, done: bool) {
        let Some(pod) = self.pods.get_mut(&of.pod.uid) else { return };
        // One of IPv6 has no other address that would follow from it.
        if pod.called.asked.as_ref() == Some(of) && of.address.is_ipv4() {
            pod.called.second = done;
            self.unsaid.insert(Item::Pod(of.pod.clone()));
        }
    }

    /// Keeps the gateway in step with where the guest is.
    pub(super) fn map(&mut self, uid: &Uid, out: &mut Vec<Effect>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        let wanted = pod.both_addresses();
        if wanted == pod.called.asked {
            return;
        }
        (pod.called.done, pod.called.second) = (None, false);
        pod.called.asked = wanted.clone();
        out.push(wanted.map_or_else(|| Effect::Unmap(pod.id.clone()), Effect::Map));
    }
}
