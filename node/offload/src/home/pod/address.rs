//! By which address a pod is known, how far packets for it are carried by that, and what of it is
//! shown at home.

use std::net::IpAddr;

use ipnet::IpNet;

use super::super::{Effect, HomePod};
use crate::address::{Reach, Tunnel};
use crate::key::PodId;
use crate::output::Output;

/// The address of one pod, which is on record, and who carries packets for it.
#[derive(Debug, Default)]
pub(in crate::home) struct PodAddress {
    /// By which everyone knows it.
    address: Option<IpAddr>,
    /// By which address home was asked to carry packets for it, in this run,
    asked: Option<IpAddr>,
    /// and by which one it does so; none of them: it cannot.
    carried: Option<Option<IpAddr>>,
    /// What the provider does with packets for it, by its word on this link.
    in_force: Option<Option<IpAddr>>,
    second: Second,
}

/// What is known of the second family.
#[derive(Debug, Default)]
struct Second {
    /// Whether the provider brings packets of it, by its last word.
    in_force: bool,
    /// Whether home was asked to carry them, in this run,
    asked: bool,
    /// and by which address it does so; none of them: by none.
    carried: Option<Option<IpAddr>>,
}

impl PodAddress {
    pub(in crate::home) fn get(&self) -> Option<IpAddr> {
        self.address
    }

    /// As a record has it.
    pub(in crate::home) fn restore(&mut self, address: IpAddr) {
        self.address = Some(address);
    }

    /// What the provider said on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        self.in_force = None;
    }

    pub(in crate::home) fn is_of(&self, range: IpNet) -> bool {
        self.address.is_some_and(|address| range.contains(&address))
    }

    /// It is known by this address from now on; by none, if all are taken. Says by which before.
    pub(in crate::home) fn replace(&mut self, address: Option<IpAddr>) -> Option<IpAddr> {
        (self.in_force, self.second.in_force) = (None, false);
        std::mem::replace(&mut self.address, address)
    }

    /// Has packets for it carried by its address, and by no other.
    pub(in crate::home) fn carry(&mut self, id: &PodId, out: &mut Output<Effect>) {
        if self.asked == self.address {
            return;
        }
        (self.asked, self.carried) = (self.address, None);
        (self.second.asked, self.second.carried) = (false, None);
        out.push(match self.address {
            Some(address) => Effect::Carry(id.clone(), address),
            None => Effect::Uncarry(id.clone()),
        });
        self.carry_second(id, out);
    }

    /// It is known by none any more, and packets for it are carried by none. Says by which before.
    pub(in crate::home) fn give_up(
        &mut self,
        id: &PodId,
        out: &mut Output<Effect>,
    ) -> Option<IpAddr> {
        let address = self.address.take()?;
        (self.in_force, self.carried, self.second) = (None, None, Second::default());
        out.extend(self.asked.take().map(|_| Effect::Uncarry(id.clone())));
        Some(address)
    }

    /// The provider says what it does with packets for it; whether that is about its address.
    pub(in crate::home) fn on_in_force(
        &mut self,
        id: &PodId,
        address: Option<IpAddr>,
        second: bool,
        out: &mut Output<Effect>,
    ) -> bool {
        // Otherwise it is an answer to an earlier word of ours, or a lie.
        let is_its = self.address.is_some() && (address.is_none() || address == self.address);
        if is_its {
            self.in_force = Some(address);
            self.second.in_force = second && address.is_some();
            self.carry_second(id, out);
        }
        is_its
    }

    /// Packets are carried by this address, or cannot be; whether that was asked.
    pub(in crate::home) fn on_carried(&mut self, address: IpAddr, done: bool) -> bool {
        let is_asked = self.asked == Some(address);
        if is_asked {
            self.carried = Some(done.then_some(address));
        }
        is_asked
    }

    /// Packets of the second family are carried by this address, or by none; whether that was
    /// asked.
    pub(in crate::home) fn on_second_carried(
        &mut self,
        address: IpAddr,
        by: Option<IpAddr>,
    ) -> bool {
        let is_asked = self.asked == Some(address) && self.second.asked;
        if is_asked {
            self.second.carried = Some(by);
        }
        is_asked
    }

    /// Has packets of the second family carried where the provider says that it brings them.
    fn carry_second(&mut self, id: &PodId, out: &mut Output<Effect>) {
        let Some(in_force) = self.in_force else { return };
        let there = self.asked.is_some() && in_force == self.asked && self.second.in_force;
        if !there {
            self.second.carried = Some(None);
        }
        if std::mem::replace(&mut self.second.asked, there) == there {
            return;
        }
        let asked = self.asked;
        out.extend(asked.map(|address| Effect::CarrySecond(id.clone(), address, there)));
    }

    /// Whether home reaches the pod that is shown so, which runs over there and, if it is
    /// `to_be_called`, is to have an address.
    pub(super) fn reach(&self, tunnel: Tunnel, seen: &HomePod, to_be_called: bool) -> Reach {
        let at = |address, second| Reach::At { address, second };
        let same = self.address.is_some() && self.address == seen.pod_ip;
        match (tunnel, self.in_force) {
            (Tunnel::Off, _) | (Tunnel::Agreed(_), Some(None)) => Reach::Not,
            // What is shown since earlier stays, though a node of home's has not come back yet.
            (Tunnel::Agreed(_), _) if self.carried == Some(None) && !same => Reach::Not,
            (Tunnel::Agreed(_), Some(address)) if Some(address) == self.carried => {
                // What is shown since earlier stays until the provider has said otherwise.
                let earlier = seen.second_ip.filter(|_| same);
                let second = self.second.carried.unwrap_or(earlier);
                address.map_or(Reach::Not, |address| at(address, second))
            }
            // It is what is shown since earlier, and stays.
            (Tunnel::Awaited | Tunnel::Agreed(_), _) if same => shown(seen),
            // All addresses of the range are taken.
            (Tunnel::Agreed(_), None) if to_be_called && self.address.is_none() => Reach::Not,
            (Tunnel::Awaited | Tunnel::Agreed(_), _) => Reach::Awaited,
        }
    }
}

/// The provider has not been reached for too long: what is shown stays.
pub(super) fn lost(seen: &HomePod) -> Reach {
    Reach::Lost { address: seen.pod_ip, second: seen.second_ip }
}

/// By which addresses the pod is shown at home.
pub(super) fn shown(seen: &HomePod) -> Reach {
    seen.pod_ip.map_or(Reach::Not, |address| Reach::At { address, second: seen.second_ip })
}
