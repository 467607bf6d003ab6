//! What people are told of bursts.

use mercato_protocol::id::{ClusterId, NegotiationId};

use crate::deal::BurstKey;

/// A decision, or that there can be none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurstNews {
    /// For whose pods it is.
    pub key: BurstKey,
    /// What was decided, or why nothing can be.
    pub word: BurstWord,
    /// The order, and the contract that comes of it; none: there is none.
    pub deal: Option<NegotiationId>,
    /// The provider of that order or contract.
    pub provider: Option<ClusterId>,
    /// Some of the pods that it is about, by name and uid.
    pub pods: Vec<[String; 2]>,
    /// All of it, in a line.
    pub text: String,
}

/// What was decided, or why nothing can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BurstWord {
    /// A contract was made for them.
    Bought,
    /// No provider offers what they need at a price that is paid.
    NoOffer,
    /// The owner allows no more than is bought already, or has no money left for it.
    OverBudget,
    /// What was bought for them took none of them.
    BoughtInVain,
    /// A contract ends though pods are on its node.
    NotExtended,
    /// A contract was ended early: no pod is on its node.
    GivenBack,
    /// A provider did not sign, and is left for the next.
    GivenUp,
}

impl BurstWord {
    /// As an event on a pod has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bought => "Bought",
            Self::NoOffer => "NoOffer",
            Self::OverBudget => "OverBudget",
            Self::BoughtInVain => "BoughtInVain",
            Self::NotExtended => "BurstNotExtended",
            Self::GivenBack => "BurstGivenBack",
            Self::GivenUp => "BurstGivenUp",
        }
    }
}
