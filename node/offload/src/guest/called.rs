//! By which address home knows a guest, and whether packets for it are brought to it.

use std::net::IpAddr;

use crate::address::GuestAddress;
use crate::key::PodId;
use crate::message::ToHome;

/// What is known of a guest's address at home.
#[derive(Debug, Default)]
pub(super) struct Called {
    /// Home's last word, also of an earlier link: packets flow while control does not.
    pub(super) address: Option<IpAddr>,
    /// What was last asked of the gateway.
    pub(super) asked: Option<GuestAddress>,
    /// Whether it does so; none: it has not answered yet.
    pub(super) done: Option<bool>,
    /// Whether it does so for the second family too.
    pub(super) second: bool,
    /// What home was told on this link.
    pub(super) told: Option<(Option<IpAddr>, bool)>,
}

impl Called {
    /// What was said on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        self.told = None;
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
