//! Why a table has no answer.

use thiserror::Error;

/// A table that cannot be followed: the kernel would refuse it, or we do not know what it would do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InterpretError {
    /// A rule has a word that we do not know.
    #[error("the chain {chain} has a rule with the word {word}, which is not known here")]
    Unknown {
        /// The chain that has the rule.
        chain: String,
        /// The word, by its name.
        word: String,
    },
    /// A rule names a chain, set, map or tally that is not in its table.
    #[error("the table {table} has no {name}")]
    Missing {
        /// The table that has the rule.
        table: String,
        /// What is not there, by its name.
        name: String,
    },
    /// A rule works on other bytes than are loaded, such as an address of the other family.
    #[error("a rule of the chain {chain} ({comment}) works on {has} bytes as on {needs}")]
    Bytes {
        /// The chain that has the rule.
        chain: String,
        /// What the rule says of itself.
        comment: String,
        /// How many bytes are loaded.
        has: usize,
        /// How many bytes the word needs.
        needs: usize,
    },
    /// Chains lead to each other without an end.
    #[error("the chain {0} leads back to itself")]
    Loop(String),
}
