//! How the small values travel: numbers, text, identifiers.

use super::error::CodecError;
use super::reader::Reader;
use super::wire::Wire;
use super::writer::Writer;
use crate::envelope::Signed;
use crate::gate::GuestUid;
use crate::gossip::Fingerprint;
use crate::id::{
    ClusterId, ContractId, Digest, FederationId, GatewayKey, NegotiationId, PublicKey,
};
use crate::limits;
use crate::price::Currency;
use crate::resources::Resource;
use crate::text::{Blob, Slug};
use crate::workload::Uid;

impl Wire for u64 {
    fn encode(&self, to: &mut Writer) {
        to.uint(*self);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.uint()
    }
}

impl Wire for u32 {
    fn encode(&self, to: &mut Writer) {
        to.uint(u64::from(*self));
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.uint()?.try_into().map_err(|_| CodecError::Expected("a number below 2^32"))
    }
}

impl Wire for bool {
    fn encode(&self, to: &mut Writer) {
        to.bool(*self);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.bool()
    }

    fn is_absent(&self) -> bool {
        !self
    }

    fn absent() -> Option<Self> {
        Some(false)
    }
}

impl Wire for String {
    fn encode(&self, to: &mut Writer) {
        to.text(self);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.text(limits::TEXT_BYTES).map(str::to_owned)
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

/// Values that are text with a grammar.
macro_rules! wire_text {
    ($($type:ident as $what:literal),+) => {$(
        impl Wire for $type {
            fn encode(&self, to: &mut Writer) {
                to.text(self.as_str());
            }

            fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
                let text = from.text(limits::TEXT_BYTES)?;
                text.parse().map_err(|_| CodecError::Invalid($what))
            }
        }
    )+};
}

wire_text!(
    Slug as "a name outside its grammar",
    Currency as "not a currency",
    GuestUid as "not the uid of a pod"
);

/// Identifiers: byte strings of one length.
macro_rules! wire_id {
    ($($type:ident),+) => {$(
        impl Wire for $type {
            fn encode(&self, to: &mut Writer) {
                to.bytes(&self.0);
            }

            fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
                let bytes = from.bytes(limits::TEXT_BYTES)?;
                let bytes = bytes.try_into().map_err(|_| {
                    CodecError::Expected(concat!("the length of a ", stringify!($type)))
                })?;
                Ok(Self(bytes))
            }
        }
    )+};
}

wire_id!(ClusterId, ContractId, PublicKey, Digest, FederationId, NegotiationId, GatewayKey);

impl Wire for Uid {
    fn encode(&self, to: &mut Writer) {
        to.text(&self.0);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.text(limits::UID_BYTES).map(|uid| Self(uid.to_owned()))
    }
}

impl Wire for Blob {
    fn encode(&self, to: &mut Writer) {
        to.bytes(&self.0);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.bytes(usize::MAX).map(|bytes| Self(bytes.into()))
    }
}

impl<T> Wire for Signed<T> {
    fn encode(&self, to: &mut Writer) {
        to.bytes(self.as_bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.bytes(usize::MAX).map(Self::from_bytes)
    }
}

impl Wire for Fingerprint {
    fn encode(&self, to: &mut Writer) {
        to.uint(self.0);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        from.uint().map(Self)
    }
}

/// A number for what every pool has, the model's name for a GPU: short as a map's key.
impl Wire for Resource {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Cpu => to.uint(0),
            Self::Memory => to.uint(1),
            Self::Pods => to.uint(2),
            Self::Storage => to.uint(3),
            Self::Gpu(model) => model.encode(to),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        if from.is_text() {
            return Slug::decode(from).map(Self::Gpu);
        }
        match from.uint()? {
            0 => Ok(Self::Cpu),
            1 => Ok(Self::Memory),
            2 => Ok(Self::Pods),
            3 => Ok(Self::Storage),
            other => Err(CodecError::UnknownVariant(other)),
        }
    }
}
