//! By which address home knows a guest, and whether packets for it are brought to it.

use std::net::IpAddr;

use super::super::Effect;
use crate::address::GuestAddress;
use crate::key::PodId;
use crate::message::ToHome;

/// What is known of a guest's address at home.
#[derive(Debug, Default)]
pub(in crate::guest) struct Called {
    /// Home's last word, also of an earlier link: packets flow while control does not.
    address: Option<IpAddr>,
    /// What was last asked of the gateway.
    asked: Option<GuestAddress>,
    /// Whether it does so; none: it has not answered yet.
    done: Option<bool>,
    /// Whether it does so for the second family too.
    second: bool,
    /// What home was told on this link.
    told: Option<(Option<IpAddr>, bool)>,
}

impl Called {
    /// What was said on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        self.told = None;
    }

    /// Home knows the guest by this address.
    pub(super) fn on_address(&mut self, address: IpAddr) {
        self.address = Some(address);
        self.told = None;
    }

    /// Home's last word of it.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Home's word, as far as it is of the family of the guest's own address.
    pub(super) fn address_of_family(&self, guest: IpAddr) -> Option<IpAddr> {
        self.address.filter(|it| it.is_ipv4() == guest.is_ipv4())
    }

    /// Keeps the gateway in step with where the guest is.
    pub(super) fn map(&mut self, pod: &PodId, wanted: Option<GuestAddress>) -> Option<Effect> {
        if wanted == self.asked {
            return None;
        }
        (self.done, self.second) = (None, false);
        self.asked = wanted.clone();
        Some(wanted.map_or_else(|| Effect::Unmap(pod.clone()), Effect::Map))
    }

    /// The gateway's answer; whether it is to what was asked last.
    pub(in crate::guest) fn on_mapped(&mut self, of: &GuestAddress, done: bool) -> bool {
        let is_asked = self.asked.as_ref() == Some(of);
        if is_asked {
            self.done = Some(done);
        }
        is_asked
    }

    /// The same of the second family.
    pub(in crate::guest) fn on_second_mapped(&mut self, of: &GuestAddress, done: bool) -> bool {
        // One of IPv6 has no other address that would follow from it.
        let is_asked = self.asked.as_ref() == Some(of) && of.address.is_ipv4();
        if is_asked {
            self.second = done;
        }
        is_asked
    }

    /// The gateway is about to answer: what is said of the pod waits for it.
    pub(super) fn is_under_way(&self) -> bool {
        self.asked.is_some() && self.done.is_none()
    }

    /// What home is to be told; it counts as told from then on.
    pub(super) fn statement(&mut self, pod: &PodId) -> Option<ToHome> {
        let address = self.asked.as_ref()?.address;
        let address = self.done?.then_some(address);
        let second = self.second && address.is_some();
        if self.told.replace((address, second)) == Some((address, second)) {
            return None;
        }
        Some(ToHome::InForce { pod: pod.clone(), address, second })
    }
}
