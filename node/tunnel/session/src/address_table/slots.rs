//! Numbers for what the table knows by long names: packets are looked up by number.

use std::collections::BTreeMap;

/// The number of a lease, or of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot(u32);

impl Slot {
    /// The place of what belongs to it in a list of all.
    pub(super) fn place(self) -> usize {
        self.0 as usize
    }
}

/// Values with a name and a number each. A number is used again after its value has gone.
#[derive(Clone)]
pub(super) struct Slots<N, V> {
    values: Vec<Option<(N, V)>>,
    by_name: BTreeMap<N, Slot>,
    free: Vec<Slot>,
}

impl<N, V> Default for Slots<N, V> {
    fn default() -> Self {
        Self { values: Vec::new(), by_name: BTreeMap::new(), free: Vec::new() }
    }
}

impl<N: Copy + Ord, V> Slots<N, V> {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn slot(&self, name: N) -> Option<Slot> {
        self.by_name.get(&name).copied()
    }

    /// The name and the value of a number that is in use.
    pub(super) fn get(&self, Slot(number): Slot) -> &(N, V) {
        self.values[number as usize].as_ref().expect("whoever has a number removes it first")
    }

    pub(super) fn get_mut(&mut self, Slot(number): Slot) -> &mut V {
        let value = self.values[number as usize].as_mut();
        &mut value.expect("whoever has a number removes it first").1
    }

    pub(super) fn insert(&mut self, name: N, value: V) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.values.push(None);
            Slot(self.values.len() as u32 - 1)
        });
        self.values[slot.0 as usize] = Some((name, value));
        self.by_name.insert(name, slot);
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        if let Some((name, _)) = self.values[slot.0 as usize].take() {
            self.by_name.remove(&name);
            self.free.push(slot);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &V)> {
        let all = self.by_name.values();
        all.map(|slot| (*slot, &self.get(*slot).1))
    }
}
