//! What is under way between two clusters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use mercato_agent::Frame;
use mercato_offload::key::Item;
use mercato_offload::message::{ToGuest, ToHome};
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::Signed;
use mercato_protocol::gossip::Message as Gossip;
use mercato_protocol::id::{ContractId, Digest};
use mercato_protocol::negotiation::Message;
use mercato_protocol::workload;
use serde_json::Value;

/// Kinds of messages, for the count of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// "I have these", and "send me these".
    Announce,
    /// Advertisements, and withdrawals of them.
    Publication,
    /// What advertisements name by their hash.
    Body,
    /// Comparing all that two neighbours hold.
    Reconcile,
    /// Messages between a buyer and a seller.
    Negotiation,
    /// Pods, what they need, their statuses.
    Workload,
}

impl Kind {
    /// All kinds that there are.
    pub const ALL: [Self; 6] = [
        Self::Announce,
        Self::Publication,
        Self::Body,
        Self::Reconcile,
        Self::Negotiation,
        Self::Workload,
    ];

    /// What people call the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Announce => "announcements",
            Self::Publication => "publications",
            Self::Body => "bodies",
            Self::Reconcile => "reconciliation",
            Self::Negotiation => "negotiation",
            Self::Workload => "workloads",
        }
    }
}

impl Packet {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Gossip(message) => match &**message {
                Gossip::Announce { .. } | Gossip::Pull { .. } => Kind::Announce,
                Gossip::Push { .. } => Kind::Publication,
                Gossip::Root { .. } | Gossip::Buckets { .. } | Gossip::Ids { .. } => {
                    Kind::Reconcile
                }
            },
            Self::Negotiation(..) => Kind::Negotiation,
            Self::Workload { .. } => Kind::Workload,
        }
    }

    /// How many of its bytes are bodies of advertisements.
    pub(crate) fn body_bytes(&self) -> usize {
        match self {
            Self::Gossip(message) => match &**message {
                Gossip::Push { bodies, .. } => bodies.iter().map(|body| body.0.len()).sum(),
                Gossip::Announce { .. }
                | Gossip::Pull { .. }
                | Gossip::Root { .. }
                | Gossip::Buckets { .. }
                | Gossip::Ids { .. } => 0,
            },
            Self::Negotiation(..) | Self::Workload { .. } => 0,
        }
    }

    /// Its length on the wire, with four bytes of length before it.
    pub(crate) fn bytes(&self) -> usize {
        let payload = match self {
            Self::Gossip(message) => message.encoded_len(),
            Self::Negotiation(message, _) => message.as_bytes().len(),
            Self::Workload { frame, bodies, .. } => {
                let bodies: usize = bodies.iter().map(|body| body.to_string().len()).sum();
                let message = match frame.clone() {
                    Frame::ToGuest(frame) => {
                        workload::Message::ToGuest { frame, bodies: Vec::new() }
                    }
                    Frame::ToHome(frame) => workload::Message::ToHome { frame, bodies: Vec::new() },
                };
                bodies + message.encoded_len()
            }
        };
        payload + 4
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Packet {
    /// Shared: the same goes to many.
    Gossip(Arc<Gossip>),
    /// Whether it is said once, but for what the agent is told that was not taken.
    Negotiation(Signed<Message>, bool),
    Workload {
        contract: ContractId,
        frame: Frame,
        bodies: Vec<Value>,
    },
}

/// The bodies that go with a frame, and of what each is.
pub(crate) fn carried(frame: &Frame) -> BTreeMap<Digest, Item> {
    match frame {
        Frame::ToGuest(frame) => {
            let put = |said: &ToGuest| match said {
                ToGuest::Put { digest, item, .. } => Some((*digest, item.clone())),
                ToGuest::Delete { .. }
                | ToGuest::Drop(_)
                | ToGuest::Discard(_)
                | ToGuest::Want(_)
                | ToGuest::Taken(_)
                | ToGuest::Forget(_)
                | ToGuest::Address { .. } => None,
            };
            frame.statements.iter().filter_map(put).collect()
        }
        Frame::ToHome(frame) => {
            let status = |said: &ToHome| match said {
                ToHome::Status { report, pod } => Some((report.status?, Item::Pod(pod.clone()))),
                ToHome::Have { .. }
                | ToHome::HaveEnd
                | ToHome::Refused { .. }
                | ToHome::Missing(_)
                | ToHome::Event { .. }
                | ToHome::InForce { .. } => None,
            };
            frame.statements.iter().filter_map(status).collect()
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gossip(message) => {
                let text = format!("{message:?}");
                let digest = Digest::of(text.as_bytes());
                let kind = text.split([' ', '{']).next().unwrap_or_default();
                write!(f, "gossip {kind} {digest:.8}")
            }
            Self::Negotiation(message, _) => write!(f, "negotiation {:.8}", message.digest()),
            Self::Workload { contract, frame, bodies } => {
                let text = match frame {
                    Frame::ToGuest(frame) => brief(frame),
                    Frame::ToHome(frame) => brief(frame),
                };
                write!(f, "workload {contract:.8} {text} bodies={}", bodies.len())
            }
        }
    }
}

fn brief<T: fmt::Debug>(frame: &mercato_offload::message::Frame<T>) -> String {
    let kinds = frame.statements.iter().map(|said| {
        let text = format!("{said:?}");
        text.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
    });
    let (from, to, seq, ack) = (frame.from, frame.to, frame.seq, frame.ack);
    format!("{from}>{to} seq={seq} ack={ack} {:?}", kinds.collect::<Vec<_>>())
}
