//! Why bytes are not a message, and the two checks that most messages make.

use thiserror::Error;

/// Why bytes are not a message of ours.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CodecError {
    /// The bytes end inside an item, or a length promises more than there is.
    #[error("the bytes end too early")]
    Truncated,
    /// Something follows the one item.
    #[error("bytes follow the message")]
    Trailing,
    /// A number or length in more bytes than it takes.
    #[error("a number is not in its shortest form")]
    NonMinimal,
    /// A string, list or map without a length.
    #[error("a length is indefinite")]
    Indefinite,
    /// A floating-point number, which no message has.
    #[error("a floating-point number")]
    Float,
    /// A tag, a null or another simple value.
    #[error("a tag or simple value that is not used here")]
    Unsupported,
    /// The same key twice in one map.
    #[error("a key comes twice")]
    DuplicateKey,
    /// A map whose keys are out of order, or twice there.
    #[error("keys are out of order")]
    UnsortedKeys,
    /// A value is nested deeper than [`limits::DEPTH`](crate::limits::DEPTH).
    #[error("nested too deep")]
    TooDeep,
    /// Text that is no UTF-8.
    #[error("text is not UTF-8")]
    NotUtf8,
    /// Text that is not in normalisation form C.
    #[error("text is not in normalisation form C")]
    NotNormalised,
    /// Longer, or more, than the bound.
    #[error("{what}: more than {limit}")]
    TooLong {
        /// What has too many, in words.
        what: &'static str,
        /// How many it may have.
        limit: usize,
    },
    /// Another type of item than this place takes.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A key that this place does not have.
    #[error("unknown field {0}")]
    UnknownField(u64),
    /// A key that this place must have.
    #[error("field {0} is missing")]
    MissingField(u64),
    /// `false` or nothing, spelled out.
    #[error("field {0} is empty and should be left out")]
    EmptyField(u64),
    /// A number that names nothing in a closed list.
    #[error("{0} is not in the list")]
    UnknownVariant(u64),
    /// An extension that must be understood, and is not.
    #[error("extension {0} must be understood")]
    CriticalExtension(u64),
    /// An extension that is known, under the flag that it never has.
    #[error("extension {0} under the other flag")]
    ExtensionFlag(u64),
    /// Well formed, but of an impossible value, as the text says.
    #[error("{0}")]
    Invalid(&'static str),
}

/// An error if there is more than the bound.
pub(crate) fn at_most(what: &'static str, n: usize, limit: usize) -> Result<(), CodecError> {
    if n > limit { Err(CodecError::TooLong { what, limit }) } else { Ok(()) }
}

/// An error unless it holds.
pub(crate) fn ensure(holds: bool, otherwise: &'static str) -> Result<(), CodecError> {
    if holds { Ok(()) } else { Err(CodecError::Invalid(otherwise)) }
}
