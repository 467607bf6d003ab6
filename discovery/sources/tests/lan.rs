//! Multicast DNS between sources of one process, in a network namespace of its own, so
//! that no packet leaves this machine.
#![allow(clippy::wildcard_enum_match_arm, reason = "a test waits for one event")]
#![allow(clippy::disallowed_methods, reason = "a deadline")]

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use mdns_sd::{DaemonEvent, ServiceDaemon, ServiceInfo};
use mercato_discovery::{Report, Sighting};
use mercato_protocol::id::PublicKey;
use mercato_sources::{DEFAULT_SKIPPED, Lan, LanConfig};
use nix::sched::{CloneFlags, unshare};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// Generous: a wait ends with its condition, this only ends a test that hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// The network of this process: one LAN, one container bridge, loopback.
const NETWORK: [&str; 9] = [
    "link set lo up multicast on",
    "link add lan0 type veth peer name lan1",
    "address add 192.0.2.1/24 dev lan0",
    "link add docker0 type veth peer name docker1",
    "address add 198.51.100.1/24 dev docker0",
    "link set lan0 up multicast on",
    "link set lan1 up",
    "link set docker0 up multicast on",
    "link set docker1 up",
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // They share one LAN, and the flood of one may drown the goodbye of another.
    arguments.test_threads = Some(1);
    let root = nix::unistd::geteuid().is_root();
    let skipped = !root && std::env::var_os("CI").is_none();
    if skipped {
        eprintln!("skipped: a network namespace needs root; run `sudo -E cargo test`");
    } else if let Err(error) = enter_network() {
        eprintln!("cannot make a network namespace: {error:#}");
        return ExitCode::FAILURE;
    }
    let trial = |name, test: fn() -> Result<()>| {
        let run = move || test().map_err(|error| Failed::from(format!("{error:#}")));
        Trial::test(name, run).with_ignored_flag(skipped)
    };
    let trials = vec![
        trial("two_clusters_see_each_other_and_the_goodbye", see_each_other),
        trial("container_interfaces_are_skipped_unless_asked_for", skip_containers),
        trial("a_receiver_that_fell_behind_catches_up", catch_up),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Before any thread: threads are born into their parent's namespace.
fn enter_network() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    for command in NETWORK {
        let words = command.split(' ');
        let status = Command::new("ip").args(words).status().context("ip (iproute2)")?;
        ensure!(status.success(), "ip {command}: {status}");
    }
    Ok(())
}

fn run(test: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(test)
}

fn start(n: u8, skip: &[&str]) -> Result<(Lan, Receiver<Report>)> {
    let skip = skip.iter().map(ToString::to_string).collect();
    let peer = PublicKey([n; 32]);
    Ok(Lan::start(&LanConfig { peer, quic_port: Some(7474), tcp_port: Some(7475), skip })?)
}

async fn wait<T>(
    reports: &mut Receiver<Report>,
    mut wanted: impl FnMut(Report) -> Option<T>,
) -> Result<T> {
    let found = async {
        loop {
            let report = reports.recv().await.context("the source ended")?;
            if let Some(found) = wanted(report) {
                return Ok(found);
            }
        }
    };
    timeout(DEADLINE, found).await.context("timed out")?
}

async fn seen(reports: &mut Receiver<Report>, n: u8) -> Result<Sighting> {
    let peer = Some(PublicKey([n; 32]));
    wait(reports, |report| match report {
        Report::Seen(sighting) if sighting.peer == peer => Some(sighting),
        _ => None,
    })
    .await
}

fn see_each_other() -> Result<()> {
    run(async {
        let (a, mut seen_by_a) = start(1, &DEFAULT_SKIPPED)?;
        let (b, mut seen_by_b) = start(2, &DEFAULT_SKIPPED)?;
        let of_b = seen(&mut seen_by_a, 2).await?;
        let of_a = seen(&mut seen_by_b, 1).await?;
        ensure!(of_a.id != of_b.id, "one name for both");
        let addresses: Vec<String> = of_b.addresses.iter().map(ToString::to_string).collect();
        let expected = ["/ip4/192.0.2.1/udp/7474/quic-v1", "/ip4/192.0.2.1/tcp/7475"];
        ensure!(addresses == expected, "{addresses:?}");
        b.stop().await;
        wait(&mut seen_by_a, |report| (report == Report::Gone(of_b.id.clone())).then_some(()))
            .await
            .context("the goodbye")?;
        // Under another name it is another sighting.
        let (_b, _) = start(2, &DEFAULT_SKIPPED)?;
        ensure!(seen(&mut seen_by_a, 2).await?.id != of_b.id, "the old name again");
        a.stop().await;
        Ok(())
    })
}

fn skip_containers() -> Result<()> {
    run(async {
        let (_a, mut seen_by_a) = start(3, &[])?;
        let (_b, _) = start(4, &[])?;
        let wanted = ["192.0.2.1", "198.51.100.1", "127.0.0.1"];
        wait(&mut seen_by_a, |report| match report {
            Report::Seen(sighting) if sighting.peer == Some(PublicKey([4; 32])) => {
                let addresses = format!("{:?}", sighting.addresses);
                wanted.iter().all(|ip| addresses.contains(ip)).then_some(())
            }
            _ => None,
        })
        .await
    })
}

/// More announcements than all queues together hold, before the first is taken.
fn catch_up() -> Result<()> {
    const OTHERS: usize = 700;
    run(async {
        let (_a, mut reports) = start(6, &DEFAULT_SKIPPED)?;
        let others = ServiceDaemon::new()?;
        let monitor = others.monitor()?;
        let key = PublicKey([7; 32]).to_string();
        for n in 0..OTHERS {
            let (name, host) = (format!("other{n}"), format!("other{n}.local."));
            let txt = [("v", "1"), ("id", key.as_str()), ("tcp", "7474")];
            let mut service =
                ServiceInfo::new("_mercato._udp.local.", &name, &host, "192.0.2.1", 1, &txt[..])?;
            service.set_requires_probe(false);
            others.register(service)?;
            let announced = async {
                while !matches!(monitor.recv_async().await?, DaemonEvent::Announce(..)) {}
                anyhow::Ok(())
            };
            timeout(DEADLINE, announced).await.context("announcing")??;
        }
        let mut names = BTreeSet::new();
        wait(&mut reports, |report| {
            if let Report::Seen(sighting) = report
                && sighting.id.instance.starts_with("other")
            {
                names.insert(sighting.id.instance);
            }
            (names.len() >= OTHERS).then_some(())
        })
        .await?;
        others.shutdown()?;
        Ok(())
    })
}
