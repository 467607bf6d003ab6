//! A link that is slow: everything comes over once, and nothing is taken for dead.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::PART;
use mercato_tests::relay::{Line, Relay};
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::churn::{apply, pod};
use crate::link::{lease_is_fresh, set_apart};
use crate::pair::{GUEST, HOME, PATIENCE, Pair, items};
use crate::{agreement, at_level};

/// Of one config map.
const BYTES: usize = 50_000;
/// Times what has to come over, of pods and config maps as they are at home.
const MOST: f64 = 1.2;
const LOOK: Duration = Duration::from_millis(500);
const CONFIG: &str = "mercato.yaml";

/// Pods with a config map each come over a megabit a second, and a quarter of that half the
/// world away. The maps hold what no compression makes shorter.
pub(crate) async fn carries_everything_once(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    let fast = Line { kbit: 1_000, delay: Duration::ZERO };
    let far = Line { kbit: 256, delay: Duration::from_millis(150) };
    let (lines, pods) = at_level((vec![fast], 10), (vec![fast, far], 40));
    for line in lines {
        let relay = Relay::start(address(&pair).await?, line).await?;
        let carried = match through(&pair, Some(&relay)).await {
            Ok(()) => carry(&pair, &relay, line, pods).await,
            Err(error) => Err(error),
        };
        let cleaned = clean_up(&pair).await;
        through(&pair, None).await?;
        carried.with_context(|| format!("{line:?}"))?;
        cleaned?;
    }
    agreement::reached(&pair).await.map(drop)
}

/// Where Turin's daemon is reached over QUIC.
async fn address(pair: &Pair<'_>) -> Result<SocketAddr> {
    let status = pair.provider.json(&["status"]).await?;
    let all = status["daemon"]["addresses"].as_array().context("addresses")?;
    let quic = all.iter().filter_map(|address| {
        let parts: Vec<&str> = address.as_str()?.split('/').collect();
        let ["", "ip4", ip, "udp", port, "quic-v1", ..] = parts[..] else { return None };
        format!("{ip}:{port}").parse::<SocketAddr>().ok().filter(|it| !it.ip().is_loopback())
    });
    quic.into_iter().next().with_context(|| format!("no address for QUIC: {all:?}"))
}

/// The daemons reach each other through the relay alone, or as they did before.
async fn through(pair: &Pair<'_>, relay: Option<&Relay>) -> Result<()> {
    let (of_rome, of_turin) = match relay {
        Some(relay) => {
            (json!({ "lan": "off", "peers": [relay.multiaddress()] }), json!({ "lan": "off" }))
        }
        None => (json!({}), json!({})),
    };
    // While the one starts again the other must not find it.
    pair.rome().kill(PART)?;
    pair.turin().kill(PART)?;
    for (daemon, config) in [(&pair.provider, of_turin), (&pair.home, of_rome)] {
        let data = daemon.cluster.data_outside();
        fs::write(data.join(CONFIG), config.to_string())?;
        // Nor where it was met before.
        fs::write(data.join(PART).join("partners"), "")?;
    }
    // The relay is on the LAN, as they are; each other they reach by it alone.
    set_apart(pair, relay.is_some())?;
    pair.turin().restart(PART)?;
    pair.provider.answers().await?;
    pair.rome().restart(PART)?;
    pair.home.answers().await?;
    // The node says at first what it said before the daemon was killed.
    wait::until("a round trip is measured", PATIENCE, || async { rtt(pair).await.map(|_| true) })
        .await?;
    pair.peer_is(true).await
}

async fn carry(pair: &Pair<'_>, relay: &Relay, line: Line, pods: usize) -> Result<()> {
    let mut objects = Vec::new();
    for n in 0..pods {
        let name = format!("slow-{n}");
        objects.push(config_map(&name, n));
        let mut pod = pod(&name);
        pod["spec"]["volumes"] = json!([{ "name": "text", "configMap": { "name": name } }]);
        objects.push(pod);
    }
    let payload: usize = objects.iter().map(|object| object.to_string().len()).sum();
    let (before, start) = (relay.passed(), Instant::now());
    for object in &objects {
        apply(pair, object).await?;
    }
    let mut rtts = Vec::new();
    let deadline = start + PATIENCE + Duration::from_millis(payload as u64 * 16 / line.kbit);
    loop {
        let there = items(&pair.guests(), "configmaps,pods").await?;
        let names = there.iter().filter_map(|object| object["metadata"]["name"].as_str());
        let count = names.filter(|name| name.starts_with("slow-")).count();
        lease_is_fresh(pair).await?;
        rtts.push(rtt(pair).await?);
        if count == objects.len() {
            break;
        }
        ensure!(Instant::now() < deadline, "{count} of {} are in {GUEST}", objects.len());
        sleep(LOOK).await;
    }
    let (took, passed) = (start.elapsed(), relay.passed() - before);
    let (share, longest) = (passed as f64 / payload as f64, rtts.iter().max().context("no ping")?);
    println!(
        "{} kbit/s, {:.0?} each way: {pods} pods, {payload} bytes: {passed} passed, {share:.3} times, \
         in {took:.1?}; pings took {longest:.0?} at most; the node's Lease was fresh at each of {} looks",
        line.kbit,
        line.delay,
        rtts.len(),
    );
    ensure!(share > 0.7, "only {passed} bytes came through the relay: the rest went elsewhere");
    ensure!(share < MOST, "{share:.3} times the payload");
    ensure!(pair.node("PeerReachable").await? == "True", "the peer was taken for dead");
    Ok(())
}

/// The last round trip that Rome's daemon has measured.
async fn rtt(pair: &Pair<'_>) -> Result<Duration> {
    let status = pair.home.json(&["status"]).await?;
    let rtt =
        status["peers"].as_array().and_then(|all| all.iter().find_map(|p| p["rttUs"].as_u64()));
    Ok(Duration::from_micros(rtt.context("no round trip")?))
}

/// Text of which no byte follows from those before it, of six bits each.
fn config_map(name: &str, seed: usize) -> Value {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed as u64 + 1);
    let text = (0..BYTES).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(letters[(state >> 58) as usize])
    });
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": HOME },
        "data": { "text": text.collect::<String>() },
    })
}

async fn clean_up(pair: &Pair<'_>) -> Result<()> {
    crate::churn::clean_up(pair).await?;
    let maps = items(&pair.shop(), "configmaps").await?;
    let names = maps.iter().filter_map(|map| map["metadata"]["name"].as_str());
    let ours: Vec<&str> = names.filter(|name| name.starts_with("slow-")).collect();
    if !ours.is_empty() {
        pair.shop().kubectl(&[&["delete", "configmap"][..], &ours].concat()).await?;
    }
    Ok(())
}
