//! Whose an object is, by its place, its marks and its uid. What is not this lease's is never
//! written, patched or deleted.

use serde_json::Value;

use crate::forge::{GuestContext, KnownGuests, Marks};
use crate::key::Item;

/// Whose the object is that stands where a guest object of a lease is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The guest object itself.
    Ours,
    /// Another pod of this lease with the same name, which has still to go.
    Earlier,
    /// Somebody else's: it is never touched.
    Foreign,
}

impl Ownership {
    /// Of `present`, where `item` of the lease is to be.
    pub fn of(ctx: &GuestContext, known: &KnownGuests, item: &Item, present: &Value) -> Self {
        match Marks::of(ctx, known, present) {
            Some(marks) if marks.item == *item => Self::Ours,
            Some(Marks { item: Item::Pod(_), .. }) => Self::Earlier,
            Some(Marks { item: Item::Object(_), .. }) | None => Self::Foreign,
        }
    }
}
