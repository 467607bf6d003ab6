//! The agent's records as bytes: CBOR, keyed by the CBOR of their key.

use mercato_agent::{Change, Record, Records};
use serde::Serialize;

use crate::store::{Batch, Store, StoreError};

/// All records of a store.
pub(super) fn read(store: &dyn Store) -> Result<Records, StoreError> {
    store.scan()?.iter().map(|(key, value)| decode(key, value)).collect()
}

/// One of them.
pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Record, StoreError> {
    ciborium::from_reader(value)
        .map_err(|error| StoreError::Unreadable { key: key.to_vec(), reason: error.to_string() })
}

/// As a store keeps them.
pub(super) fn encoded(records: &Records) -> crate::store::Records {
    records.iter().map(|record| (bytes(&record.key()), bytes(record))).collect()
}

/// What is to be written of a group of changes.
pub(super) fn batch(changes: &[Change]) -> Batch {
    let one = |change: &Change| match change {
        Change::Put(record) => (bytes(&record.key()), Some(bytes(record))),
        Change::Erase(key) => (bytes(key), None),
    };
    changes.iter().map(one).collect()
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).expect("records always encode into memory");
    bytes
}
