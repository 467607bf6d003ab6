//! What the owner has said: what is shared, and of the devices of nodes, which holds beyond that. Leases of
//! devices that are sold by the owner's word alone go on after nothing is shared any more.

use std::collections::BTreeMap;

use super::devices::DevicePolicy;
use super::policy::SharePolicy;

/// A policy in force, or what is left of the last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    shared: Option<SharePolicy>,
    /// The last one, of which the words on devices hold.
    last: Option<SharePolicy>,
}

impl Said {
    /// As it was kept. An earlier release that reads the policy of somebody who shares nothing sells
    /// nothing by it.
    pub(super) fn restore(kept: Option<SharePolicy>) -> Self {
        match kept {
            Some(last) if last.amounts.is_empty() => Self { shared: None, last: Some(last) },
            shared => Self { shared, last: None },
        }
    }

    /// The policy that is in force now.
    pub(super) fn shared(&self) -> Option<&SharePolicy> {
        self.shared.as_ref()
    }

    /// What has to be remembered: of a policy that is over, nothing that is shared.
    pub(crate) fn kept(&self) -> Option<&SharePolicy> {
        self.shared.as_ref().or(self.last.as_ref())
    }

    /// The owner's word on devices, if there is any.
    pub(crate) fn devices(&self) -> Option<&DevicePolicy> {
        self.kept().map(|policy| &policy.devices)
    }

    /// The owner shares this from now on, or nothing any more.
    pub(super) fn set(&mut self, policy: Option<SharePolicy>) {
        let before = std::mem::take(self);
        let last = before.shared.or(before.last).filter(|_| policy.is_none());
        let last = last.filter(|last| last.devices != DevicePolicy::default());
        let last = last.map(|last| SharePolicy { amounts: BTreeMap::new(), ..last });
        *self = Self { shared: policy, last };
    }
}
