//! The agent's records as the store keeps them.

use mercato_agent::{Change, Record, Records};

use crate::store::{Batch, Store, StoreError};

/// All records of a store.
pub(super) fn read(store: &dyn Store) -> Result<Records, StoreError> {
    store.scan()?.iter().map(|(key, value)| decode(key, value)).collect()
}

/// One record, as the store has it.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Record, StoreError> {
    Record::from_bytes(value).map_err(|reason| StoreError::Unreadable { key: key.to_vec(), reason })
}

/// As a store keeps them.
pub(super) fn encoded(records: &Records) -> crate::store::Records {
    records.iter().map(|record| (record.key().to_bytes(), record.to_bytes())).collect()
}

/// What is to be written of a group of changes.
pub(super) fn batch(changes: &[Change]) -> Batch {
    let one = |change: &Change| match change {
        Change::Put(record) => (record.key().to_bytes(), Some(record.to_bytes())),
        Change::Erase(key) => (key.to_bytes(), None),
    };
    changes.iter().map(one).collect()
}
