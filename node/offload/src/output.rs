//! What comes of one input to a session: effects in their order, and the items about which the
//! other side may have something to hear. The parts of a session add to it; its outbox takes the
//! items.

use std::collections::BTreeSet;

use crate::key::Item;

/// Effects of one input, and items to speak of.
#[derive(Debug)]
pub(crate) struct Output<E> {
    effects: Vec<E>,
    changed: BTreeSet<Item>,
}

impl<E> Output<E> {
    pub(crate) fn new() -> Self {
        Self { effects: Vec::new(), changed: BTreeSet::new() }
    }

    pub(crate) fn push(&mut self, effect: E) {
        self.effects.push(effect);
    }

    pub(crate) fn extend(&mut self, effects: impl IntoIterator<Item = E>) {
        self.effects.extend(effects);
    }

    /// There may be something to say about this item.
    pub(crate) fn changed(&mut self, item: Item) {
        self.changed.insert(item);
    }

    /// Items that were named since this was last asked.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<Item> {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn into_effects(self) -> Vec<E> {
        self.effects
    }
}
