//! What needs the owner's attention, in fields that a program can rely on and a line for a
//! person. The kinds are a closed list, which docs/output.md has, too.

use std::fmt;

use mercato_broker::Side;
use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::price::Money;
use mercato_protocol::resources::Resources;
use serde::{Deserialize, Serialize};

use super::event::{EventFederation, EventPeer};

/// Something that waits for a person. What does not belong to its kind is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attention {
    pub(crate) kind: AttentionKind,
    /// The cluster that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<EventPeer>,
    /// The federation that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) federation: Option<EventFederation>,
    /// The namespace whose budget it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// Which side of the order or contract this cluster is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) side: Option<Side>,
    /// The order; a contract that comes of it has the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<NegotiationId>,
    /// The contract, once both have signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contract: Option<ContractId>,
    /// How much capacity it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quantity: Option<Resources>,
    /// What it costs for the whole term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<Money>,
    /// What was asked for would cost this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked_total: Option<Money>,
    /// What is left of a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<Money>,
    /// How many of them there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<u64>,
    /// By when something is to be done, or it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until_ms: Option<u64>,
    /// When it happened: milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_ms: Option<u64>,
    /// Why: a word of the market protocol, such as `noCapacity` or `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What it is, for a person.
    pub(crate) text: String,
    /// The commands that settle it, one of which is enough; may be empty.
    pub(crate) commands: Vec<String>,
}

impl Attention {
    /// There is no tunnel, and why.
    pub(crate) fn tunnel_off(why: &str) -> Self {
        Self::of(AttentionKind::TunnelOff, format!("pods elsewhere cannot be called: {why}"))
    }

    /// Of no peer and no contract so far.
    pub(crate) fn of(kind: AttentionKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            peer: None,
            federation: None,
            namespace: None,
            side: None,
            order: None,
            contract: None,
            quantity: None,
            total: None,
            asked_total: None,
            left: None,
            count: None,
            until_ms: None,
            at_ms: None,
            reason: None,
            text: text.into(),
            commands: Vec::new(),
        }
    }

    /// With a command that settles it.
    #[must_use]
    pub(crate) fn command(mut self, command: impl Into<String>) -> Self {
        self.commands.push(command.into());
        self
    }
}

/// In a line, as a log has it.
impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.commands.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.commands.join(", or ")),
        }
    }
}

closed_list! {
    /// What needs attention: a closed list.
    AttentionKind, ATTENTION_KINDS {
        /// Provider: requests or changes wait for the owner's approval.
        ApprovalNeeded,
        /// Consumer: a provider offers something else than was ordered.
        FirmOfferWaiting,
        /// Consumer: nothing came of an order.
        OrderFailed,
        /// Consumer: nothing came of a change.
        ChangeRefused,
        /// A contract ended before its term, and not by this side's wish.
        ContractEndedEarly,
        /// Usage is not signed for: the consumer's cluster places no new pods there.
        ContractSuspended,
        /// Consumer: the provider takes a contract back.
        ContractReclaimed,
        /// Consumer: a contract is in the last part of its term.
        ContractEnding,
        /// Consumer: a node is not Ready though its contract is signed.
        NodeNotReady,
        /// More orders and contracts than are named.
        MoreContracts,
        /// The other side of a contract is not reached.
        PeerUnreachable,
        /// One side of a contract does not take what the other says under it.
        LeaseStuck,
        /// A budget is used up.
        BudgetUsedUp,
        /// The registrar refuses to renew a membership.
        MembershipNotRenewed,
        /// A membership ends soon, and is not renewed.
        MembershipEnding,
        /// This cluster is not a member any more.
        MembershipLost,
        /// This registrar's right ends soon.
        RegistrarEnding,
        /// What is shared is not on sale.
        NotOnSale,
        /// Nobody can be told where to connect.
        AddressUnknown,
        /// The local network is not searched.
        LanOff,
        /// There is no tunnel to other clusters.
        TunnelOff,
        /// There is no Kubernetes cluster.
        ClusterOff,
        /// The Kubernetes cluster does not answer.
        ClusterUnreachable,
        /// The daemon's account lacks a right.
        RightMissing,
        /// A node of others is called as virtual ones are.
        NodeNameTaken,
        /// The custom resources are not installed.
        ResourcesMissing,
        /// Another daemon of the same cluster writes the same objects.
        DaemonTwice,
        /// A virtual node waits for its serving certificate.
        CertificateWaiting,
        /// Pods of a namespace do not go where its NamespaceOffload says.
        OffloadNotReady,
        /// A namespace has more Services than a provider takes.
        ServicesLeftOut,
        /// Objects in the cluster change so often that they are written at a pace.
        WritesHeld,
        /// Somebody has changed or deleted what keeps guests within their contract; it was put back.
        PutBack,
        /// Guests wait for their namespace.
        NamespaceWaiting,
        /// A provider keeps what a claim has stored whose volume was taken away by force.
        VolumeLeft,
        /// The data folder cannot be written: no new contracts.
        RecordsReadOnly,
    }
}
