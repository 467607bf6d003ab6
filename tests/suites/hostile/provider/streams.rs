//! Answers to what people ask of a pod: endless, empty, late, forged.

use std::future::pending;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use mercato_net::KubeletAnswer;
use mercato_protocol::codec::Message as _;
use mercato_protocol::kubelet_stream::{RefusedReason, Reply};
use mercato_tests::cluster::Cluster;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{NODE, Provider};
use crate::Scene;
use crate::line::{LOOK, PATIENCE};

/// Bytes of endless logs that are read before their reader has had enough.
const ENOUGH: usize = 64 << 20;

pub(super) async fn answers(scene: &Scene<'_>, provider: &mut Provider<'_>) -> Result<()> {
    let milan = scene.milan.cluster;
    endless_logs(milan, provider).await.context("endless logs")?;
    let accept = |protocol: Option<&str>| Reply::Accepted { protocol: protocol.map(str::to_owned) };
    let text = "no\r\nLocation: http://169.254.169.254/\r\n\r\n".to_owned();
    let refused = Reply::Refused { reason: RefusedReason::NotFound, text };
    let logs = ["-n", "lab", "logs", "victim"];
    let exec = ["-n", "lab", "exec", "victim", "--", "id"];
    let summary = format!("/api/v1/nodes/{NODE}/proxy/stats/summary");
    let summary = ["get", "--raw", &summary];
    let forged = "v4.channel.k8s.io\r\nLocation: http://169.254.169.254/";
    for (args, reply, garbage) in [
        (&logs[..], Some(refused.clone()), 0),
        (&exec[..], Some(refused), 0),
        (&exec[..], Some(accept(Some(forged))), 1 << 20),
        (&exec[..], Some(accept(None)), 64 << 20),
        (&exec[..], None, 0),
        (&summary[..], Some(accept(None)), 64 << 20),
    ] {
        let mut times = 0;
        let said = tokio::select! {
            said = tokio::time::timeout(PATIENCE, milan.kubectl(args)) => said,
            failed = always(provider, reply.as_ref(), garbage, &mut times) => return failed.with_context(|| format!("{args:?} after {times}")),
        };
        let said = said.with_context(|| format!("{args:?} never ends"))??;
        let failed = said.code != Some(0) || args[0] == "get";
        ensure!(times > 0, "{args:?} does not reach the provider: {said:?}");
        ensure!(failed && !said.stdout.contains("uid="), "{args:?}: {said:?}");
    }
    Ok(())
}

/// Answers whatever is asked, and counts it: kubectl may try another protocol after the first.
async fn always(
    provider: &mut Provider<'_>,
    reply: Option<&Reply>,
    garbage: usize,
    times: &mut u32,
) -> Result<()> {
    loop {
        let asked = asked(provider).await?;
        answer(asked, reply, garbage, times).await?;
    }
}

/// Answers one stream; without a reply it is held open, and nothing is ever said. Whoever has hung up
/// meanwhile, as kubectl does before it tries another protocol, is not counted.
async fn answer(
    answer: KubeletAnswer,
    reply: Option<&Reply>,
    garbage: usize,
    times: &mut u32,
) -> Result<()> {
    let Some(reply) = reply else {
        *times += 1;
        return pending().await;
    };
    let Ok(mut io) = answer.accept(reply.to_bytes()?.into()).await else { return Ok(()) };
    *times += 1;
    let noise = vec![0xa5; 64 << 10];
    for _ in 0..garbage / noise.len() {
        if io.write_all(&noise).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// They come as fast as they are read, and end with their reader.
async fn endless_logs(milan: &Cluster, provider: &mut Provider<'_>) -> Result<()> {
    let mut kubectl = milan
        .command("kubectl")?
        .args(["-n", "lab", "logs", "-f", "victim"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut logs = kubectl.stdout.take().context("piped above")?;
    let mut io = asked(provider).await?.accept(accepted()?).await?;
    let before = scene_memory(milan)?;
    let endless = async {
        let line = b"and so on and on and on\n".repeat(2_048);
        while io.write_all(&line).await.is_ok() {}
    };
    let read = async {
        let (mut piece, mut read) = (vec![0; 64 << 10], 0);
        while read < ENOUGH {
            read += logs.read(&mut piece).await?;
        }
        kubectl.kill().await
    };
    let both = async { futures::join!(endless, read) };
    let ((), read) = tokio::time::timeout(PATIENCE, both).await.context("it does not end")?;
    read?;
    let more = scene_memory(milan)?.saturating_sub(before);
    ensure!(more < 32 << 10, "64 MiB of logs took {more} KiB");
    Ok(())
}

fn scene_memory(milan: &Cluster) -> Result<u64> {
    Ok(milan.usage(mercato_tests::daemon::PART)?.rss_kib)
}

fn accepted() -> Result<Bytes> {
    Ok(Reply::Accepted { protocol: None }.to_bytes()?.into())
}

/// The next stream that is asked for.
async fn asked(provider: &mut Provider<'_>) -> Result<KubeletAnswer> {
    let asked = async {
        loop {
            match provider.impostor.asked() {
                Some((_, answer)) => return answer,
                None => tokio::time::sleep(LOOK).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.context("no stream is asked for")
}
