//! How many requests a Service of three guests loses while what they run on is taken back, and they
//! come home: one by one before (`leaving: move`), or all in the last step (`stay`).

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use crate::lease::{self, NAMESPACE};
use crate::stage::on_two_nodes;
use crate::table::{self, spread};

const PATIENCE: Duration = Duration::from_secs(120);
const GATEWAY: &str = "gateway: {enabled: on}";
const GUESTS: usize = 3;
/// The pod at home that calls.
const CALLER: &str = "calls";
/// Of the caller, in a second, and for how long: the last step is 75 s after the notice, by the grace of
/// the guests.
const REQUESTS: u32 = 20;
const SECONDS: u32 = 110;
/// Whoever waits longer for an answer has lost the request, in seconds.
const LOST: u32 = 2;
/// When the notice is given, and how long it is.
const BEGINS: Duration = Duration::from_secs(5);
const NOTICE: &str = "2m";
/// A program that takes ten seconds to start. As the first process of its container it ends by no signal: it
/// answers to the end of its grace.
const SERVES: &str = "sleep 10; mkdir /w; hostname > /w/index.html; exec httpd -f -p 8080 -h /w";

/// What became of the requests of one move.
struct Round {
    sent: f64,
    lost: f64,
    /// From the first that was lost to the last, in seconds.
    apart: f64,
    /// The longest that was answered, in seconds.
    slowest: f64,
}

struct Request {
    at: f64,
    over: f64,
    is_answered: bool,
}

pub(crate) fn measure(rounds: usize) -> Result<()> {
    table::head(&format!(
        "A Service of {GUESTS} guests that comes home under {REQUESTS} requests a second, rounds of each \
         kind: {rounds}"
    ));
    for (leaving, goal) in [("stay", ""), ("move", "0")] {
        let rounds: Vec<Round> = (0..rounds)
            .map(|_| on_two_nodes(async |rome, turin| round(rome, turin, leaving).await))
            .collect::<Result<_>>()?;
        let of = |of: fn(&Round) -> f64| spread(&rounds.iter().map(of).collect::<Vec<_>>());
        let row = |what: &str, goal: &str, figure: &str| {
            table::row(&format!("`leaving: {leaving}`: {what}"), goal, figure);
        };
        row("requests", "", &of(|round| round.sent));
        row("of them lost", goal, &of(|round| round.lost));
        row("from the first that was lost to the last", "", &format!("{} s", of(|it| it.apart)));
        row("the slowest that was answered", "", &format!("{} s", of(|it| it.slowest)));
    }
    Ok(())
}

async fn round(rome: &Cluster, turin: &Cluster, leaving: &str) -> Result<Round> {
    let (home, provider) = lease::daemons(rome, turin, GATEWAY).await?;
    home.leases_from(&provider, GUESTS + 1).await?;
    lease::namespace(rome).await?;
    home.offload(NAMESPACE, "Both").await?;
    let user = User::new(rome, NAMESPACE);
    let patch = json!({ "spec": { "leaving": leaving } }).to_string();
    user.kubectl(&["patch", "namespaceoffload/default", "--type=merge", "-p", &patch]).await?;
    user.on("rome-1").start(CALLER, "sleep 36000", &[]).await?;
    rome.kubectl(&["cordon", "rome-1"]).await?.ok()?;
    rome.apply(&objects().to_string()).await?;
    user.kubectl(&["rollout", "status", "deploy/web", "--timeout=120s"]).await?;
    user.kubectl(&["wait", "pod", CALLER, "--for=condition=Ready", "--timeout=60s"]).await?;
    rome.kubectl(&["uncordon", "rome-1"]).await?.ok()?;
    let service = user.kubectl(&["get", "service", "web", "-o", "json"]).await?;
    let service: Value = serde_json::from_str(&service)?;
    let address = service["spec"]["clusterIP"].as_str().context("no address")?;
    wait::until("the Service answers", PATIENCE, || async {
        Ok(called(&user, address, 1).await?.iter().all(|request| request.is_answered))
    })
    .await?;
    let notice = async {
        tokio::time::sleep(BEGINS).await;
        taken_back(&home, &provider).await
    };
    let (requests, notice) = futures::join!(called(&user, address, SECONDS), notice);
    notice?;
    at_home(&user).await?;
    let requests = requests?;
    let lost: Vec<&Request> = requests.iter().filter(|it| !it.is_answered).collect();
    let times = lost.first().zip(lost.last());
    let answered = requests.iter().filter(|it| it.is_answered).map(|it| it.over - it.at);
    Ok(Round {
        sent: requests.len() as f64,
        lost: lost.len() as f64,
        apart: times.map_or(0.0, |(first, last)| last.at - first.at),
        slowest: answered.fold(0.0, f64::max),
    })
}

async fn taken_back(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let contracts = home.json(&["contracts", "list"]).await?;
    let id = contracts[0]["id"].as_str().context("a contract")?;
    provider.mercato(&["reclaim", id, "--notice", NOTICE, "--yes"]).await?.ok().map(drop)
}

/// All of them have come home: what was counted is what it was to be.
async fn at_home(user: &User<'_>) -> Result<()> {
    user.kubectl(&["rollout", "status", "deploy/web", "--timeout=60s"]).await?;
    let nodes = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"];
    let nodes = user.kubectl(&nodes).await?;
    ensure!(nodes.split(' ').all(|node| node == "rome-1"), "the pods are on {nodes}");
    Ok(())
}

/// Requests of the caller, in the order in which they were begun; none waits for another.
async fn called(user: &User<'_>, address: &str, seconds: u32) -> Result<Vec<Request>> {
    let (times, pause) = (REQUESTS * seconds, 1.0 / f64::from(REQUESTS));
    let script = format!(
        "for i in $(seq {times}); do ( \
           read at rest < /proc/uptime; \
           by=$(printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w {LOST} {address} 80 2>/dev/null | \
                busybox tail -n 1); \
           read over rest < /proc/uptime; \
           echo \"$at $over ${{by:--}}\" ) & busybox sleep {pause}; done; wait"
    );
    let said = user.kubectl(&["exec", CALLER, "--", "sh", "-c", &script]).await?;
    let mut requests = Vec::new();
    for line in said.lines() {
        let mut words = line.splitn(3, ' ');
        let mut next = || words.next().with_context(|| line.to_owned());
        let (at, over, by) = (next()?.parse()?, next()?.parse()?, next()?);
        requests.push(Request { at, over, is_answered: by != "-" });
    }
    requests.sort_by(|one, other| one.at.total_cmp(&other.at));
    Ok(requests)
}

/// The Service, and a Deployment whose pods go on for some seconds once they are to end, as whoever wants to
/// lose nothing has it.
fn objects() -> Value {
    let labels = json!({ "app": "web" });
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": NAMESPACE },
        "spec": { "selector": labels, "ports": [{ "port": 80, "targetPort": 8080 }] } });
    let container = json!({ "name": "main", "image": "mercato.test/busybox:1",
        "command": ["sh", "-c", SERVES],
        "readinessProbe": { "tcpSocket": { "port": 8080 }, "periodSeconds": 1 },
        "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } } });
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": NAMESPACE },
        "spec": { "replicas": GUESTS, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels },
                "spec": { "terminationGracePeriodSeconds": 5, "containers": [container] } } } });
    json!({ "apiVersion": "v1", "kind": "List", "items": [service, deployment] })
}
