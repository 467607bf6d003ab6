//! Which bugs can be planted. The tests demand that the invariants catch every one.

use std::fmt;
use std::str::FromStr;

use crate::plan::Topology;

/// A bug that somebody might write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// What is said goes out before it is on disk.
    SendBeforePersist,
    /// An empty list of pods is taken for "all deleted", at home.
    EmptyListDeletesAtHome,
    /// An empty list of guests is taken for "all gone", at the provider.
    EmptyListDeletesGuests,
    /// A contract's record is not kept: what was held for it is forgotten in a crash, and
    /// it is signed anew.
    HoldForgotten,
    /// That a pod was removed at home is not remembered.
    TombstoneForgotten,
    /// That a pod has run is not remembered: it may run again.
    LifeForgotten,
    /// Our finalizer is taken off before the pod's end is on record.
    ReleasedEarly,
    /// Numbers of advertisements are not reserved on disk.
    AdNumberReused,
    /// Epochs of links are not kept: a new run says things anew under an old one.
    EpochReused,
    /// A receipt is overwritten by an earlier one.
    ReceiptShrinks,
    /// A pod that is over is made once more.
    UidRunsAgain,
    /// A link that is down is taken for a node that is down: its pods are finished off.
    LinkDownIsNodeDown,
    /// Home finishes a deletion before the guest is over.
    DeletionFinishedEarly,
    /// A new link is not noticed: nothing is said again.
    ResyncForgotten,
    /// The end of a lease is not remembered.
    EndForgotten,
    /// A firm offer is not kept: it is made anew after a crash.
    OfferForgotten,
    /// A change that is signed is not kept.
    ChangeForgotten,
    /// A lease goes on as it was once its contract has changed.
    LeaseUnchanged,
    /// Frames are said again though nothing was lost.
    SaidTwice,
    /// The first words to a peer that has come back go over the connection of before, and count as
    /// said.
    DeadLinkKept,
    /// An object at the provider is overwritten though it is not the lease's.
    OverwritesOthers,
    /// Guests take more than the contract has.
    RoomIgnored,
    /// Pods leave a namespace that did not opt in.
    OptInIgnored,
    /// A lease of which nothing is to be left goes back to being drained.
    EndTakenBack,
    /// An agent is not told that its records cannot be written.
    FullDiskIgnored,
    /// Every pod of a lease gets the address of its first.
    AddressGivenTwice,
    /// A guest counts as reached once its gateway is asked, not once packets are brought to it.
    ReadyBeforeReached,
    /// The provider is not told that an endpoint has gone with its pod.
    EndpointOutlivesPod,
    /// A frame with a body that is not taken is dropped, as if its stream had ended: it is said again
    /// and again.
    BodyEndsStream,
    /// That a lease was extended is not seen: its node shows that it leaves as if it were not.
    LeavingForgotten,
    /// What is stored goes with the last pod that had it.
    ClaimsGoWithPods,
    /// What was bought by itself is bought again before its node is there.
    BoughtTwice,
    /// That something was bought by itself is not remembered.
    MarkForgotten,
    /// What was bought by itself and takes no pod is given back by nobody.
    BoughtInVain,
    /// Services are told of a namespace that opens none.
    ClosedNamespaceTold,
    /// A namespace that was open once is told of on, though its owner has taken that back.
    OpenOutlivesConsent,
    /// The lease of a contract has a way out to all of the Internet, whatever its provider offered.
    EgressBeyondOffer,
}

impl Bug {
    /// All planted bugs that there are.
    pub const ALL: [Self; 37] = [
        Self::SendBeforePersist,
        Self::EmptyListDeletesAtHome,
        Self::EmptyListDeletesGuests,
        Self::HoldForgotten,
        Self::TombstoneForgotten,
        Self::LifeForgotten,
        Self::ReleasedEarly,
        Self::AdNumberReused,
        Self::EpochReused,
        Self::ReceiptShrinks,
        Self::UidRunsAgain,
        Self::LinkDownIsNodeDown,
        Self::DeletionFinishedEarly,
        Self::ResyncForgotten,
        Self::EndForgotten,
        Self::OfferForgotten,
        Self::ChangeForgotten,
        Self::LeaseUnchanged,
        Self::SaidTwice,
        Self::DeadLinkKept,
        Self::OverwritesOthers,
        Self::RoomIgnored,
        Self::OptInIgnored,
        Self::EndTakenBack,
        Self::FullDiskIgnored,
        Self::AddressGivenTwice,
        Self::ReadyBeforeReached,
        Self::EndpointOutlivesPod,
        Self::BodyEndsStream,
        Self::LeavingForgotten,
        Self::ClaimsGoWithPods,
        Self::BoughtTwice,
        Self::MarkForgotten,
        Self::BoughtInVain,
        Self::ClosedNamespaceTold,
        Self::OpenOutlivesConsent,
        Self::EgressBeyondOffer,
    ];

    /// In which federation it shows.
    pub fn topology(self) -> Topology {
        match self {
            Self::BoughtTwice | Self::MarkForgotten | Self::BoughtInVain => Topology::Overflow,
            Self::SendBeforePersist
            | Self::EmptyListDeletesAtHome
            | Self::EmptyListDeletesGuests
            | Self::HoldForgotten
            | Self::TombstoneForgotten
            | Self::LifeForgotten
            | Self::ReleasedEarly
            | Self::AdNumberReused
            | Self::EpochReused
            | Self::ReceiptShrinks
            | Self::UidRunsAgain
            | Self::LinkDownIsNodeDown
            | Self::DeletionFinishedEarly
            | Self::ResyncForgotten
            | Self::EndForgotten
            | Self::OfferForgotten
            | Self::ChangeForgotten
            | Self::LeaseUnchanged
            | Self::SaidTwice
            | Self::DeadLinkKept
            | Self::OverwritesOthers
            | Self::RoomIgnored
            | Self::OptInIgnored
            | Self::EndTakenBack
            | Self::FullDiskIgnored
            | Self::AddressGivenTwice
            | Self::ReadyBeforeReached
            | Self::EndpointOutlivesPod
            | Self::BodyEndsStream
            | Self::LeavingForgotten
            | Self::ClaimsGoWithPods
            | Self::ClosedNamespaceTold
            | Self::OpenOutlivesConsent
            | Self::EgressBeyondOffer => Topology::Pair,
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|bug| bug.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no bug that can be planted: simnet bugs"))
    }
}
