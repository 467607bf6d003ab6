//! Who a cluster is: a self-signed document, whose hash is the cluster's id, and the
//! key pair that signs. Keeping the seed safe is the store's.

use serde::{Deserialize, Serialize};

use crate::id::{Digest, PublicKey};

/// An identity document. The first one of a cluster is signed by its own key, and its
/// hash is the [`ClusterId`](crate::id::ClusterId); each later one brings a new key and is signed by the one
/// before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The key from here on.
    pub key: PublicKey,
    /// What the owner calls the cluster; claimed, not unique.
    pub name: String,
    /// When it was made, wall clock.
    pub issued_ms: u64,
    /// The document that this one replaces; none in the first.
    pub previous: Option<Digest>,
}
