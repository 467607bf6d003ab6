//! What travels without a signature of its own: hello, gossip, workload, streams.

use mercato_protocol::codec::Message as _;
use mercato_protocol::equivocation::{Equivocation, Word};
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::gossip::{Fingerprint, Mark, Message as Gossip, Publication, Pull, Withdraw};
use mercato_protocol::hello::Hello;
use mercato_protocol::id::{Digest, FederationId};
use mercato_protocol::text::Blob;
use mercato_protocol::workload::{
    BodyHead, EventKind, Frame, Item, Message as Workload, ObjectKey, ObjectKind, Open, Outcome,
    PodEvent, PodId, Refusal, Report, Route, Stage, ToGuest, ToHome, Uid,
};
use mercato_protocol::{kubelet_stream, limits};

use super::{
    consumer, consumer_identity, contract_id, provider, signed_header, small_body, withdraw,
};

pub(crate) fn hello() -> Hello {
    Hello {
        identity: consumer_identity(),
        federation: FederationId::lan(),
        software: "mercato 0.1.0".into(),
        addresses: vec!["/ip4/192.0.2.8/tcp/7474".into()],
        rotations: vec![],
        certificates: vec![],
        time_ms: Some(1_795_161_600_000),
    }
}

/// What opens a request stream, of each kind.
pub(crate) fn requests() -> Vec<(&'static str, FirstFrame)> {
    let (_, word) = super::negotiation().swap_remove(0);
    let word = consumer().sign(FederationId::lan(), &word).unwrap();
    vec![
        ("hello", FirstFrame::Hello(hello())),
        ("join", FirstFrame::Join(super::join_request())),
        ("negotiation", FirstFrame::Negotiation(word)),
    ]
}

pub(crate) fn mark() -> Mark {
    let publisher = provider().public();
    Mark { publisher, epoch: 1, seq: 41, digest: signed_header().digest() }
}

pub(crate) fn gossip() -> Vec<(&'static str, Gossip)> {
    let lan = FederationId::lan();
    let publications = vec![
        Publication::Header(signed_header()),
        Publication::Withdraw(provider().sign(lan, &withdraw()).unwrap()),
    ];
    let root = Fingerprint::of(7, [&mark()]);
    let bodies = vec![Blob(small_body().to_bytes().unwrap().into())];
    let pull = |held| Pull { publisher: mark().publisher, held };
    let mut fingerprints = vec![Fingerprint::default(); limits::BUCKETS];
    fingerprints[mark().bucket() as usize] = root;
    vec![
        ("announce", Gossip::Announce { marks: vec![mark()] }),
        ("pull", Gossip::Pull { wants: vec![pull(None), pull(Some(7))] }),
        ("push", Gossip::Push { publications, bodies }),
        ("equivocation", Gossip::Push { publications: vec![equivocation()], bodies: vec![] }),
        ("root", Gossip::Root { session: 7, root }),
        ("buckets", Gossip::Buckets { session: 7, fingerprints }),
        ("ids", Gossip::Ids { session: 7, buckets: vec![mark().bucket()], marks: vec![mark()] }),
    ]
}

/// An advertisement and a withdrawal under one number.
pub(crate) fn equivocation() -> Publication {
    let end = Withdraw { seq: mark().seq, ..withdraw() };
    let end = provider().sign(FederationId::lan(), &end).unwrap();
    let (one, other) = (Word::Header(signed_header()), Word::Withdraw(end));
    Publication::Equivocation(Equivocation { one, other })
}

fn uid() -> Uid {
    Uid("7d1a33f4-7f1c-4a7e-9b6e-0d4c7f1c2a90".into())
}

fn pod() -> PodId {
    PodId { uid: uid(), namespace: "shop".into(), name: "web-0".into() }
}

fn config_map() -> ObjectKey {
    ObjectKey { kind: ObjectKind::ConfigMap, namespace: "shop".into(), name: "web".into() }
}

pub(crate) fn body() -> Vec<u8> {
    br#"{"kind":"Pod","metadata":{"name":"web-0"}}"#.to_vec()
}

/// One that is worth packing.
pub(crate) fn long_body() -> Vec<u8> {
    let text = "a word and a word and a word, ".repeat(20);
    format!(r#"{{"kind":"ConfigMap","data":{{"text":"{text}"}}}}"#).into_bytes()
}

fn body_head() -> BodyHead {
    let length = u32::try_from(body().len()).unwrap();
    BodyHead { digest: Digest::of(&body()), length, packed: None }
}

fn frame<T>(seq: u64, statements: Vec<T>) -> Frame<T> {
    Frame { from: 3, to: 2, seq, ack: 7, answer: seq > 0, statements }
}

pub(crate) fn put() -> ToGuest {
    let origin = consumer_identity().cluster_id();
    let route = Route { origin, path: vec![origin], hops: 0 };
    ToGuest::Put { item: Item::Pod(pod()), digest: body_head().digest, route, place: None }
}

/// The pod by its address inside the tunnel.
pub(crate) fn called() -> ToGuest {
    ToGuest::Address { pod: pod(), address: "10.203.8.9".parse().unwrap() }
}

/// With a guest namespace of this name.
pub(crate) fn placed(name: &str) -> ToGuest {
    let ToGuest::Put { item, digest, route, .. } = put() else { panic!() };
    ToGuest::Put { item, digest, route, place: Some(name.to_owned()) }
}

/// The claim of that uid.
pub(crate) fn claim(uid: &str) -> ObjectKey {
    ObjectKey { kind: ObjectKind::Claim, namespace: "shop".into(), name: uid.into() }
}

pub(crate) fn to_guest(statements: Vec<ToGuest>, bodies: Vec<BodyHead>) -> Workload {
    Workload::ToGuest { frame: frame(1, statements), bodies }
}

pub(crate) fn workload() -> Vec<(&'static str, Workload)> {
    let digest = Some(body_head().digest);
    let failed = Outcome::Failed { reason: "Evicted".into(), message: "reclaimed".into() };
    let report = |stage| Report { status: digest, stage };
    let refusal =
        Refusal { path: "spec.hostNetwork".into(), reason: "the contract forbids it".into() };
    let from_home = vec![
        ToGuest::Delete { pod: pod(), grace_s: 30 },
        ToGuest::Drop(config_map()),
        ToGuest::Want(pod()),
        ToGuest::Taken(pod()),
        ToGuest::Forget(pod()),
    ];
    let item = Item::Object(config_map());
    let inventory = vec![
        ToHome::Have { item: item.clone(), digest, report: None },
        ToHome::Have { item: Item::Pod(pod()), digest, report: Some(report(Stage::Live)) },
        ToHome::HaveEnd,
    ];
    let statuses = vec![
        ToHome::Status { pod: pod(), report: report(Stage::Ended(Outcome::Succeeded)) },
        ToHome::Status { pod: pod(), report: report(Stage::Gone(failed)) },
    ];
    let complaints = vec![ToHome::Refused { item: item.clone(), refusal }, ToHome::Missing(item)];
    let event = PodEvent {
        kind: EventKind::Warning,
        reason: "BackOff".into(),
        field: "spec.containers{web}".into(),
        message: "Back-off restarting failed container web".into(),
        count: 3,
    };
    let events = vec![ToHome::Event { pod: pod(), event }];
    let address = |text: &str| text.parse().unwrap();
    let addresses = ["10.203.8.9", "fd5b:70e3:9d2a::9"];
    let called = addresses.map(|it| ToGuest::Address { pod: pod(), address: address(it) }).to_vec();
    let in_force = [(Some(addresses[0]), false), (Some(addresses[1]), false), (None, false)];
    let in_both = [(Some(addresses[0]), true)];
    let brought = |(it, second): &(Option<&str>, bool)| ToHome::InForce {
        pod: pod(),
        address: it.map(address),
        second: *second,
    };
    let [in_force, in_both] =
        [&in_force[..], &in_both[..]].map(|all| all.iter().map(brought).collect::<Vec<_>>());
    let ToGuest::Put { digest, route, place, .. } = put() else { panic!() };
    let put_claim = ToGuest::Put { item: Item::Object(claim("0b7c-1f")), digest, route, place };
    let gone = ToHome::Have { item: Item::Object(claim("0c7d-2f")), digest: None, report: None };
    let to_home = |statements, bodies| Workload::ToHome { frame: frame(1, statements), bodies };
    vec![
        ("greeting", Workload::ToGuest { frame: frame(0, vec![]), bodies: vec![] }),
        ("put", to_guest(vec![put()], vec![body_head()])),
        ("put with a packed body", to_guest(vec![put()], vec![BodyHead::pack(&long_body()).0])),
        (
            "probe",
            Workload::ToGuest { frame: Frame { answer: true, ..frame(2, vec![]) }, bodies: vec![] },
        ),
        ("put in a chosen namespace", to_guest(vec![placed("shop-eu")], vec![body_head()])),
        ("from home", to_guest(from_home, vec![])),
        ("inventory", to_home(inventory, vec![])),
        ("statuses", to_home(statuses, vec![body_head()])),
        ("complaints", to_home(complaints, vec![])),
        ("events", to_home(events, vec![])),
        (
            "claims",
            to_guest(vec![put_claim, ToGuest::Discard(claim("0c7d-2f"))], vec![body_head()]),
        ),
        ("a claim that is gone", to_home(vec![gone], vec![])),
        ("addresses", to_guest(called, vec![])),
        ("addresses in force", to_home(in_force, vec![])),
        ("addresses of both families in force", to_home(in_both, vec![])),
    ]
}

pub(crate) fn open() -> Open {
    Open { contract: contract_id(), acks: false, refuses_bodies: false }
}

pub(crate) fn stream_requests() -> Vec<(&'static str, kubelet_stream::Ask)> {
    let container = String::from("web");
    let spdy = kubelet_stream::Upgrade {
        transport: kubelet_stream::Transport::Spdy,
        protocols: vec!["v5.channel.k8s.io".into(), "v4.channel.k8s.io".into()],
    };
    let request = |what, upgrade| {
        kubelet_stream::Ask::Open(kubelet_stream::Request {
            contract: contract_id(),
            namespace: "shop".into(),
            pod: "web-0".into(),
            uid: uid(),
            what,
            upgrade,
        })
    };
    let logs = kubelet_stream::Logs {
        container: container.clone(),
        follow: true,
        tail_lines: Some(100),
        ..Default::default()
    };
    let attach =
        kubelet_stream::Attach { container, stdin: true, stdout: true, stderr: false, tty: true };
    let exec =
        kubelet_stream::Exec { command: vec!["sh".into(), "-c".into(), "exit 3".into()], attach };
    vec![
        ("logs", request(kubelet_stream::What::Logs(logs), None)),
        ("attach", request(kubelet_stream::What::Attach(exec.attach.clone()), Some(spdy.clone()))),
        ("exec", request(kubelet_stream::What::Exec(exec), Some(spdy.clone()))),
        (
            "port-forward",
            request(kubelet_stream::What::PortForward { ports: vec![8080] }, Some(spdy)),
        ),
        ("usage", kubelet_stream::Ask::Usage { contract: contract_id(), after: None }),
        (
            "further usage",
            kubelet_stream::Ask::Usage { contract: contract_id(), after: Some(uid()) },
        ),
        ("node", kubelet_stream::Ask::Node { contract: contract_id() }),
    ]
}

pub(crate) fn node_facts() -> kubelet_stream::NodeFacts {
    let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let resources = [("h100-80gb-sxm.1g.10gb", "nvidia.com/mig-1g.10gb")];
    let labels =
        [("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"), ("nvidia.com/mig.strategy", "mixed")];
    kubelet_stream::NodeFacts {
        resources: resources.map(|(model, name)| (model.parse().unwrap(), name.to_owned())).into(),
        labels: labels.map(text).into(),
        region: Some("eu-south-1".into()),
        zone: None,
    }
}

pub(crate) fn usage() -> kubelet_stream::Usage {
    let container = |name: &str, cpu_nanos| kubelet_stream::ContainerUsage {
        name: name.into(),
        cpu_nanos,
        cpu_nano_cores: 250_000_000,
        memory_bytes: 48 << 20,
    };
    let pod =
        |uid, containers| kubelet_stream::PodUsage { uid, at_ms: 1_799_999_995_000, containers };
    let pods = vec![
        pod(uid(), vec![container("web", 93_000_000_000), container("proxy", 1_000_000)]),
        pod(Uid("f0".into()), vec![]),
    ];
    kubelet_stream::Usage { pods, more: true }
}

pub(crate) fn stream_replies() -> Vec<(&'static str, kubelet_stream::Reply)> {
    let accepted = kubelet_stream::Reply::Accepted { protocol: Some("v4.channel.k8s.io".into()) };
    let plain = kubelet_stream::Reply::Accepted { protocol: None };
    let reason = kubelet_stream::RefusedReason::NotFound;
    let refused =
        kubelet_stream::Reply::Refused { reason, text: "no such pod under this contract".into() };
    let reason = kubelet_stream::RefusedReason::NotServed;
    let unknown =
        kubelet_stream::Reply::Refused { reason, text: "no metrics API over there".into() };
    vec![("accepted", accepted), ("plain", plain), ("refused", refused), ("not served", unknown)]
}
