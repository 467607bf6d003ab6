//! What opens a stream of a lease.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Fields, Message, Reader, Wire, Writer};
use crate::id::ContractId;
use crate::limits;

/// The first message of a stream, by whoever opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Open {
    /// The lease that the stream is for, by its contract.
    pub contract: ContractId,
    /// Only acknowledgements come on it: they do not wait behind bodies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acks: bool,
    /// The sender refuses a body that it does not take, and listens on. Earlier releases do not know
    /// this word, pass over it, and end a stream over such a body.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refuses_bodies: bool,
}

/// The number of [`Open::refuses_bodies`] among the extensions; its value is empty.
const REFUSES_BODIES: u64 = 2;

impl Message for Open {
    const MAX_BYTES: usize = limits::OPEN_BYTES;
}

impl Wire for Open {
    fn encode(&self, to: &mut Writer) {
        to.map(1 + usize::from(self.refuses_bodies) + usize::from(self.acks));
        if self.refuses_bodies {
            to.uint(0);
            to.map(1);
            to.uint(REFUSES_BODIES);
            to.array(2);
            to.bool(false);
            to.bytes(&[]);
        }
        to.uint(1);
        self.contract.encode(to);
        if self.acks {
            to.uint(2);
            self.acks.encode(to);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut refuses_bodies = false;
        let mut fields = Fields::read_with(from, |id, value| {
            if id == REFUSES_BODIES {
                if !value.is_empty() {
                    return Err(CodecError::Expected("an extension without a value"));
                }
                refuses_bodies = true;
            }
            Ok(())
        })?;
        let (contract, acks) = (fields.take(1)?, fields.take(2)?);
        fields.finish()?;
        Ok(Self { contract, acks, refuses_bodies })
    }
}
