//! What a condition of a NamespaceOffload says beside that it is ready.

/// Whether it holds, why in a word, and in a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) holds: bool,
    pub(super) reason: String,
    pub(super) message: String,
}
