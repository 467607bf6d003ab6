//! What goes into gossip and what comes out.

use std::collections::BTreeSet;
use std::sync::Arc;

use mercato_protocol::ad::AdLease;
use mercato_protocol::envelope::{EnvelopeError, Verified};
use mercato_protocol::gossip::{Mark, Message, Publication, VerifiedPublication, Withdraw};
use mercato_protocol::id::{FederationId, PublicKey};
use mercato_protocol::time::Now;

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A peer is a neighbour from now on.
    Connected(PublicKey),
    /// It no longer is.
    Disconnected(PublicKey),
    /// A neighbour speaks.
    Received {
        /// Who.
        peer: PublicKey,
        /// What it says.
        message: Opened,
    },
    /// This cluster itself publishes.
    Publish(News),
    /// These publishers are known, and no others, besides the neighbours and ourselves.
    /// All others share a narrow lane.
    Known(BTreeSet<PublicKey>),
    /// The time of [`Gossip::wakeup`](crate::Gossip::wakeup) has come.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell a neighbour. What gets lost is made up for.
    Send {
        /// Whom.
        peer: PublicKey,
        /// What.
        message: Message,
    },
    /// Something later than anything before is known of its publisher.
    Learned(News),
}

/// A publication that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An advertisement. That lease and body fit is still to be checked.
    Ad {
        /// The lease, or its renewal.
        lease: Verified<AdLease>,
        /// The bytes that the lease names by their digest.
        body: Arc<[u8]>,
    },
    /// The publisher offers nothing any more.
    End(Verified<Withdraw>),
}

impl News {
    /// What it adds to what is known of its publisher.
    pub fn mark(&self) -> Mark {
        let (publisher, epoch, seq, digest) = match self {
            Self::Ad { lease, .. } => (*lease.key(), lease.epoch, lease.seq, lease.digest()),
            Self::End(end) => (*end.key(), end.epoch, end.seq, end.digest()),
        };
        Mark { publisher, epoch, seq, digest }
    }

    /// As its publisher signed it.
    pub(crate) fn publication(&self) -> Publication {
        match self {
            Self::Ad { lease, .. } => Publication::Lease(lease.signed().clone()),
            Self::End(end) => Publication::Withdraw(end.signed().clone()),
        }
    }
}

/// A neighbour's message, with the signatures of what it carries checked.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Without the publications.
    pub(crate) message: Message,
    pub(crate) publications: Vec<VerifiedPublication>,
    refused: Vec<EnvelopeError>,
}

impl Opened {
    /// Checks each publication; those that are not valid are left out.
    pub fn open(message: Message, federation: FederationId, now: Now) -> Self {
        Self::open_with(message, |publication| publication.open(federation, now))
    }

    /// The same with a check of the caller's, such as one that remembers.
    pub fn open_with(
        mut message: Message,
        mut check: impl FnMut(&Publication) -> Result<VerifiedPublication, EnvelopeError>,
    ) -> Self {
        let (mut publications, mut refused) = (Vec::new(), Vec::new());
        if let Message::Push { publications: carried } = &mut message {
            for publication in std::mem::take(carried) {
                match check(&publication) {
                    Ok(valid) => publications.push(valid),
                    Err(error) => refused.push(error),
                }
            }
        }
        Self { message, publications, refused }
    }

    /// Why publications were left out: for whoever judges the neighbour.
    pub fn refused(&self) -> &[EnvelopeError] {
        &self.refused
    }
}
