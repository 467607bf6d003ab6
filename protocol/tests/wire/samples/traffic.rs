//! What travels without a signature of its own: hello, gossip, workload, streams.

use mercato_protocol::codec::Message as _;
use mercato_protocol::gossip::{Fingerprint, Mark, Message as Gossip, Publication};
use mercato_protocol::hello::Hello;
use mercato_protocol::id::{Digest, FederationId};
use mercato_protocol::text::Blob;
use mercato_protocol::workload::{
    Delete, Desire, Entry, Message as Workload, ObjectKey, ObjectKind, RefusedReason, Route, Uid,
};
use mercato_protocol::{limits, stream};

use super::{consumer_identity, negotiation_id, provider, signed_lease, small_body, withdraw};

pub(crate) fn hello() -> Hello {
    Hello {
        identity: consumer_identity(),
        federation: FederationId::lan(),
        software: "mercato 0.1.0".into(),
        addresses: vec!["/ip4/192.0.2.8/tcp/7474".into()],
    }
}

pub(crate) fn mark() -> Mark {
    let publisher = provider().public();
    Mark { publisher, epoch: 1, seq: 41, digest: signed_lease().digest() }
}

pub(crate) fn gossip() -> Vec<(&'static str, Gossip)> {
    let lan = FederationId::lan();
    let digest = mark().digest;
    let publications = vec![
        Publication::Lease(signed_lease()),
        Publication::Withdraw(provider().sign(lan, &withdraw()).unwrap()),
    ];
    let root = Fingerprint::of(7, [&mark()]);
    let body = Some(Blob(small_body().to_bytes().unwrap()));
    let mut fingerprints = vec![Fingerprint::default(); limits::BUCKETS];
    fingerprints[mark().bucket() as usize] = root;
    vec![
        ("announce", Gossip::Announce { marks: vec![mark()] }),
        ("pull", Gossip::Pull { digests: vec![digest] }),
        ("push", Gossip::Push { publications }),
        ("body-request", Gossip::BodyRequest { digest }),
        ("body-reply", Gossip::BodyReply { digest, body }),
        ("body-unknown", Gossip::BodyReply { digest, body: None }),
        ("root", Gossip::Root { session: 7, root }),
        ("buckets", Gossip::Buckets { session: 7, fingerprints }),
        ("ids", Gossip::Ids { session: 7, buckets: vec![mark().bucket()], marks: vec![mark()] }),
    ]
}

pub(crate) fn key(kind: ObjectKind) -> ObjectKey {
    ObjectKey { kind, namespace: "shop".into(), name: "web-0".into() }
}

pub(crate) fn pod_body() -> Vec<u8> {
    br#"{"kind":"Pod","metadata":{"name":"web-0"}}"#.to_vec()
}

pub(crate) fn desire(body: &[u8]) -> Workload {
    let origin = consumer_identity().cluster_id();
    Workload::Desire(Desire {
        key: key(ObjectKind::Pod),
        uid: Uid("7d1a33f4-7f1c-4a7e-9b6e-0d4c7f1c2a90".into()),
        digest: Digest::of(body),
        body_len: u32::try_from(body.len()).unwrap(),
        route: Route { origin, path: vec![origin], hops: 0 },
    })
}

pub(crate) fn workload() -> Vec<(&'static str, Workload)> {
    let uid = || Uid("7d1a33f4-7f1c-4a7e-9b6e-0d4c7f1c2a90".into());
    let digest = Digest::of(&pod_body());
    let pod = || key(ObjectKind::Pod);
    let entry = |kind, desired, status| Entry { key: key(kind), uid: uid(), desired, status };
    let entries = vec![
        entry(ObjectKind::ConfigMap, Some(digest), None),
        entry(ObjectKind::Pod, Some(digest), Some(Digest([3; 32]))),
        entry(ObjectKind::Secret, None, None),
    ];
    let delete = |grace_s, tombstone| Delete { key: pod(), uid: uid(), grace_s, tombstone };
    let refused = Workload::Refused {
        key: pod(),
        uid: uid(),
        digest,
        reason: RefusedReason::Forbidden,
        text: "spec.hostNetwork: the contract does not allow it".into(),
    };
    vec![
        ("hello", Workload::Hello { contract: negotiation_id() }),
        ("digests", Workload::Digests { entries }),
        ("synced", Workload::Synced),
        ("desire", desire(&pod_body())),
        ("delete", Workload::Delete(delete(Some(30), false))),
        ("delete-tombstone", Workload::Delete(delete(None, true))),
        ("ack", Workload::Ack { key: pod(), uid: uid(), digest: Some(digest) }),
        ("ack-deletion", Workload::Ack { key: pod(), uid: uid(), digest: None }),
        ("guest-status", Workload::GuestStatus { key: pod(), uid: uid(), digest, body_len: 42 }),
        ("gone", Workload::Gone { key: pod(), uid: uid() }),
        ("refused", refused),
    ]
}

pub(crate) fn stream_requests() -> Vec<(&'static str, stream::Request)> {
    let container = String::from("web");
    let spdy = stream::Upgrade {
        transport: stream::Transport::Spdy,
        protocols: vec!["v5.channel.k8s.io".into(), "v4.channel.k8s.io".into()],
    };
    let request = |what, upgrade| stream::Request {
        contract: negotiation_id(),
        namespace: "shop".into(),
        pod: "web-0".into(),
        uid: Uid("7d1a33f4-7f1c-4a7e-9b6e-0d4c7f1c2a90".into()),
        what,
        upgrade,
    };
    let logs = stream::Logs {
        container: container.clone(),
        follow: true,
        tail_lines: Some(100),
        ..Default::default()
    };
    let attach = stream::Attach { container, stdin: true, stdout: true, stderr: false, tty: true };
    let exec = stream::Exec { command: vec!["sh".into(), "-c".into(), "exit 3".into()], attach };
    vec![
        ("logs", request(stream::What::Logs(logs), None)),
        ("attach", request(stream::What::Attach(exec.attach.clone()), Some(spdy.clone()))),
        ("exec", request(stream::What::Exec(exec), Some(spdy.clone()))),
        ("port-forward", request(stream::What::PortForward { ports: vec![8080] }, Some(spdy))),
    ]
}

pub(crate) fn stream_replies() -> Vec<(&'static str, stream::Reply)> {
    let accepted =
        stream::Reply::Accepted { status: 101, protocol: Some("v4.channel.k8s.io".into()) };
    let reason = stream::RefusedReason::NotFound;
    let refused = stream::Reply::Refused { reason, text: "no such pod under this contract".into() };
    vec![("accepted", accepted), ("refused", refused)]
}
