//! A neighbour's message on its way in: what it carries is checked before the state
//! machine sees it.

use std::sync::Arc;

use mercato_protocol::envelope::EnvelopeError;
use mercato_protocol::gossip::{Mark, Message, Publication, VerifiedPublication};
use mercato_protocol::id::{Digest, FederationId};
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;

use crate::item::{Body, Item};

/// A neighbour's message, with the signatures of what it carries checked.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The message without what it carries.
    pub(crate) message: Message,
    pub(crate) carried: Vec<Carried>,
    /// What it says of publications that were left out as it was screened.
    pub(crate) unopened: Vec<Claim>,
    refused: Vec<EnvelopeError>,
}

/// A message without what is worth no more than an announcement; see
/// [`Gossip::screen`](crate::Gossip::screen).
#[derive(Debug)]
pub struct Screened {
    pub(crate) message: Message,
    pub(crate) unopened: Vec<Claim>,
}

/// What a publication says that it is. Of one that came nothing was checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) mark: Mark,
    pub(crate) kind: Kind,
}

/// What matters of a publication before it is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// An advertisement, with the body of this digest.
    Header(Digest),
    /// The end of one, or of certificates.
    End,
    /// A proof that a publisher contradicted itself.
    Proof,
}

impl Claim {
    /// The claim of a publication that was checked.
    pub(crate) fn of(item: &Item) -> Self {
        let kind = match item.publication() {
            VerifiedPublication::Header(header) => Kind::Header(header.body),
            VerifiedPublication::Withdraw(_) | VerifiedPublication::Revocations(..) => Kind::End,
            VerifiedPublication::Equivocation(_) => Kind::Proof,
        };
        Self { mark: *item.mark(), kind }
    }

    /// What a publication claims; none: nothing.
    pub(crate) fn made_by(publication: &Publication) -> Option<Self> {
        let (mark, body) = publication.claims()?;
        let kind = match publication {
            Publication::Header(_) => Kind::Header(body?),
            Publication::Withdraw(_) | Publication::Revocations { .. } => Kind::End,
            Publication::Equivocation(_) => Kind::Proof,
        };
        Some(Self { mark, kind })
    }
}

/// A publication that a message carries.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    pub(crate) item: Arc<Item>,
    /// Whether the body that it names came along, if it names one.
    pub(crate) is_whole: bool,
}

/// How what a message carries is checked. One that remembers is given the same again: an
/// item is shared by all that hold it.
pub trait Open {
    /// Checks signature and time of a publication.
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError>;
}

/// Checks each publication anew, of this federation, at this time.
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

    /// Checks each publication that was found worth it.
    pub fn open_screened(screened: Screened, federation: FederationId, now: Now) -> Self {
        Self::open_screened_with(screened, &mut Fresh(federation, now))
    }

    /// Checks each publication that was found worth it, with a check of the caller's.
    pub fn open_screened_with(screened: Screened, check: &mut impl Open) -> Self {
        let Screened { message, unopened } = screened;
        Self { unopened, ..Self::open_with(message, check) }
    }

    /// Checks each publication with a check of the caller's.
    pub fn open_with(mut message: Message, check: &mut impl Open) -> Self {
        let (mut carried, mut refused) = (Vec::new(), Vec::new());
        if let Message::Push { publications, bodies } = &mut message {
            let mut bodies = Bodies::of(std::mem::take(bodies));
            carried.reserve_exact(publications.len());
            for publication in std::mem::take(publications) {
                match check.item(&publication) {
                    Ok(item) => {
                        let is_whole = bodies.complete(&item) || again(&item, &carried);
                        carried.push(Carried { item, is_whole });
                    }
                    Err(error) => refused.push(error),
                }
            }
        }
        Self { message, carried, unopened: Vec::new(), refused }
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

/// Bodies that came along, in their order. Those that are the very bytes which the item has, of
/// somebody who shares it, need no digest.
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
    let bodies = carried.iter().filter(|carried| carried.is_whole);
    let mut bodies = bodies.filter_map(|carried| carried.item.body());
    item.names().is_none() || bodies.any(|body| item.complete(body))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mercato_protocol::ad::AdHeader;
    use mercato_protocol::envelope::KeyPair;
    use mercato_protocol::id::ClusterId;

    use super::*;

    const NOW: Now = Now { mono_ms: 0, wall_ms: 1_700_000_000_000 };

    /// Gives all the same item.
    #[derive(Default)]
    struct Shared(BTreeMap<Digest, Arc<Item>>);

    impl Open for Shared {
        fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError> {
            let item = Fresh(FederationId::lan(), NOW).item(publication)?;
            Ok(Arc::clone(self.0.entry(item.mark().digest).or_insert(item)))
        }
    }

    fn header(n: u8, body: &Blob) -> Publication {
        let key = KeyPair::from_seed(&[n; 32]);
        let header = AdHeader {
            provider: ClusterId(key.public().0),
            epoch: 1,
            seq: 1,
            body: Digest::of(&body.0),
            issued_ms: NOW.wall_ms,
            ttl_s: 900,
            rows: Vec::new(),
        };
        Publication::Header(key.sign(FederationId::lan(), &header).unwrap())
    }

    #[test]
    fn a_publication_is_whole_if_its_body_came_along() {
        let blob = |byte: u8| Blob(vec![byte; 100].into());
        let [a, b] = [blob(1), blob(2)];
        let [of_a, of_b, also_of_a] = [header(1, &a), header(2, &b), header(3, &a)];
        let both = vec![of_a.clone(), of_b.clone()];
        let mut shared = Shared::default();
        let mut open = |publications: &[Publication], bodies: &[&Blob]| {
            let bodies = bodies.iter().copied().cloned().collect();
            let message = Message::Push { publications: publications.to_vec(), bodies };
            let opened = Opened::open_with(message, &mut shared);
            opened.carried.iter().map(|carried| carried.is_whole).collect::<Vec<_>>()
        };
        assert_eq!(open(&both, &[]), [false, false]);
        assert_eq!(open(&both, &[&b]), [false, true]);
        assert_eq!(open(&both, &[&a, &b]), [true, true]);
        assert_eq!(open(&both, &[&a, &b]), [true, true], "the very same bytes");
        assert_eq!(open(&both, &[&blob(2), &blob(1)]), [true, true], "equal ones, turned round");
        assert_eq!(open(&both, &[&blob(3), &a, &b]), [true, true], "one that nobody names");
        assert_eq!(open(&both, &[]), [false, false], "others had them");
        assert_eq!(open(&both[..1], &[&b]), [false]);
        let twice = [of_a.clone(), also_of_a.clone()];
        assert_eq!(open(&twice, &[&a]), [true, true], "named twice");
    }
}
