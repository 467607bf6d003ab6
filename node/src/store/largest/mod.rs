//! The largest record of each kind that the limits allow is kept, and read back as it was.
//!
//! Each is made of the limits that bound its parts. A kind of record that is new does not compile
//! here until it has its largest.

mod values;

use std::net::Ipv6Addr;

use ipnet::IpNet;
use mercato_agent::limits::{RECORD_BYTES, TOKENS};
use mercato_agent::{FederationRecord, RangeOwner, Record, RegistrarRecord};
use mercato_broker::Standing;
use mercato_broker::limits::COUNTRY_BYTES;
use mercato_offload::{guest, home};
use mercato_protocol::equivocation::{Equivocation, Word};
use mercato_protocol::id::FederationId;
use mercato_protocol::identity::Replaced;
use mercato_protocol::limits;
use mercato_protocol::workload::Outcome;
use tempfile::TempDir;

use super::{Batch, Disk, Store as _};
use values::*;

#[test]
fn the_largest_record_of_each_kind_is_kept() {
    let dir = TempDir::new().unwrap();
    let mut store = Disk::open(dir.path()).unwrap();
    let all = records();
    let batch: Batch =
        all.iter().map(|record| (record.key().to_bytes(), Some(record.to_bytes()))).collect();
    assert_eq!(batch.len(), all.len(), "each has a key of its own");
    for record in &all {
        record.fits().unwrap_or_else(|error| panic!("{error}: {:?}", record.key()));
    }
    store.commit(&batch).unwrap();
    drop(store);
    let kept = Disk::open(dir.path()).unwrap().scan().unwrap();
    for record in &all {
        let bytes = &kept[&record.key().to_bytes()];
        assert!(Record::from_bytes(bytes).as_ref() == Ok(record), "{:?}", record.key());
    }
    let largest = all.iter().map(|record| record.to_bytes().len()).max();
    assert!(largest.unwrap() * 2 > RECORD_BYTES, "the bound is far above {largest:?}");
}

/// The largest of each kind: none is left out, for every one here leads to the next.
fn records() -> Vec<Record> {
    let mut next =
        Some(Record::Broker(mercato_broker::Record::Series { epoch: MAX, next_seq: MAX }));
    let mut all = Vec::new();
    while let Some(record) = next {
        next = after(&record);
        all.push(record);
    }
    all
}

fn after(record: &Record) -> Option<Record> {
    use mercato_broker::Record as Of;
    Some(match record {
        Record::Broker(record) => Record::Broker(match record {
            Of::Series { .. } => Of::Share(share()),
            Of::Share(_) => Of::Buy(buy()),
            Of::Buy(_) => Of::Peer(CLUSTER, Standing::Stranger),
            Of::Peer(..) => Of::Country(CLUSTER, text(0, COUNTRY_BYTES)),
            Of::Country(..) => Of::Deal(Box::new(serde_json::from_value(deal()).unwrap())),
            Of::Deal(_) => Of::Earlier(ID, u32::MAX, Box::new(agreement())),
            Of::Earlier(..) => Of::Dispute(ID, u32::MAX, dispute()),
            Of::Dispute(..) => return Some(Record::Home(CONTRACT, home::Record::Epoch(MAX))),
        }),
        Record::Home(_, record) => match record {
            home::Record::Epoch(_) => Record::Home(CONTRACT, home::Record::Tombstone(pod())),
            home::Record::Tombstone(_) => Record::Home(
                CONTRACT,
                home::Record::Address(pod(), Ipv6Addr::from(u128::MAX).into()),
            ),
            home::Record::Address(..) => Record::Guest(CONTRACT, guest::Record::Epoch(MAX)),
        },
        Record::Guest(_, record) => match record {
            guest::Record::Epoch(_) => {
                let (reason, message) = (wire_text(), wire_text());
                let over = guest::Life::Over(Outcome::Failed { reason, message });
                Record::Guest(CONTRACT, guest::Record::Pod(pod(), over))
            }
            guest::Record::Pod(..) => Record::Namespaces(CONTRACT, namespaces()),
        },
        Record::Namespaces(..) => {
            let replaced = vec![Replaced { key: KEY, by: DIGEST }; limits::ROTATIONS];
            Record::Key(CLUSTER, KEY, replaced)
        }
        Record::Key(..) => {
            let range = IpNet::new_assert(Ipv6Addr::from(u128::MAX).into(), 128);
            Record::Range(RangeOwner::Peer(CLUSTER, range), range)
        }
        Record::Range(..) => Record::Federation(FederationRecord::Papers(Box::new(papers()))),
        Record::Federation(record) => Record::Federation(after_of_federation(record)?),
    })
}

fn after_of_federation(record: &FederationRecord) -> Option<FederationRecord> {
    let federation = FederationId([0xff; 32]);
    let registrar = |record| Some(FederationRecord::Registrar(federation, record));
    match record {
        FederationRecord::Papers(_) => {
            Some(FederationRecord::Revocations(federation, KEY, opaque()))
        }
        FederationRecord::Revocations(..) => {
            let word = |signed| Word::Header(signed);
            let proof = Equivocation { one: word(opaque()), other: word(opaque()) };
            Some(FederationRecord::Fraud(KEY, Box::new(proof)))
        }
        FederationRecord::Fraud(..) => registrar(RegistrarRecord::Token(DIGEST, grant())),
        FederationRecord::Registrar(_, of) => match of {
            RegistrarRecord::Token(..) => registrar(RegistrarRecord::Issued(CLUSTER, issued())),
            RegistrarRecord::Issued(..) => {
                registrar(RegistrarRecord::Numbers { serial: MAX, list: TOKENS as u64 })
            }
            RegistrarRecord::Numbers { .. } => None,
        },
    }
}
