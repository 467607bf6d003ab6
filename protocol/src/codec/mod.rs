//! The one form in which values travel: CBOR, RFC 8949 core deterministic encoding,
//! with integer keys and no floats, tags, nulls or indefinite lengths; text is NFC.
//!
//! [`check`] refuses whatever is not canonical before anything is built
//! from it; then each type reads itself. What is `false`, none or an empty list is left
//! out, so there is one encoding of each value. Why not serde: it writes text keys, and
//! its CBOR readers accept non-canonical input.

mod addresses;
mod collections;
mod error;
pub(crate) mod extension;
mod fields;
mod macros;
mod reader;
mod values;
mod wire;
mod writer;

pub use error::CodecError;
pub(crate) use error::{at_most, ensure};
pub(crate) use extension::Extension;
pub(crate) use fields::Nothing;
pub use fields::{Fields, Known};
pub(crate) use macros::{wire_enum, wire_map, wire_union};
pub use reader::{Reader, check};
pub use wire::{Message, Wire};
pub use writer::Writer;
