//! A neighbour's message on its way in: what it carries is checked before the state
//! machine sees it.

use std::sync::Arc;

use mercato_protocol::envelope::EnvelopeError;
use mercato_protocol::gossip::{Message, Publication};
use mercato_protocol::id::FederationId;
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;

use crate::item::{Body, Item};

/// A neighbour's message, with the signatures of what it carries checked.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Without what it carries.
    pub(crate) message: Message,
    pub(crate) carried: Vec<Carried>,
    refused: Vec<EnvelopeError>,
}

/// A publication that a message carries.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) item: Arc<Item>,
    /// Whether the body that it names came along, if it names one.
    pub(crate) whole: bool,
}

/// How what a message carries is checked. One that remembers is given the same again: an
/// item is shared by all that hold it.
pub trait Open {
    /// Checks a publication.
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError>;
}

/// Checks everything anew.
struct Fresh(FederationId, Now);

impl Open for Fresh {
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError> {
        publication.open(self.0, self.1).map(|publication| Arc::new(Item::new(publication)))
    }
}

impl Opened {
    /// Checks each publication; those that are not valid are left out.
    pub fn open(message: Message, federation: FederationId, now: Now) -> Self {
        Self::open_with(message, &mut Fresh(federation, now))
    }

    /// The same with a check of the caller's.
    pub fn open_with(mut message: Message, check: &mut impl Open) -> Self {
        let (mut carried, mut refused) = (Vec::new(), Vec::new());
        if let Message::Push { publications, bodies } = &mut message {
            let mut bodies = Bodies::of(std::mem::take(bodies));
            carried.reserve_exact(publications.len());
            for publication in std::mem::take(publications) {
                match check.item(&publication) {
                    Ok(item) => {
                        let whole = bodies.complete(&item) || again(&item, &carried);
                        carried.push(Carried { item, whole });
                    }
                    Err(error) => refused.push(error),
                }
            }
        }
        Self { message, carried, refused }
    }

    /// Why publications were left out.
    pub fn refused(&self) -> &[EnvelopeError] {
        &self.refused
    }

    /// Publications that no honest neighbour passes on, whatever its clock and its release.
    pub(crate) fn forged(&self) -> usize {
        let forged = |error: &&EnvelopeError| match error {
            EnvelopeError::Signature
            | EnvelopeError::Header
            | EnvelopeError::WrongSigner(_)
            | EnvelopeError::NoEquivocation => true,
            EnvelopeError::Codec(_)
            | EnvelopeError::UnknownSigner(_)
            | EnvelopeError::NotYetValid
            | EnvelopeError::Expired
            | EnvelopeError::NotFirst
            | EnvelopeError::NotNext
            | EnvelopeError::NotCountersigned => false,
        };
        self.refused.iter().filter(forged).count()
    }
}

/// Bodies that came along, in their order. A digest is taken only where nobody who shares the
/// item has done so.
struct Bodies {
    coming: std::vec::IntoIter<Blob>,
    /// Those that were not the next to be named.
    passed: Vec<Arc<Body>>,
}

impl Bodies {
    fn of(blobs: Vec<Blob>) -> Self {
        Self { coming: blobs.into_iter(), passed: Vec::new() }
    }

    /// Whether this names a body, of these; then it has it from now on, and they no longer.
    fn complete(&mut self, item: &Item) -> bool {
        if item.names().is_none() {
            return false;
        }
        let next = self.coming.as_slice().first();
        let is_known =
            |body: &Arc<Body>| next.is_some_and(|next| Arc::ptr_eq(&next.0, &body.bytes().0));
        if item.body().is_some_and(is_known) {
            return self.coming.next().is_some();
        }
        if let Some(at) = self.passed.iter().position(|body| item.complete(body)) {
            self.passed.remove(at);
            return true;
        }
        for blob in self.coming.by_ref() {
            let body = Arc::new(Body::new(blob));
            if item.complete(&body) {
                return true;
            }
            self.passed.push(body);
        }
        false
    }
}

/// Whether it names none, or the same as one before.
fn again(item: &Item, carried: &[Carried]) -> bool {
    let bodies = carried.iter().filter(|carried| carried.whole);
    let mut bodies = bodies.filter_map(|carried| carried.item.body());
    item.names().is_none() || bodies.any(|body| item.complete(body))
}
