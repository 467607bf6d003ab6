//! Streams into pods, the consumer's own and those of others.

use anyhow::{Result, ensure};
use bytes::Bytes;
use mercato_net::RequestLength;
use mercato_protocol::codec::{Message as _, Wire as _, Writer};
use mercato_protocol::id::{ContractId, PublicKey};
use mercato_protocol::kubelet_stream::{
    Ask, Attach, Exec, Logs, RefusedReason, Reply, Request, Transport, Upgrade, What,
};
use mercato_protocol::text::Blob;
use mercato_protocol::workload::Uid;

use super::{Consumer, HOME};
use crate::Scene;
use crate::impostor::Impostor;

use RefusedReason::{BadRequest, NotFound, Unavailable};

/// The other tenant's pod over there.
pub(crate) struct Other {
    pub(crate) contract: ContractId,
    pub(crate) uid: Uid,
}

/// Refused, each for the right reason; what is the consumer's own is not.
pub(super) async fn into_others(
    scene: &Scene<'_>,
    consumer: &mut Consumer<'_>,
    other: &Other,
) -> Result<()> {
    let (impostor, siena) = (consumer.impostor, consumer.victim);
    let own = logs(scene.bought);
    ensure!(matches!(ask(impostor, siena, own.clone()).await?, Reply::Accepted { .. }));
    let of = |change: &dyn Fn(&mut Request)| {
        let mut request = own.clone();
        change(&mut request);
        request
    };
    let container = |name: &str| What::Logs(Logs { container: name.to_owned(), ..Logs::default() });
    let exec = |word: Blob| What::Exec(Exec { command: vec![word], attach: Attach::default() });
    let upgrade = |protocol: &str| {
        Some(Upgrade { transport: Transport::Spdy, protocols: vec![protocol.to_owned()] })
    };
    let v4 = "v4.channel.k8s.io";
    let attacks = [
        (of(&|r| r.contract = other.contract), NotFound),
        (of(&|r| r.namespace = "lab".into()), NotFound),
        (of(&|r| r.namespace = "lab-milan".into()), NotFound),
        (of(&|r| r.namespace = "kube-system".into()), NotFound),
        (of(&|r| r.namespace = "../namespaces/lab-milan".into()), NotFound),
        (of(&|r| (r.pod, r.uid) = ("honest".into(), other.uid.clone())), NotFound),
        (of(&|r| r.pod = "../../lab-milan/pods/honest".into()), Unavailable),
        (of(&|r| r.pod = "plain/exec?command=sh&x=".into()), Unavailable),
        (of(&|r| r.uid = other.uid.clone()), NotFound),
        (of(&|r| r.what = container("app/../../honest?follow=true#")), BadRequest),
        (of(&|r| r.what = container("mercato")), BadRequest),
        (of(&|r| r.what = exec("sh".into())), BadRequest),
        (of(&|r| (r.what, r.upgrade) = (exec(Blob([0xff, 0xfe].into())), upgrade(v4))), BadRequest),
        (
            of(&|r| {
                (r.what, r.upgrade) = (exec("sh".into()), upgrade("v4\r\nImpersonate-User: admin"));
            }),
            BadRequest,
        ),
        (
            of(&|r| (r.what, r.upgrade) = (What::PortForward { ports: vec![80; 64] }, upgrade(v4))),
            BadRequest,
        ),
    ];
    for (request, expected) in attacks {
        let reply = ask(impostor, siena, request.clone()).await?;
        let refused = matches!(&reply, Reply::Refused { reason, .. } if *reason == expected);
        anyhow::ensure!(refused, "{request:?} is answered {reply:?}");
    }
    Ok(())
}

/// So many at once, and then slowly: the daemon says so.
pub(super) async fn too_many(scene: &Scene<'_>, consumer: &mut Consumer<'_>) -> Result<()> {
    let mut late = 0;
    let request = Request { uid: Uid("another".to_owned()), ..logs(scene.bought) };
    for _ in 0..32 {
        let some = (0..32).map(|_| ask(consumer.impostor, consumer.victim, request.clone()));
        for reply in futures::future::try_join_all(some).await? {
            match reply {
                Reply::Refused { reason: Unavailable, text } => {
                    ensure!(text.contains("too much"), "{text}");
                    late += 1;
                }
                Reply::Refused { .. } => {}
                Reply::Accepted { .. } => anyhow::bail!("a pod that is not there"),
            }
        }
    }
    ensure!(late > 0, "1,024 requests in a row are all looked at");
    Ok(())
}

pub(crate) fn logs(contract: ContractId) -> Request {
    Request {
        contract,
        namespace: HOME.to_owned(),
        pod: "plain".to_owned(),
        uid: super::id("plain").uid,
        what: What::Logs(Logs { container: "app".to_owned(), ..Logs::default() }),
        upgrade: None,
    }
}

pub(crate) async fn ask(impostor: &Impostor, victim: PublicKey, of: Request) -> Result<Reply> {
    // Also what no honest peer could say.
    let mut writer = Writer::default();
    Ask::Open(of).encode(&mut writer);
    let (reply, _io) = impostor
        .net
        .open_kubelet(victim, Bytes::from(writer.into_bytes()), RequestLength::Short)
        .await?;
    Ok(Reply::from_bytes(&reply)?)
}
