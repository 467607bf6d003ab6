//! The agent's records as bytes: CBOR, keyed by the CBOR of their key.

use mercato_agent::{Change, Record, Records};
use serde::Serialize;

use crate::store::{Batch, Store, StoreError};

/// All records of a store.
pub(super) fn read(store: &dyn Store) -> Result<Records, StoreError> {
    let record = |(key, value): (Vec<u8>, Vec<u8>)| {
        ciborium::from_reader::<Record, _>(&value[..])
            .map_err(|error| StoreError::Unreadable { key, reason: error.to_string() })
    };
    store.scan()?.into_iter().map(record).collect()
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
