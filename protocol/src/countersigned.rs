//! What both parties have signed.

use std::ops::Deref;

use crate::envelope::{EnvelopeError, Payload, Verified};
use crate::id::ClusterId;

/// A payload that holds once both of its parties have signed the same bytes.
pub trait Bilateral: Payload {
    /// Who has to sign: provider and consumer, in this order.
    fn parties(&self) -> (ClusterId, ClusterId);
}

/// A value that both parties signed. Made by [`join`](Countersigned::join) only; stored
/// as its two [`Signed`](crate::envelope::Signed) halves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Countersigned<T> {
    provider: Verified<T>,
    consumer: Verified<T>,
}

impl<T: Bilateral> Countersigned<T> {
    /// Refuses two halves that are not of both parties over the same bytes.
    pub fn join(provider: Verified<T>, consumer: Verified<T>) -> Result<Self, EnvelopeError> {
        let (seller, buyer) = provider.parties();
        let same = provider.payload() == consumer.payload();
        let parties = (provider.cluster(), consumer.cluster()) == (Some(seller), Some(buyer));
        if same && parties {
            Ok(Self { provider, consumer })
        } else {
            Err(EnvelopeError::NotCountersigned)
        }
    }

    /// The message as the provider signed it.
    pub fn provider(&self) -> &Verified<T> {
        &self.provider
    }

    /// The message as the consumer signed it.
    pub fn consumer(&self) -> &Verified<T> {
        &self.consumer
    }
}

impl<T> Deref for Countersigned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.provider
    }
}
