//! What the agent remembers: the records of all its parts under one key space. The state
//! is a scan of them; as bytes each is CBOR, kept under the CBOR of its key. Writing them to disk
//! is the driver's.

use std::collections::BTreeMap;
use std::io;

use ipnet::IpNet;
use mercato_offload::{guest, home};
use mercato_protocol::certificate::RevocationList;
use mercato_protocol::envelope::Signed;
use mercato_protocol::equivocation::Equivocation;
use mercato_protocol::id::{ClusterId, ContractId, Digest, FederationId, PublicKey};
use mercato_protocol::identity::Replaced;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ahead::LeasesAhead;
use crate::federation::issued::RegistrarRecord;
use crate::federation::papers::Papers;
use crate::limits;

/// What must be remembered. Never the body of a Kubernetes object, never a tenant's secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// What the broker keeps: offers, deals, and what the owner said.
    Broker(mercato_broker::Record),
    /// Of a lease's session at home.
    Home(ContractId, home::Record),
    /// Of a lease's session at the provider.
    Guest(ContractId, guest::Record),
    /// The provider's guest namespaces of a lease, by home namespace.
    Namespaces(ContractId, BTreeMap<String, String>),
    /// What is kept of this cluster's federations.
    Federation(FederationRecord),
    /// The key that speaks for a cluster, and those that did before, the first one first.
    Key(ClusterId, PublicKey, Vec<Replaced>),
    /// A range of the pool of tunnel addresses, and whom it was given to.
    Range(RangeOwner, IpNet),
}

/// Whom a range of the pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RangeOwner {
    /// The guests of this lease, whose home this cluster is.
    Lease(ContractId),
    /// The nodes of this cluster, which answer by one address of it.
    Nodes,
    /// The pods of this cluster that have addresses of this block in its pod network.
    Own(IpNet),
    /// What this cluster says its pods are known by, of which something is taken here.
    Peer(ClusterId, IpNet),
    /// In this range the guests here of this lease are known by their home.
    Guests(ContractId, IpNet),
}

/// What a record is kept under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecordKey {
    /// The key of a [`Record::Broker`].
    Broker(mercato_broker::RecordKey),
    /// The key of a [`Record::Home`].
    Home(ContractId, home::RecordKey),
    /// The key of a [`Record::Guest`].
    Guest(ContractId, guest::RecordKey),
    /// The key of a [`Record::Namespaces`].
    Namespaces(ContractId),
    /// The key of a [`Record::Federation`].
    Federation(FederationKey),
    /// The key of a [`Record::Key`].
    Key(ClusterId),
    /// The key of a [`Record::Range`].
    Range(RangeOwner),
}

impl RecordKey {
    /// What it is a key of, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Broker(_) => "broker",
            Self::Home(..) => "home",
            Self::Guest(..) => "guest",
            Self::Namespaces(_) => "namespaces",
            Self::Federation(_) => "federation",
            Self::Key(_) => "key",
            Self::Range(_) => "range",
        }
    }
}

impl Record {
    /// Where it is kept; a later record of the same key replaces it.
    pub fn key(&self) -> RecordKey {
        match self {
            Self::Broker(record) => RecordKey::Broker(record.key()),
            Self::Home(contract, record) => RecordKey::Home(*contract, record.key()),
            Self::Guest(contract, record) => RecordKey::Guest(*contract, record.key()),
            Self::Namespaces(contract, _) => RecordKey::Namespaces(*contract),
            Self::Federation(record) => RecordKey::Federation(record.key()),
            Self::Key(cluster, ..) => RecordKey::Key(*cluster),
            Self::Range(owner, _) => RecordKey::Range(*owner),
        }
    }

    /// The bytes that are kept on disk.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes(self)
    }

    /// The record of such bytes; the error says why they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        ciborium::from_reader(bytes).map_err(|error| error.to_string())
    }

    /// Whether it may be kept: an error if it is above its bound.
    pub fn fits(&self) -> Result<(), TooLarge> {
        let mut count = Count(0);
        ciborium::into_writer(self, &mut count).expect("counting cannot fail");
        let Count(bytes) = count;
        if bytes > limits::RECORD_BYTES { Err(TooLarge { bytes }) } else { Ok(()) }
    }
}

impl RecordKey {
    /// As a record is kept under it.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes(self)
    }
}

/// A record is above [`limits::RECORD_BYTES`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a record of {bytes} bytes, at most {most} are kept", most = limits::RECORD_BYTES)]
pub struct TooLarge {
    /// The size that the value would have, in bytes.
    pub bytes: usize,
}

fn bytes(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).expect("records always encode into memory");
    bytes
}

/// Counts the bytes that are written, and keeps none.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0 += data.len();
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is remembered of the federations that this cluster goes by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FederationRecord {
    /// What it is known by, and belonged to by.
    Papers(Box<Papers>),
    /// The latest list of an issuer in a federation.
    Revocations(FederationId, PublicKey, Signed<RevocationList>),
    /// The proof that a publisher signed two advertisements under one number.
    Fraud(PublicKey, Box<Equivocation>),
    /// Of the registrar of a federation.
    Registrar(FederationId, RegistrarRecord),
}

/// What a [`FederationRecord`] is kept under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FederationKey {
    /// The key of a [`FederationRecord::Papers`].
    Papers(FederationId),
    /// The key of a [`FederationRecord::Revocations`].
    Revocations(FederationId, PublicKey),
    /// The key of a [`FederationRecord::Fraud`].
    Fraud(PublicKey),
    /// The key of a [`RegistrarRecord::Token`].
    Token(FederationId, Digest),
    /// The key of a [`RegistrarRecord::Issued`].
    Issued(FederationId, ClusterId),
    /// The key of a [`RegistrarRecord::Numbers`].
    Numbers(FederationId),
}

impl FederationRecord {
    fn key(&self) -> FederationKey {
        match self {
            Self::Papers(papers) => FederationKey::Papers(papers.id()),
            Self::Revocations(of, issuer, _) => FederationKey::Revocations(*of, *issuer),
            Self::Fraud(publisher, _) => FederationKey::Fraud(*publisher),
            Self::Registrar(of, record) => match record {
                RegistrarRecord::Token(digest, _) => FederationKey::Token(*of, *digest),
                RegistrarRecord::Issued(cluster, _) => FederationKey::Issued(*of, *cluster),
                RegistrarRecord::Numbers { .. } => FederationKey::Numbers(*of),
            },
        }
    }
}

/// One change of the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "most are records, and none is kept for long")]
pub enum Change {
    /// Keep this record, in the place of one with the same key.
    Put(Record),
    /// Keep what has this key no longer.
    Erase(RecordKey),
}

impl Change {
    /// Of which leases it is. What the pool of tunnel addresses gave is of all.
    pub(crate) fn leases(&self) -> LeasesAhead {
        let key = match self {
            Self::Put(record) => &record.key(),
            Self::Erase(key) => key,
        };
        match key {
            RecordKey::Home(contract, _)
            | RecordKey::Guest(contract, _)
            | RecordKey::Namespaces(contract) => LeasesAhead::one(*contract),
            RecordKey::Range(_) => LeasesAhead::All,
            RecordKey::Broker(_) | RecordKey::Federation(_) | RecordKey::Key(_) => {
                LeasesAhead::NONE
            }
        }
    }
}

/// All records that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records(BTreeMap<RecordKey, Record>);

impl Records {
    /// Makes one change to the records in memory.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Put(record) => drop(self.0.insert(record.key(), record)),
            Change::Erase(key) => drop(self.0.remove(&key)),
        }
    }

    /// The one of this key.
    pub fn get(&self, key: &RecordKey) -> Option<&Record> {
        self.0.get(key)
    }

    /// Each of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.0.values()
    }
}

impl FromIterator<Record> for Records {
    fn from_iter<I: IntoIterator<Item = Record>>(records: I) -> Self {
        Self(records.into_iter().map(|record| (record.key(), record)).collect())
    }
}
