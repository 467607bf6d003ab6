//! Events: what happened, in fields that a program can rely on and a line for a person. The
//! kinds are a closed list, which docs/events.md has, too.

use mercato_broker::Side;
use mercato_protocol::id::{ClusterId, ContractId, FederationId, NegotiationId, PublicKey};
use mercato_protocol::price::Money;
use mercato_protocol::resources::Resources;
use mercato_protocol::text::Slug;
use serde::{Deserialize, Serialize};

/// Something that happened. What does not belong to its kind is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    /// Rises by one, also over restarts.
    pub(crate) number: u64,
    /// When it happened: milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) kind: EventKind,
    /// With whom, or about whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<EventPeer>,
    /// The key of a publisher whose cluster is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PublicKey>,
    /// The federation that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) federation: Option<EventFederation>,
    /// Which side of the order, request or contract this cluster is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) side: Option<Side>,
    /// The order or request; a contract that comes of it has the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<NegotiationId>,
    /// The contract, once both have signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) contract: Option<ContractId>,
    /// So much is bought or offered; of a change, is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quantity: Option<Resources>,
    /// For so long in all, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) term_s: Option<u64>,
    /// What it costs for the whole term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<Money>,
    /// What was asked for would cost this; of a change: the contract without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked_total: Option<Money>,
    /// Why it is over: a word of the market protocol, such as `noCapacity` or `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// All of it, in a line.
    pub(crate) text: String,
}

/// Another cluster that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventPeer {
    pub(crate) id: ClusterId,
    /// What it calls itself, as far as that is known.
    pub(crate) name: Option<String>,
}

/// A federation that an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventFederation {
    pub(crate) id: FederationId,
    pub(crate) name: Slug,
}

impl Event {
    /// Of no peer and no contract so far. Number and time are the journal's to say.
    pub(crate) fn of(kind: EventKind, text: impl Into<String>) -> Self {
        Self {
            number: 0,
            at_ms: 0,
            kind,
            peer: None,
            key: None,
            federation: None,
            side: None,
            order: None,
            contract: None,
            quantity: None,
            term_s: None,
            total: None,
            asked_total: None,
            reason: None,
            text: text.into(),
        }
    }
}

closed_list! {
    /// What happened: a closed list.
    EventKind, EVENT_KINDS {
        /// A peer connected, and said who it is.
        PeerConnected,
        /// The last connection with a peer is gone.
        PeerDisconnected,
        /// A peer replaced its key.
        PeerKeyChanged,
        /// Somebody came with a key that its cluster has replaced, and was refused.
        PeerKeyOutdated,
        /// The owner trusts a peer.
        PeerTrusted,
        /// The owner blocked a peer.
        PeerBlocked,
        /// The owner neither trusts nor blocks a peer any more.
        PeerForgotten,
        /// Gossip takes nothing more from a neighbour that forged, or failed too often.
        PeerBanned,
        /// A publisher signed two advertisements under one number.
        FraudProven,
        /// A publication is not a valid advertisement.
        AdRejected,
        /// A provider published an offer.
        OfferPublished,
        /// A provider withdrew its offer.
        OfferWithdrawn,
        /// Consumer: an order was sent.
        OrderSent,
        /// Consumer: the provider's owner has to approve an order.
        OrderInReview,
        /// Consumer: the provider refused an order.
        OrderRefused,
        /// Consumer: an order was not answered in time.
        OrderLapsed,
        /// Consumer: the owner withdrew an order, or declined an offer.
        OrderWithdrawn,
        /// Provider: a request needs approval.
        RequestReceived,
        /// Provider: a request was refused, by the owner or by policy.
        RequestRefused,
        /// Provider: a request was not answered in time.
        RequestLapsed,
        /// Provider: the consumer withdrew a request, or declined an offer.
        RequestWithdrawn,
        /// Provider: a firm offer was made, and its capacity is held.
        FirmOfferSent,
        /// Consumer: a firm offer waits for an answer.
        FirmOfferReceived,
        /// A firm offer was not taken in time.
        FirmOfferLapsed,
        /// The provider signed a contract.
        ContractAgreed,
        /// Both sides signed a contract.
        ContractSigned,
        /// A contract is in use, and billed.
        ContractActive,
        /// Usage reports stayed unsigned: the consumer's cluster places no new pods there.
        ContractSuspended,
        /// The provider takes the capacity back.
        ContractReclaiming,
        /// One side of a contract does not take what the other says under it.
        LeaseStuck,
        /// A contract is over, on this side at least.
        ContractClosed,
        /// Consumer: a change of a contract was asked for.
        ChangeRequested,
        /// Consumer: the provider's owner has to approve a change.
        ChangeInReview,
        /// Provider: a change needs approval.
        ChangeReceived,
        /// The provider signed a change.
        ChangeAgreed,
        /// A change stands: the contract is so from now on.
        ChangeMade,
        /// A change was refused by the other side.
        ChangeRefused,
        /// A change was not answered in time.
        ChangeLapsed,
        /// The consumer withdrew a change.
        ChangeWithdrawn,
        /// Consumer: a contract was made by itself for pods without room.
        BurstBought,
        /// Consumer: nothing can be bought for pods without room: no offer suits.
        BurstNoOffer,
        /// Consumer: nothing more may be bought for pods without room.
        BurstOverBudget,
        /// Consumer: a contract that was made by itself took none of the pods it was for, and was cancelled.
        BurstInVain,
        /// Consumer: a contract that was made by itself is not extended, though pods are on it.
        BurstNotExtended,
        /// Consumer: a contract that was made by itself was cancelled: no pod was on it any more.
        BurstGivenBack,
        /// Consumer: a provider did not sign in time what was to be bought by itself; the next one is asked.
        BurstGivenUp,
        /// This cluster is a member of a federation.
        FederationJoined,
        /// This cluster goes by the certificates of a federation, and is no member.
        FederationFollowed,
        /// This cluster has its next membership certificate.
        FederationRenewed,
        /// This cluster left a federation.
        FederationLeft,
        /// This cluster's membership certificate was revoked.
        FederationRevoked,
        /// This cluster's membership certificate has expired.
        FederationExpired,
        /// The registrar did not answer when a membership was to be renewed.
        FederationRegistrarUnreachable,
        /// The registrar refused to renew a membership.
        FederationNotRenewed,
        /// This cluster, as the registrar, let a member in.
        FederationMemberJoined,
        /// This cluster, as the registrar, gave a member another organisation or other rights.
        FederationMemberChanged,
        /// Another member's certificate was revoked.
        FederationMemberRevoked,
        /// Another member's certificate has expired.
        FederationMemberExpired,
        /// The daemon of this cluster has started.
        DaemonStarted,
        /// The key of this cluster was replaced.
        KeyReplaced,
        /// The data folder cannot be written: no new contracts.
        RecordsReadOnly,
        /// The data folder can be written again.
        RecordsWritable,
        /// Something is refused, for its record would be too large.
        TooLarge,
        /// The Kubernetes cluster does not answer.
        ClusterUnreachable,
        /// The Kubernetes cluster answers again.
        ClusterReachable,
        /// Provider: guests are closed on each node, and may be sold so.
        IsolationProven,
        /// Provider: on a node guests are not closed any more, or our name server does not listen there: nothing
        /// is sold so.
        IsolationLost,
        /// Somebody else has changed packet rules of ours on a node, which has put them back.
        PacketRulesRestored,
        /// A node is not told all that leases need, since no message may have it.
        LeaseUntold,
        /// More happened at once than could be kept.
        EventsLost,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::present::text::name;

    /// The first column of the table of kinds.
    fn documented() -> BTreeSet<String> {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/events.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, kinds) = page.split_once("## Kinds").unwrap();
        let rows = kinds.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect()
    }

    #[test]
    fn every_kind_is_documented_and_no_other() {
        let kinds: BTreeSet<String> = EVENT_KINDS.iter().map(name).collect();
        assert_eq!(kinds.len(), EVENT_KINDS.len());
        assert!(kinds.iter().all(|kind| kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
        assert_eq!(kinds, documented());
    }

    #[test]
    fn what_does_not_belong_to_an_event_is_left_out() {
        let event = Event::of(EventKind::DaemonStarted, "rome has started");
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "number": 0, "atMs": 0, "kind": "daemon_started", "text": "rome has started",
            })
        );
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
    }
}
