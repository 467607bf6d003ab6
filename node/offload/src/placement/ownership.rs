//! Whose an object is: by the labels that guest objects carry. What is not this lease's is never
//! written, patched or deleted.

use mercato_protocol::id::ContractId;
use serde_json::Value;

use crate::forge::labels::{CONTRACT, HOME_UID};
use crate::key::Item;

/// Whose the object is that stands where a guest object of a lease is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The guest object itself.
    Ours,
    /// An earlier pod of this lease with the same name, which has still to go.
    Earlier,
    /// Somebody else's: it is never touched.
    Foreign,
}

impl Ownership {
    /// Of `present`, where `item` of the lease under `contract` is to be.
    pub fn of(contract: ContractId, item: &Item, present: &Value) -> Self {
        let labels = &present["metadata"]["labels"];
        if labels[CONTRACT] != contract.to_string() {
            return Self::Foreign;
        }
        match item {
            Item::Pod(pod) if labels[HOME_UID] != pod.uid.0 => Self::Earlier,
            Item::Pod(_) | Item::Object(_) => Self::Ours,
        }
    }
}
