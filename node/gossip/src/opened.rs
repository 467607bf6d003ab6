//! A neighbour's message on its way in: what it carries is checked before the state
//! machine sees it.

use std::collections::VecDeque;
use std::sync::Arc;

use mercato_protocol::envelope::EnvelopeError;
use mercato_protocol::gossip::{Message, Publication};
use mercato_protocol::id::{Digest, FederationId};
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

/// A publication that a message carries, and the body that it names if that came along.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) item: Arc<Item>,
    pub(crate) body: Option<Arc<Body>>,
}

/// How what a message carries is checked. One that remembers is given the same again: an
/// item is shared by all that hold it.
pub trait Open {
    /// Checks a publication.
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError>;

    /// Takes the digest of a body.
    fn body(&mut self, body: Blob) -> Arc<Body> {
        Arc::new(Body::new(body))
    }
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
            let bodies = std::mem::take(bodies).into_iter().map(|body| check.body(body));
            let mut bodies: VecDeque<Arc<Body>> = bodies.collect();
            carried.reserve_exact(publications.len());
            for publication in std::mem::take(publications) {
                match check.item(&publication) {
                    Ok(item) => {
                        let body = item.names().and_then(|digest| {
                            take(digest, &mut bodies).or_else(|| again(digest, &carried))
                        });
                        carried.push(Carried { item, body });
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

/// The body with this digest: mostly the next, since they come in one order.
fn take(digest: &Digest, bodies: &mut VecDeque<Arc<Body>>) -> Option<Arc<Body>> {
    let at = bodies.iter().position(|body| body.digest() == digest)?;
    bodies.remove(at)
}

/// One that was named before.
fn again(digest: &Digest, carried: &[Carried]) -> Option<Arc<Body>> {
    let bodies = carried.iter().filter_map(|carried| carried.body.as_ref());
    bodies.into_iter().find(|body| body.digest() == digest).cloned()
}
