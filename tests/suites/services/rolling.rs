//! A rolling update of guests under requests, in which the link to their provider is cut.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use serde_json::{Value, json};

use super::shop::{NODE, SERVES};

pub(crate) const NAMESPACE: &str = "rolls";
/// Who call, both at home.
pub(crate) const CALLERS: [&str; 2] = ["calls-1", "calls-2"];
const GUESTS: u32 = 3;
/// Of each caller, in a second, and for how long.
const REQUESTS: u32 = 20;
const SECONDS: u32 = 90;
/// When the update begins, when the link is cut in it, and for how long.
const BEGINS: Duration = Duration::from_secs(5);
const CUT_AFTER: Duration = Duration::from_secs(2);
const CUT: Duration = Duration::from_secs(20);
/// Once the link is back, so long may requests be lost yet; none waits longer for its answer.
const LOST: f64 = 2.0;

/// A request: when it was begun and over, in seconds of the machine's uptime, and who answered, if anybody.
pub(crate) struct Request {
    pub(crate) at: f64,
    pub(crate) over: f64,
    pub(crate) by: Option<String>,
    /// What its program said last, where nobody answered.
    why: String,
}

/// Calls the guests and two pods of home behind one Service throughout.
pub(crate) async fn is_answered(home: &Cluster, provider: &Cluster) -> Result<()> {
    let user = User::new(home, NAMESPACE);
    let address = service(home, &user, "web", &[("app", "web")]).await?;
    let calls = CALLERS.map(|caller| called(&user, caller, &address, SECONDS));
    let update = async {
        tokio::time::sleep(BEGINS).await;
        user.kubectl(&["rollout", "restart", "deploy/far"]).await?;
        tokio::time::sleep(CUT_AFTER).await;
        let cut = uptime()?;
        home.set_apart(true)?;
        provider.set_apart(true)?;
        tokio::time::sleep(CUT).await;
        home.set_apart(false)?;
        provider.set_apart(false)?;
        let back = uptime()?;
        user.kubectl(&["rollout", "status", "deploy/far", "--timeout=90s"]).await?;
        println!("the update is done {:.1} s after the link is back", uptime()? - back);
        anyhow::Ok((cut, back))
    };
    let (calls, update) = futures::join!(futures::future::try_join_all(calls), update);
    let ((cut, back), calls) = (update?, calls?);
    for (caller, requests) in CALLERS.iter().zip(&calls) {
        println!("{caller}: {}", told(requests, cut, back));
    }
    for (caller, requests) in CALLERS.iter().zip(&calls) {
        let after = || requests.iter().filter(|it| it.at > back + LOST);
        let late = after().filter(|it| it.by.is_none());
        let late: Vec<String> = late
            .map(|it| format!("{:.1} for {:.1}: {}", it.at - back, it.over - it.at, it.why))
            .collect();
        println!("{caller} lost requests these s after the link was back: {late:?}");
        let (all, lost) = (after().count(), late.len());
        let refused = after().filter(|it| it.by.is_none() && it.over - it.at < LOST / 2.0).count();
        // Of those to a guest that is silent each fifth would be. What was begun in the cut conntrack knows for
        // two minutes: whoever has the same source port again by chance is refused, as with a pod that is gone.
        ensure!(lost - refused <= all / 100, "{caller} waited in vain: {late:?}");
        ensure!(refused <= all / 20, "{caller} was refused: {late:?}");
        let by: BTreeMap<_, _> = after().map(|it| (it.by.clone(), ())).collect();
        ensure!(by.len() >= GUESTS as usize, "{caller} was answered by {:?} alone", by.keys());
    }
    Ok(())
}

/// Makes guests, two pods of home that serve as they do, and callers, and waits until all are ready.
pub(crate) async fn opened(home: &Cluster) -> Result<()> {
    let user = User::new(home, NAMESPACE);
    for (name, node, replicas) in [("near", "rome-1", 2), ("far", NODE, GUESTS)] {
        home.apply(&deployment(name, node, replicas).to_string()).await?;
    }
    for caller in CALLERS {
        user.on("rome-1").start(caller, "sleep 36000", &[]).await?;
    }
    let all = ["wait", "pod", "--all", "--for=condition=Ready", "--timeout=120s"];
    user.kubectl(&all).await.map(drop)
}

/// Makes a Service for pods with this label, and gives its address.
pub(crate) async fn service(
    home: &Cluster,
    user: &User<'_>,
    name: &str,
    labels: &[(&str, &str)],
) -> Result<String> {
    let selector: BTreeMap<_, _> = labels.iter().copied().collect();
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "selector": selector, "ports": [{ "port": 80, "targetPort": 8080 }] } });
    home.apply(&service.to_string()).await?;
    let made = user.kubectl(&["get", "service", name, "-o", "json"]).await?;
    let made: Value = serde_json::from_str(&made)?;
    Ok(made["spec"]["clusterIP"].as_str().context("no address")?.to_owned())
}

/// A server that goes on for some seconds once it is to end, as whoever wants to lose nothing has it.
fn deployment(name: &str, node: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "of": name } },
            "template": {
                "metadata": { "labels": { "app": "web", "of": name } },
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "nodeSelector": { "kubernetes.io/hostname": node },
                    "containers": [{
                        "name": "main", "image": "mercato.test/busybox:1",
                        "command": ["sh", "-c", SERVES],
                        "readinessProbe": { "tcpSocket": { "port": 8080 }, "periodSeconds": 1 },
                        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
                    }],
                },
            },
        },
    })
}

/// Requests of one caller, in the order in which they were begun; none waits for another.
pub(crate) async fn called(
    user: &User<'_>,
    caller: &str,
    address: &str,
    seconds: u32,
) -> Result<Vec<Request>> {
    let (times, pause) = (REQUESTS * seconds, 1.0 / f64::from(REQUESTS));
    let script = format!(
        "for i in $(seq {times}); do ( \
           read at rest < /proc/uptime; \
           by=$(printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w {LOST} {address} 80 2>&1 | \
                busybox tail -n 1); \
           read over rest < /proc/uptime; \
           echo \"$at $over ${{by:--}}\" ) & busybox sleep {pause}; done; wait"
    );
    let said = user.kubectl(&["exec", caller, "--", "sh", "-c", &script]).await?;
    let mut requests = Vec::new();
    for line in said.lines() {
        let mut words = line.splitn(3, ' ');
        let mut next = || words.next().with_context(|| line.to_owned());
        let (at, over, why) = (next()?.parse()?, next()?.parse()?, next()?.to_owned());
        let is_answer = why != "-" && !why.starts_with("nc: ");
        requests.push(Request { at, over, by: is_answer.then(|| why.clone()), why });
    }
    requests.sort_by(|one, other| one.at.total_cmp(&other.at));
    Ok(requests)
}

/// How many there were before the cut, in it and afterwards, how many of them were lost, and when the
/// last was.
fn told(requests: &[Request], cut: f64, back: f64) -> String {
    let count = |from: f64, to: f64| {
        let of = || requests.iter().filter(|it| it.at >= from && it.at < to);
        format!("{} of {}", of().filter(|it| it.by.is_none()).count(), of().count())
    };
    let last = requests.iter().rfind(|it| it.by.is_none()).map(|it| it.at - back);
    format!(
        "lost {} before the cut, {} in it, {} afterwards; the last {last:.1?} s after the link was back",
        count(0.0, cut),
        count(cut, back),
        count(back, f64::INFINITY)
    )
}

/// Of this machine and of all pods, in seconds.
pub(crate) fn uptime() -> Result<f64> {
    let said = fs::read_to_string("/proc/uptime")?;
    Ok(said.split_whitespace().next().context("no uptime")?.parse()?)
}
