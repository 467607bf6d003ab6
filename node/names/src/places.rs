//! Places for what guests have under way at a time: so many a guest, and so many in all. When all are
//! taken, whoever has most gives one to whoever has fewer, so that nobody keeps others from theirs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mercato_protocol::id::ContractId;
use tokio::sync::oneshot;

use crate::answer::Asker;

/// Places that guests share; each clone is of the same ones.
#[derive(Clone)]
pub(crate) struct Places(Arc<Mutex<Table>>);

/// A place for something that a guest has at a time, until it is dropped.
pub(crate) struct Place {
    by: Asker,
    number: u64,
    table: Arc<Mutex<Table>>,
    /// Ends when the place is another's.
    kept: oneshot::Receiver<()>,
}

/// The places of a guest by their numbers, the oldest first. Who drops what is there takes the place.
type OfGuest = BTreeMap<u64, oneshot::Sender<()>>;

struct Table {
    of_guest: usize,
    of_all: usize,
    next: u64,
    taken: usize,
    leases: BTreeMap<ContractId, BTreeMap<IpAddr, OfGuest>>,
}

impl Places {
    /// So many places for each guest, and so many for all of them.
    pub(crate) fn new(of_guest: usize, of_all: usize) -> Self {
        let (next, taken, leases) = (0, 0, BTreeMap::new());
        Self(Arc::new(Mutex::new(Table { of_guest, of_all, next, taken, leases })))
    }

    /// A place for one more; none, where the guest has all of its own, or all are taken and nobody has
    /// more than it.
    pub(crate) fn take(&self, by: Asker) -> Option<Place> {
        let (number, kept) = locked(&self.0).take(by)?;
        Some(Place { by, number, table: self.0.clone(), kept })
    }
}

impl Place {
    /// Waits until the place is another's.
    pub(crate) async fn lost(&mut self) {
        // Nothing is ever sent.
        let _gone = (&mut self.kept).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&self.table).give_back(self.by, self.number);
    }
}

fn locked(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    fn take(&mut self, by: Asker) -> Option<(u64, oneshot::Receiver<()>)> {
        if self.count_of_guest(by) >= self.of_guest {
            return None;
        }
        if self.taken >= self.of_all {
            let (loser, number) = self.who_gives_way(by)?;
            self.give_back(loser, number);
        }
        let (number, (keep, kept)) = (self.next, oneshot::channel());
        self.next += 1;
        self.taken += 1;
        self.leases.entry(by.lease).or_default().entry(by.guest).or_default().insert(number, keep);
        Some((number, kept))
    }

    /// Whose place is taken for this one, and which: of the lease with the most the guest with the
    /// most, its oldest. None: whoever would lose it had fewer then than whoever gets it.
    fn who_gives_way(&self, by: Asker) -> Option<(Asker, u64)> {
        let (most, guests) = self.leases.iter().max_by_key(|(_, guests)| count(guests))?;
        let own = self.leases.get(&by.lease).map_or(0, count);
        let lease = if count(guests) > own + 1 { *most } else { by.lease };
        let guests = self.leases.get(&lease)?.iter();
        let (guest, places) = guests.max_by_key(|(_, places)| places.len())?;
        if lease == by.lease && places.len() <= self.count_of_guest(by) + 1 {
            return None;
        }
        let (number, _) = places.first_key_value()?;
        Some((Asker { guest: *guest, lease }, *number))
    }

    /// Nothing, where it was taken from its holder already.
    fn give_back(&mut self, by: Asker, number: u64) {
        let Some(guests) = self.leases.get_mut(&by.lease) else { return };
        let Some(places) = guests.get_mut(&by.guest) else { return };
        if places.remove(&number).is_none() {
            return;
        }
        self.taken -= 1;
        if places.is_empty() {
            guests.remove(&by.guest);
        }
        if guests.is_empty() {
            self.leases.remove(&by.lease);
        }
    }

    fn count_of_guest(&self, by: Asker) -> usize {
        let guests = self.leases.get(&by.lease);
        guests.and_then(|guests| guests.get(&by.guest)).map_or(0, BTreeMap::len)
    }
}

fn count(guests: &BTreeMap<IpAddr, OfGuest>) -> usize {
    guests.values().map(BTreeMap::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(lease: u8, guest: u8) -> Asker {
        Asker { guest: [10, 42, lease, guest].into(), lease: ContractId([lease; 16]) }
    }

    /// As many places as it gets of so many that it asks for.
    fn several(places: &Places, by: Asker, times: usize) -> Vec<Place> {
        (0..times).map_while(|_| places.take(by)).collect()
    }

    fn lost(all: &mut [Place]) -> usize {
        use oneshot::error::TryRecvError::Closed;
        all.iter_mut().filter_map(|it| it.kept.try_recv().err()).filter(|it| *it == Closed).count()
    }

    #[test]
    fn a_guest_has_its_own_places_and_gives_them_back() {
        let places = Places::new(2, 100);
        let mut one = several(&places, by(1, 1), 5);
        assert_eq!(one.len(), 2);
        assert_eq!(several(&places, by(1, 2), 5).len(), 2, "another one is not concerned");
        one.pop();
        assert_eq!(several(&places, by(1, 1), 5).len(), 1);
        drop(one);
        let table = locked(&places.0);
        assert!(table.taken == 0 && table.leases.is_empty(), "nothing stays");
    }

    #[test]
    fn whoever_has_most_gives_way_until_shares_are_equal() {
        let places = Places::new(8, 12);
        let mut greedy = several(&places, by(1, 1), 20);
        let mut other = several(&places, by(1, 2), 20);
        assert_eq!((greedy.len(), other.len()), (8, 6), "two of the first one's are gone");
        assert_eq!((lost(&mut greedy), lost(&mut other)), (2, 0));
        assert!(lost(&mut greedy[..2]) == 2, "its oldest ones");
        // Of another lease: each lease has half of all.
        let mut modest = several(&places, by(2, 1), 20);
        assert_eq!(modest.len(), 6);
        assert_eq!((lost(&mut greedy), lost(&mut other), lost(&mut modest)), (5, 3, 0));
        // Nobody has more than a share, so whoever asks for more gets none.
        assert!(places.take(by(1, 1)).is_none() && places.take(by(2, 1)).is_none());
        // One of many guests of a lease has its share of that lease's.
        assert!(places.take(by(1, 3)).is_some());
        assert_eq!(lost(&mut modest), 0);
        drop((greedy, other, modest));
        assert_eq!(locked(&places.0).taken, 0);
    }
}
