//! What somebody who reaches the daemon's ports may do to it: with a token that every pod has, and
//! with the webhook's path, which an API server's error may show.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::ConfigExt as _;
use mercato_kubelet::{limits, names};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::user::User;

use super::NODE;

/// What a daemon may have in memory more than before, in KiB: a few bodies at a time, twice as each grows, and what
/// the allocator keeps of them for each thread (62 to 66 MiB were seen). As many values as bodies have would be
/// some 800 MiB.
const MEMORY_KIB: u64 = 96 << 10;
/// Reviews that come at once.
const POSTS: usize = 16;
const SAMPLE: Duration = Duration::from_millis(5);

pub(crate) async fn attacked(home: &Daemon<'_>) -> Result<()> {
    large_reviews(home).await.context("large reviews at the webhook")?;
    idle_connections(home.cluster).await.context("connections of somebody without rights")?;
    let ready = home.readiness().await?;
    ensure!(ready.starts_with("HTTP/1.0 200") || ready.starts_with("HTTP/1.1 200"), "{ready}");
    Ok(())
}

fn config(url: &str) -> Result<Config> {
    let mut config = Config::new(url.parse()?);
    config.accept_invalid_certs = true;
    Ok(config)
}

/// Each of 4 MiB, and as many small values as that holds.
async fn large_reviews(home: &Daemon<'_>) -> Result<()> {
    let place = "jsonpath={.webhooks[0].clientConfig.url}";
    let get = ["get", "mutatingwebhookconfiguration", names::WEBHOOK, "-o", place];
    let url = home.cluster.kubectl(&get).await?.ok()?;
    let review = |field: &str| {
        let (head, tail) =
            (format!(r#"{{"request":{{"uid":"7","object":{{"spec":{{"{field}":["#), "0]}}}}");
        let value = r#"{"a":0},"#;
        let values = (limits::ADMISSION_BODY - head.len() - tail.len()) / value.len();
        head + &value.repeat(values) + tail
    };
    let before = home.cluster.usage(PART)?.rss_kib;
    let posts = async {
        let mut posts = tokio::task::JoinSet::new();
        for n in 0..POSTS {
            let body = review(["tolerations", "containers"][n % 2]);
            let connector = config(&url)?.rustls_https_connector()?;
            let client = Http::builder(TokioExecutor::new()).build::<_, String>(connector);
            let request = Request::post(&url).body(body)?;
            posts.spawn(async move { client.request(request).await.map(|answer| answer.status()) });
        }
        anyhow::Ok(posts.join_all().await)
    };
    let (mut most, mut posts) = (before, std::pin::pin!(posts));
    let answers = loop {
        most = most.max(home.cluster.usage(PART)?.rss_kib);
        tokio::select! {
            answers = &mut posts => break answers?,
            () = tokio::time::sleep(SAMPLE) => {}
        }
    };
    println!("{before} KiB before, {most} KiB at most: {answers:?}");
    ensure!(most - before < MEMORY_KIB, "from {before} KiB to {most} KiB: {answers:?}");
    Ok(())
}

/// As many as there are places, none of which may ask for anything.
async fn idle_connections(rome: &Cluster) -> Result<()> {
    let place = "jsonpath={.status.addresses[?(@.type==\"InternalIP\")].address}:\
        {.status.daemonEndpoints.kubeletEndpoint.Port}";
    let place = rome.kubectl(&["get", "node", NODE, "-o", place]).await?.ok()?;
    let url = format!("https://{place}/pods");
    let token = rome.kubectl(&["create", "token", "default"]).await?.ok()?;
    let mut held = Vec::new();
    for n in 0..=limits::CONNECTIONS {
        let connector = config(&url)?.rustls_https_connector()?;
        let client = Http::builder(TokioExecutor::new())
            .pool_idle_timeout(None)
            .build::<_, String>(connector);
        let request =
            Request::get(&url).header("authorization", format!("Bearer {}", token.trim()));
        let answer = client.request(request.body(String::new())?).await?;
        ensure!(answer.status() == 403, "connection {n} is answered {}", answer.status());
        answer.into_body().collect().await?;
        held.push(client);
    }
    let logs = ["logs", "deploy/burner", "--tail=1"];
    User::new(rome, "shop").kubectl(&logs).await.context("kubectl logs beside them")?;
    drop(held);
    Ok(())
}
