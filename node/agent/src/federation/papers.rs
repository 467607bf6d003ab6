//! What a cluster knows a federation by, and belongs to it by.

use mercato_protocol::certificate::Certificate;
use mercato_protocol::envelope::{EnvelopeError, Signed};
use mercato_protocol::federation::{Federation, Root, Succession};
use mercato_protocol::id::FederationId;
use mercato_protocol::limits::{ADDRESSES, CHAIN, SUBDOMAIN_BYTES, SUCCESSIONS, TEXT_BYTES};
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

/// What a cluster knows a federation by, and belongs to it by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Papers {
    /// The first root document of the federation.
    pub root: Signed<Root>,
    /// Each later one, in order.
    pub successions: Vec<Succession>,
    /// The cluster's certificate, then its registrar's, unless the root signed it. None: the
    /// cluster knows whom the federation certifies, and does not belong to it.
    pub certificates: Vec<Signed<Certificate>>,
    /// Where the registrar can be dialled: multiaddresses.
    pub registrar: Vec<String>,
    /// The DNS name that tells of its peers.
    pub domain: Option<String>,
}

impl Papers {
    /// Of a federation that a domain announces: as yet without a certificate.
    pub fn of_domain(root: Signed<Root>, domain: String) -> Self {
        let (successions, certificates, registrar) = Default::default();
        Self { root, successions, certificates, registrar, domain: Some(domain) }
    }

    /// The fingerprint of the federation that these papers are of.
    pub fn id(&self) -> FederationId {
        self.root.federation_id()
    }

    /// Whether these go on from where `before` was: a root that was replaced is not gone back to.
    pub(crate) fn follow(&self, before: &Self) -> bool {
        self.successions.starts_with(&before.successions)
    }

    /// Whether all that is in them is as long, and as many, as it may be.
    pub(crate) fn fit(&self) -> bool {
        self.certificates.len() <= CHAIN
            && self.registrar.len() <= ADDRESSES
            && self.registrar.iter().all(|address| address.len() <= TEXT_BYTES)
            && self.domain.as_ref().is_none_or(|domain| domain.len() <= SUBDOMAIN_BYTES)
    }

    /// The federation under its latest root.
    pub fn federation(&self, now: Now) -> Result<Federation, EnvelopeError> {
        let first = self.root.open_root(now)?;
        if self.successions.len() > SUCCESSIONS {
            return Err(EnvelopeError::NotNext);
        }
        self.successions.iter().try_fold(first, |federation, next| federation.follow(next, now))
    }
}
