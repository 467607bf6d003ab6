//! What is held and passed on: a publication with its mark, and the body that it names,
//! each made once when it is opened and shared by whoever holds it.

use std::sync::{Arc, OnceLock};

use mercato_protocol::ad::{Ad, AdError, AdLease, OpenedBody};
use mercato_protocol::envelope::Verified;
use mercato_protocol::equivocation::Word;
use mercato_protocol::gossip::{Mark, Publication, VerifiedPublication};
use mercato_protocol::id::Digest;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::text::Blob;

use crate::limits;

/// A publication whose signature and time were checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Item {
    publication: VerifiedPublication,
    mark: Mark,
    /// When its publisher says that it begins, wall clock.
    pub(crate) starts_ms: u64,
    /// When every clock within the skew that is allowed finds it over.
    pub(crate) ends_ms: u64,
}

impl Item {
    /// Of what was opened.
    pub fn new(publication: VerifiedPublication) -> Self {
        let (starts_ms, ends_ms) = publication.validity_ms();
        let ends_ms = ends_ms.saturating_add(CLOCK_SKEW_MS);
        Self { mark: publication.mark(), publication, starts_ms, ends_ms }
    }

    /// What it adds to what is known of its publisher.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// The publication itself.
    pub fn publication(&self) -> &VerifiedPublication {
        &self.publication
    }

    /// The body that it names, if it is a lease.
    pub(crate) fn names(&self) -> Option<&Digest> {
        match &self.publication {
            VerifiedPublication::Lease(lease) => Some(&lease.body),
            VerifiedPublication::Withdraw(_)
            | VerifiedPublication::Equivocation(_)
            | VerifiedPublication::Revocations(..) => None,
        }
    }
}

/// Bytes that a lease names by their digest.
#[derive(Debug)]
pub struct Body {
    digest: Digest,
    bytes: Blob,
    /// What they say, once somebody has asked.
    opened: OnceLock<Result<OpenedBody, AdError>>,
}

impl Body {
    /// Of bytes as they came.
    pub fn new(bytes: Blob) -> Self {
        Self { digest: Digest::of(&bytes.0), bytes, opened: OnceLock::new() }
    }

    /// Of the bytes.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The bytes.
    pub fn bytes(&self) -> &Blob {
        &self.bytes
    }

    /// What they say.
    fn opened(&self) -> Result<&OpenedBody, AdError> {
        self.opened.get_or_init(|| OpenedBody::open(&self.bytes.0)).as_ref().map_err(Clone::clone)
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Body {}

/// A publication that is whole: a lease with its body, or one that needs none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub(crate) item: Arc<Item>,
    pub(crate) body: Option<Arc<Body>>,
}

impl News {
    /// An advertisement, if these are the bytes that the lease names.
    pub fn ad(lease: Verified<AdLease>, body: Blob) -> Option<Self> {
        Self::whole(
            Arc::new(Item::new(VerifiedPublication::Lease(lease))),
            Some(Body::new(body).into()),
        )
    }

    /// What is whole without a body; none for a lease.
    pub fn plain(publication: VerifiedPublication) -> Option<Self> {
        Self::whole(Arc::new(Item::new(publication)), None)
    }

    pub(crate) fn whole(item: Arc<Item>, body: Option<Arc<Body>>) -> Option<Self> {
        let fits = item.names() == body.as_deref().map(Body::digest);
        fits.then_some(Self { item, body })
    }

    /// What it adds to what is known of its publisher.
    pub fn mark(&self) -> &Mark {
        self.item.mark()
    }

    /// The publication itself.
    pub fn publication(&self) -> &VerifiedPublication {
        self.item.publication()
    }

    /// The body of an advertisement. That it fits its lease otherwise is still to be checked.
    pub fn body(&self) -> Option<&[u8]> {
        self.body.as_ref().map(|body| &*body.bytes.0)
    }

    /// The advertisement, if it is one. What its body says is read and checked once for all
    /// that hold it.
    pub fn as_ad(&self) -> Option<Result<Ad, AdError>> {
        let VerifiedPublication::Lease(lease) = self.publication() else { return None };
        let opened = self.body.as_ref()?.opened();
        Some(opened.and_then(|opened| Ad::assemble(lease, opened)))
    }

    /// Whether it goes whole to all at once, unasked: whatever ends something and is small.
    pub(crate) fn is_urgent(&self) -> bool {
        self.body.is_none() && size(&self.publication().publication()) <= limits::URGENT_BYTES
    }
}

/// A list of two, a number and the head of a byte string, rounded up.
pub(crate) const ITEM_BYTES: usize = 8;

/// A federation's id as a byte string of a map, with room.
const FEDERATION_BYTES: usize = 40;

/// What a publication takes in a message.
pub(crate) fn size(publication: &Publication) -> usize {
    let word = |word: &Word| match word {
        Word::Lease(lease) => lease.as_bytes().len() + ITEM_BYTES,
        Word::Withdraw(end) => end.as_bytes().len() + ITEM_BYTES,
    };
    let inner = match publication {
        Publication::Lease(lease) => lease.as_bytes().len(),
        Publication::Withdraw(end) => end.as_bytes().len(),
        Publication::Revocations { list, .. } => list.as_bytes().len() + FEDERATION_BYTES,
        Publication::Equivocation(proof) => word(&proof.one) + word(&proof.other),
    };
    inner + ITEM_BYTES
}
