//! The largest of what travels for a lease: workload messages, and what opens a kubelet stream.

use std::net::{IpAddr, Ipv6Addr};

use mercato_protocol::kubelet_stream::{
    self, Attach, Exec, Logs, RefusedReason, Transport, Upgrade, What,
};
use mercato_protocol::limits;
use mercato_protocol::text::Blob;
use mercato_protocol::workload::{
    self, BodyHead, EventKind, Frame, Item, ObjectKey, ObjectKind, Outcome, PodEvent, PodId,
    Refusal, Report, Route, Stage, ToGuest, ToHome, Uid,
};

use super::values::*;

const ADDRESS: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, 7));

fn pod() -> PodId {
    PodId {
        uid: Uid(text(0, limits::UID_BYTES)),
        namespace: text(0, limits::LABEL_BYTES),
        name: text(0, limits::SUBDOMAIN_BYTES),
    }
}

fn object() -> ObjectKey {
    ObjectKey {
        kind: ObjectKind::ServiceAccountToken,
        namespace: text(0, limits::LABEL_BYTES),
        name: text(0, limits::SUBDOMAIN_BYTES),
    }
}

fn frame<T>(statements: Vec<T>) -> Frame<T> {
    Frame { from: MAX, to: MAX, seq: MAX, ack: MAX, answer: true, statements }
}

/// Frames that are full of each statement, each with a body.
pub(super) fn workload() -> Vec<workload::Message> {
    let head = BodyHead { digest: DIGEST, length: 2_000, packed: Some(1_999) };
    let bodies = vec![head; limits::FRAME_STATEMENTS];
    let full = limits::FRAME_STATEMENTS;
    let to_guest = std::iter::successors(Some(ToGuest::Drop(object())), after_to_guest);
    let to_home = std::iter::successors(Some(ToHome::HaveEnd), after_to_home);
    let to_guest = to_guest.map(|one| workload::Message::ToGuest {
        frame: frame(vec![one; full]),
        bodies: bodies.clone(),
    });
    let to_home = to_home.map(|one| workload::Message::ToHome {
        frame: frame(vec![one; full]),
        bodies: bodies.clone(),
    });
    to_guest.chain(to_home).collect()
}

fn after_to_guest(statement: &ToGuest) -> Option<ToGuest> {
    Some(match statement {
        ToGuest::Drop(_) => ToGuest::Put {
            item: Item::Pod(pod()),
            digest: DIGEST,
            route: Route {
                origin: CLUSTER,
                path: vec![CLUSTER; limits::PATH_CLUSTERS],
                hops: u32::MAX,
            },
            place: Some(text(0, limits::LABEL_BYTES)),
        },
        ToGuest::Put { .. } => ToGuest::Delete { pod: pod(), grace_s: u32::MAX },
        ToGuest::Delete { .. } => ToGuest::Want(pod()),
        ToGuest::Want(_) => ToGuest::Taken(pod()),
        ToGuest::Taken(_) => ToGuest::Forget(pod()),
        ToGuest::Forget(_) => ToGuest::Address { pod: pod(), address: ADDRESS },
        ToGuest::Address { .. } => ToGuest::Discard(ObjectKey {
            kind: ObjectKind::Claim,
            name: text(0, limits::LABEL_BYTES),
            ..object()
        }),
        ToGuest::Discard(_) => return None,
    })
}

fn after_to_home(statement: &ToHome) -> Option<ToHome> {
    let failed = || Outcome::Failed { reason: wire_text(), message: wire_text() };
    let report = || Report { status: Some(DIGEST), stage: Stage::Gone(failed()) };
    Some(match statement {
        ToHome::HaveEnd => {
            ToHome::Have { item: Item::Pod(pod()), digest: Some(DIGEST), report: Some(report()) }
        }
        ToHome::Have { .. } => ToHome::Status { pod: pod(), report: report() },
        ToHome::Status { .. } => ToHome::Refused {
            item: Item::Pod(pod()),
            refusal: Refusal { path: wire_text(), reason: wire_text() },
        },
        ToHome::Refused { .. } => ToHome::Missing(Item::Pod(pod())),
        ToHome::Missing(_) => ToHome::Event {
            pod: pod(),
            event: PodEvent {
                kind: EventKind::Warning,
                reason: text(0, limits::LABEL_BYTES),
                field: format!("spec.ephemeralContainers{{{}}}", text(0, limits::LABEL_BYTES)),
                message: wire_text(),
                count: u32::MAX,
            },
        },
        ToHome::Event { .. } => {
            ToHome::InForce { pod: pod(), address: Some(ADDRESS), second: false }
        }
        ToHome::InForce { .. } => return None,
    })
}

/// A request of each kind, by whoever wants to use most of it.
pub(super) fn asks() -> Vec<kubelet_stream::Ask> {
    let logs = Logs {
        container: wire_text(),
        follow: true,
        previous: true,
        timestamps: true,
        since_s: Some(MAX),
        since_time: Some(wire_text()),
        tail_lines: Some(MAX),
        limit_bytes: Some(MAX),
    };
    let streams = std::iter::successors(Some(What::Logs(logs)), |what| {
        let container = wire_text();
        let attach = Attach { container, stdin: true, stdout: true, stderr: true, tty: true };
        Some(match what {
            What::Logs(_) => {
                let word = Blob(vec![0; limits::COMMAND_BYTES / limits::COMMAND_WORDS].into());
                What::Exec(Exec { command: vec![word; limits::COMMAND_WORDS], attach })
            }
            What::Exec(_) => What::Attach(attach),
            What::Attach(_) => What::PortForward { ports: vec![65_535; limits::PORTS] },
            What::PortForward { .. } => return None,
        })
    });
    let open = |what| {
        kubelet_stream::Ask::Open(kubelet_stream::Request {
            contract: CONTRACT,
            namespace: wire_text(),
            pod: wire_text(),
            uid: Uid(wire_text()),
            what,
            upgrade: Some(Upgrade {
                transport: Transport::WebSocket,
                protocols: vec![text(0, limits::LABEL_BYTES); limits::SUB_PROTOCOLS],
            }),
        })
    };
    let usage = kubelet_stream::Ask::Usage { contract: CONTRACT, after: Some(Uid(wire_text())) };
    let node = kubelet_stream::Ask::Node { contract: CONTRACT };
    streams.map(open).chain([usage, node]).collect()
}

pub(super) fn node_facts() -> kubelet_stream::NodeFacts {
    let key = |n: usize| {
        let name = "x".repeat(limits::LABEL_BYTES);
        let domain = "x".repeat(limits::NODE_KEY_BYTES - name.len() - 1 - 3);
        format!("{n:03}{domain}/{name}")
    };
    let value = || "x".repeat(limits::LABEL_BYTES);
    kubelet_stream::NodeFacts {
        resources: (0..limits::NODE_RESOURCES).map(|n| (slug(n), key(n))).collect(),
        labels: (0..limits::NODE_LABELS).map(|n| (key(n), value())).collect(),
        region: Some(value()),
        zone: Some(value()),
    }
}

pub(super) fn replies() -> [kubelet_stream::Reply; 2] {
    [
        kubelet_stream::Reply::Accepted { protocol: Some(wire_text()) },
        kubelet_stream::Reply::Refused { reason: RefusedReason::NotServed, text: wire_text() },
    ]
}
