//! What is held and passed on: a publication with its mark and the body that it names, made
//! once when it is opened and shared by whoever holds it.

use std::sync::{Arc, OnceLock};

use mercato_protocol::ad::{Ad, AdError, AdHeader, OpenedBody};
use mercato_protocol::envelope::Verified;
use mercato_protocol::equivocation::Word;
use mercato_protocol::gossip::{Mark, Publication, VerifiedPublication};
use mercato_protocol::id::Digest;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::text::Blob;

use crate::limits;

/// A publication whose signature and time were checked.
#[derive(Debug)]
pub struct Item {
    publication: VerifiedPublication,
    mark: Mark,
    /// When its publisher says that it begins, wall clock.
    pub(crate) starts_ms: u64,
    /// When every clock within the skew that is allowed finds it over.
    pub(crate) ends_ms: u64,
    /// What it names, since the first of those that share this had it.
    body: OnceLock<Arc<Body>>,
}

impl Item {
    /// The item of a publication that was opened.
    pub fn new(publication: VerifiedPublication) -> Self {
        let (starts_ms, ends_ms) = publication.validity_ms();
        let ends_ms = ends_ms.saturating_add(CLOCK_SKEW_MS);
        let (mark, body) = (publication.mark(), OnceLock::new());
        Self { publication, mark, starts_ms, ends_ms, body }
    }

    /// What it adds to what is known of its publisher.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }

    /// The publication, as it was opened.
    pub fn publication(&self) -> &VerifiedPublication {
        &self.publication
    }

    /// The digest of the body that it names, if it is an advertisement.
    pub(crate) fn names(&self) -> Option<&Digest> {
        match &self.publication {
            VerifiedPublication::Header(header) => Some(&header.body),
            VerifiedPublication::Withdraw(_)
            | VerifiedPublication::Equivocation(_)
            | VerifiedPublication::Revocations(..) => None,
        }
    }

    /// The body that it names, if anybody had it.
    pub(crate) fn body(&self) -> Option<&Arc<Body>> {
        self.body.get()
    }

    /// The item with a body that is here already, if it is the one that it names: what was found
    /// out about that need not be found out again.
    pub(crate) fn sharing(self: &Arc<Self>, held: &Arc<Body>) -> Option<Arc<Self>> {
        let own = || self.body().is_some_and(|own| Arc::ptr_eq(own, held));
        self.complete(held).then(|| match own() {
            true => Arc::clone(self),
            false => {
                let other = Self::new(self.publication.clone());
                other.complete(held);
                Arc::new(other)
            }
        })
    }

    /// Takes the body, if it is the one that it names; says whether it is.
    pub(crate) fn complete(&self, body: &Arc<Body>) -> bool {
        let fits = self.names() == Some(body.digest());
        if fits {
            self.body.get_or_init(|| Arc::clone(body));
        }
        fits
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.publication == other.publication
    }
}

impl Eq for Item {}

/// Bytes that a header names by their digest.
#[derive(Debug)]
pub(crate) struct Body {
    digest: Digest,
    bytes: Blob,
    /// What they say, once somebody has asked.
    opened: OnceLock<Result<OpenedBody, AdError>>,
}

impl Body {
    /// The body of these bytes, which it digests.
    pub(crate) fn new(bytes: Blob) -> Self {
        Self { digest: Digest::of(&bytes.0), bytes, opened: OnceLock::new() }
    }

    /// The SHA-256 digest of the bytes.
    pub(crate) fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The bytes as they came.
    pub(crate) fn bytes(&self) -> &Blob {
        &self.bytes
    }

    /// The first four bytes of the digest, big-endian, as in a
    /// [`Pull`](mercato_protocol::gossip::Pull).
    pub(crate) fn prefix(&self) -> u32 {
        self.digest.0.first_chunk().map_or(0, |head| u32::from_be_bytes(*head))
    }

    /// What the bytes say, read once.
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

/// A publication that is whole: an advertisement with its body, or one that needs none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News(pub(crate) Arc<Item>);

impl News {
    /// An advertisement, if these are the bytes that the header names.
    pub fn ad(header: Verified<AdHeader>, body: Blob) -> Option<Self> {
        let item = Item::new(VerifiedPublication::Header(header));
        item.complete(&Arc::new(Body::new(body))).then(|| Self(item.into()))
    }

    /// What is whole without a body; none for an advertisement.
    pub fn plain(publication: VerifiedPublication) -> Option<Self> {
        let item = Item::new(publication);
        item.names().is_none().then(|| Self(item.into()))
    }

    /// Lets go of the body: only the mark counts any more. Others keep it that share this.
    pub(crate) fn strip(&mut self) {
        if self.0.body().is_some() {
            self.0 = Arc::new(Item::new(self.publication().clone()));
        }
    }

    /// What it adds to what is known of its publisher.
    pub fn mark(&self) -> &Mark {
        self.0.mark()
    }

    /// The publication, as it was opened.
    pub fn publication(&self) -> &VerifiedPublication {
        self.0.publication()
    }

    /// The body of an advertisement. That it fits its header otherwise is still to be checked.
    pub fn body(&self) -> Option<&[u8]> {
        self.0.body().map(|body| &*body.bytes.0)
    }

    /// The advertisement, if it is one. What its body says is read and checked once for all
    /// that hold it.
    pub fn as_ad(&self) -> Option<Result<Ad, AdError>> {
        let VerifiedPublication::Header(header) = self.publication() else { return None };
        let opened = self.0.body()?.opened();
        Some(opened.and_then(|opened| Ad::assemble(header, opened)))
    }

    /// Whether it goes whole to all at once, unasked: whatever ends something and is small.
    pub(crate) fn is_urgent(&self) -> bool {
        self.0.body().is_none() && size(&self.publication().publication()) <= limits::URGENT_BYTES
    }
}

/// A list of two, a number and the head of a byte string, rounded up.
pub(crate) const ITEM_BYTES: usize = 8;

/// A federation's id as a byte string of a map, with room.
const FEDERATION_BYTES: usize = 40;

/// What a publication takes in a message.
pub(crate) fn size(publication: &Publication) -> usize {
    let word = |word: &Word| match word {
        Word::Header(header) => header.as_bytes().len() + ITEM_BYTES,
        Word::Withdraw(end) => end.as_bytes().len() + ITEM_BYTES,
    };
    let inner = match publication {
        Publication::Header(header) => header.as_bytes().len(),
        Publication::Withdraw(end) => end.as_bytes().len(),
        Publication::Revocations { list, .. } => list.as_bytes().len() + FEDERATION_BYTES,
        Publication::Equivocation(proof) => word(&proof.one) + word(&proof.other),
    };
    inner + ITEM_BYTES
}
