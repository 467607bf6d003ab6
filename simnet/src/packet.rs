//! What is under way between two clusters.

use std::fmt;

use mercato_agent::Frame;
use mercato_offload::message::{ToGuest, ToHome};
use mercato_protocol::envelope::Signed;
use mercato_protocol::gossip::Message as Gossip;
use mercato_protocol::id::{ContractId, Digest};
use mercato_protocol::negotiation::Message;
use serde_json::Value;

#[derive(Clone, Debug)]
pub(crate) enum Packet {
    Gossip(Gossip),
    Negotiation(Signed<Message>),
    Workload { contract: ContractId, frame: Frame, bodies: Vec<Value> },
}

/// The bodies that go with a frame.
pub(crate) fn carried(frame: &Frame) -> Vec<Digest> {
    match frame {
        Frame::ToGuest(frame) => {
            let put = |said: &ToGuest| match said {
                ToGuest::Put { digest, .. } => Some(*digest),
                ToGuest::Delete { .. }
                | ToGuest::Drop(_)
                | ToGuest::Want(_)
                | ToGuest::Taken(_)
                | ToGuest::Forget(_) => None,
            };
            frame.statements.iter().filter_map(put).collect()
        }
        Frame::ToHome(frame) => {
            let status = |said: &ToHome| match said {
                ToHome::Status { report, .. } => report.status,
                ToHome::Have { .. }
                | ToHome::HaveEnd
                | ToHome::Refused { .. }
                | ToHome::Missing(_) => None,
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
            Self::Negotiation(message) => write!(f, "negotiation {:.8}", message.digest()),
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
