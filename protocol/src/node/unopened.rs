//! A name that a guest has asked for in vain, since its home does not open the namespace to it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, ensure, wire_map};
use crate::id::ContractId;
use crate::names::is_label;

/// A name of a namespace that is not open to the guest that has asked for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnopenedName {
    /// The lease of the guest.
    pub lease: ContractId,
    /// The guest's own address, from which it has asked.
    pub guest: IpAddr,
    /// What the Service would be called at home.
    pub service: String,
    /// The namespace that it would be in there.
    pub namespace: String,
}

impl UnopenedName {
    pub(super) fn validate(&self) -> Result<(), CodecError> {
        ensure(is_label(&self.service) && is_label(&self.namespace), "a name that no Service has")
    }
}

wire_map!(UnopenedName { 1 => lease, 2 => guest, 3 => service, 4 => namespace });
