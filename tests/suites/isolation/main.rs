//! A cluster of two nodes sells what only an owner sells who closes guests, which is the default: a
//! guest reaches the pods of its home, and nobody else, from its first instruction on.
#![allow(clippy::disallowed_methods, reason = "who is not answered is waited for")]

mod copies;
mod files;
mod floods;
mod found;
mod inside;
mod itself;
mod late;
mod names;
mod other_server;
mod proof;
mod questions;
mod sale;
mod service;
mod tries;

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, Cluster, ClusterSpec, Families, PodNetwork, ProxyMode};
use mercato_tests::courier::Sender;
use mercato_tests::daemon::Daemon;
use mercato_tests::nodes::Nodes;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test};
use mercato_tests::tunnel::has_no_tunnel;
use mercato_tests::user::User;
use mercato_tests::wait;

use copies::Marked;
use found::{Found, Targets};
use proof::told_of;
use service::Service;

const GATEWAY: &str = "gateway:\n  enabled: on";
/// For whom tokens may be that leave rome.
const AUDIENCE: &str = "vault";
const PODS: usize = 16;
/// What is not proven any more is not on sale any more.
const GONE: Duration = Duration::from_secs(15);
const TOLD: Duration = Duration::from_secs(30);
/// How long what changes takes to be so everywhere, at most: far more than it does.
const SOON: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "closed";
/// What it is called in turin.
const GUESTS: &str = "closed-rome";
const NODE: &str = "mercato-turin";
const LOCAL: &str = "neighbours";
/// The port where gates ask, by default.
const PORT: u16 = 7479;

fn main() -> ExitCode {
    let clusters = match cluster("rome", 1).and_then(|rome| Ok([rome, cluster("turin", 2)?])) {
        Ok(clusters) => clusters.into(),
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    let tests = vec![
        Test::ci("required_is_on_sale_soon", |s| Box::pin(sale::begins(s))),
        Test::ci("guests_reach_their_home_alone", |s| Box::pin(closed(s))),
    ];
    suite::run_in_turn("isolation", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

/// As it is asked for, or as most clusters are.
fn cluster(name: &str, nodes: u8) -> Result<ClusterSpec> {
    let cidrs = Some(Cidrs::same_of(Families::Both));
    let pod_network = suite::asked("MERCATO_POD_NETWORK")?.unwrap_or(PodNetwork::Routed);
    let proxy_mode = suite::asked("MERCATO_PROXY_MODE")?.unwrap_or(ProxyMode::Nftables);
    Ok(ClusterSpec { nodes, cidrs, pod_network, proxy_mode, ..ClusterSpec::named(name) })
}

async fn closed(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    let (provider, agents) = sale::provider(stage).await?;
    let home = format!("{GATEWAY}\nkubernetes:\n  tokenAudiences: [{AUDIENCE}]");
    let home = Daemon::start(rome, &program, &home).await?;
    timer.step("daemons answer");
    home.leases_by(&provider, PODS, "required").await?;
    is_of_closed_guests(&home).await?;
    rome.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
    home.offload(NAMESPACE, "Both").await?;
    timer.step("bought, as owners sell by default");

    let user = User::new(rome, NAMESPACE);
    let one = rome.machine(1).name();
    user.on(&one).serves("near").await.context("at home")?;
    user.on(NODE).serves("far").await.context("as a guest")?;
    let far = user.address_of("far").await?;
    let known = Sender::Pod(user, "near").tcp(far, 100_000, "closed").await?;
    timer.step("a guest runs, and its home reaches it");

    let (there, beside) = (User::new(turin, GUESTS), User::new(turin, LOCAL));
    let targets = Targets::of(turin, LOCAL, &there, "far").await?;
    let by_anybody = Found::by(&User::new(turin, LOCAL), "scout", &targets).await?;
    ensure!(by_anybody == targets.all(), "a pod of turin's own found {by_anybody:?}");
    let neighbour = Sender::Pod(User::new(turin, LOCAL), "neighbour-1");
    targets.are_reached_otherwise(neighbour, true).await.context("from a neighbour")?;
    who_lies_stays_open(turin, &targets).await?;
    timer.step("pods of turin's own reach what is there");
    let guests = user.on(NODE);
    guests_find_home(&guests, &targets, known.seen_as).await?;
    timer.step("a guest's first instructions find home alone");
    Marked { home: user, guests: there, elsewhere: beside, turin }.prove_nothing().await?;
    timer.step("copies of a guest are nobody's, and the guest is one without its marks");
    let service = Service::open(rome, turin, &targets).await.context("a Service")?;
    service.is_called_alone().await?;
    timer.step("guests of both nodes call the Service of their namespace, and no other");
    service.is_found_by_name(&provider).await.context("names")?;
    timer.step("they find it by its names, and no other, one of them without the daemon as well");
    targets.is_not_called(turin, LOCAL, "scout").await?;
    timer.step("no neighbour calls a guest");
    tries::fail(rome, turin, known.seen_as, targets.pod(1)?).await.context("what a guest tries")?;
    knows(rome, turin, service.caller()?, &mut timer).await?;
    asks_and_floods(turin, known.seen_as, &mut timer).await?;
    meets_another_server(&service, &provider, &agents, &mut timer).await?;

    let lost = proof::lost(&provider).await?;
    loses_its_rules(turin).await?;
    let flushed = Found::again(&guests, "scout", &targets).await?;
    ensure!(flushed == Found::default(), "without the rules of the nodes it found {flushed:?}");
    proof::rules_are_put_back(&home, &provider, lost).await.context("rules that are removed")?;
    timer.step("without rules of the nodes it finds no more, and these are back and told of");
    meets_a_chain(&home, &provider, &mut timer).await?;
    starts_again(&provider, &agents, &guests, &targets).await.context("while all start again")?;
    Sender::Pod(user, "near").tcp(far, 100_000, "closed").await.context("afterwards")?;
    service.closes().await?;
    timer.step("home reaches it afterwards, and its Service is closed");
    sold_while_proven(&home, &provider, &agents, &mut timer).await?;
    over(&home, &provider, targets.guest()).await?;
    timer.step("the contract is over, and nothing of the tunnel is left on any node");
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")
}

/// What a guest knows of itself, and, at level `full`, finds in its files.
async fn knows(rome: &Cluster, turin: &Cluster, other: &str, timer: &mut StepTimer) -> Result<()> {
    itself::is_known(rome, turin, other).await.context("what it knows of itself")?;
    timer.step("nothing else leaves a guest, which knows its address, in a second sandbox either");
    if suite::level() == Level::Full {
        files::are_as_at_home(rome).await.context("files that Kubernetes makes")?;
        timer.step("the files that Kubernetes makes are as at home, but for what the page says");
    }
    Ok(())
}

/// At level `full`: another program has the port of names on the nodes.
async fn meets_another_server(
    service: &Service<'_>,
    provider: &Daemon<'_>,
    agents: &Nodes<'_>,
    timer: &mut StepTimer,
) -> Result<()> {
    if suite::level() == Level::Full {
        other_server::is_not_asked(service, provider, agents).await.context("another server")?;
        timer.step("another name server on their nodes is not asked, and nothing is sold beside");
    }
    Ok(())
}

/// At level `full`: a chain of somebody else's drops what is forwarded.
async fn meets_a_chain(
    home: &Daemon<'_>,
    provider: &Daemon<'_>,
    timer: &mut StepTimer,
) -> Result<()> {
    if suite::level() == Level::Full {
        proof::ends_the_sale(home, provider, "far").await.context("a chain that drops")?;
        timer.step("a chain that drops has ended the sale until it was mended as it was said");
    }
    Ok(())
}

/// A guest that asks and sends a lot: what it has besides, and what its neighbour has.
async fn asks_and_floods(turin: &Cluster, near: IpAddr, timer: &mut StepTimer) -> Result<()> {
    questions::take_nothing(turin, near).await.context("questions for names")?;
    timer.step("questions for names take nothing of what else a guest has");
    floods::harm_no_more(turin, near).await.context("floods")?;
    timer.step("a guest that floods harms its neighbour no more than an ordinary pod");
    Ok(())
}

/// A guest that has just begun reaches the pod of home's and nobody else: by TCP from each of its
/// containers, and by what else there is.
async fn guests_find_home(guests: &User<'_>, targets: &Targets, home: IpAddr) -> Result<()> {
    let at_home = targets.and(home);
    let by_guest = Found::by(guests, "scout", &at_home).await?;
    ensure!(by_guest == at_home.home(), "a guest found {by_guest:?}");
    let by_late = Found::beside(guests, "scout", &at_home).await.context("a debug container")?;
    ensure!(by_late == at_home.home(), "a container of kubectl debug found {by_late:?}");
    let guest = Sender::Pod(*guests, "far");
    targets.are_reached_otherwise(guest, false).await.context("from a guest")?;
    ensure!(guest.ping(home, 1).await? == 1, "a guest does not reach its home by ping");
    late::begins(guests, targets).await.context("a guest that will end")
}

/// By the one contract that there is.
async fn is_of_closed_guests(home: &Daemon<'_>) -> Result<()> {
    let contracts = home.json(&["contracts", "list"]).await?;
    let id = contracts[0]["id"].as_str().context("a contract")?.to_owned();
    let contract = home.mercato(&["contracts", "show", &id, "-o", "json"]).await?.ok()?;
    ensure!(contract.contains("\"required\""), "its guests are not closed: {contract}");
    Ok(())
}

/// As by somebody who empties nf_tables on both nodes.
async fn loses_its_rules(turin: &Cluster) -> Result<()> {
    for number in [1, 2] {
        for family in ["ip", "ip6"] {
            let delete = format!("nft delete table {family} mercato");
            turin.on_nth_machine(number, &delete).await?;
        }
    }
    Ok(())
}

/// At level `full`: while programs and daemon start again a guest finds no more. At level `ci` suite `egress` looks
/// at guests without a daemon.
async fn starts_again(
    provider: &Daemon<'_>,
    agents: &Nodes<'_>,
    guests: &User<'_>,
    targets: &Targets,
) -> Result<()> {
    if suite::level() == Level::Full {
        agents.replaced(2).await?;
        provider.kill().await?;
        let restarted = Found::again(guests, "scout", targets).await?;
        ensure!(restarted == Found::default(), "it found {restarted:?}");
    }
    Ok(())
}

/// At level `full`: while a node is without a program nothing is on sale, and its owner hears which node that is.
async fn sold_while_proven(
    home: &Daemon<'_>,
    provider: &Daemon<'_>,
    agents: &Nodes<'_>,
    timer: &mut StepTimer,
) -> Result<()> {
    if suite::level() == Level::Ci {
        return Ok(());
    }
    let (name, node) = (provider.cluster.name(), provider.cluster.machine(2).name());
    home.sees_offer_of(name).await?;
    agents.leave(true).await?;
    home.loses_offer_of(name, GONE).await?;
    let why = "nothing of Mercato answers there";
    let lost = told_of(provider, &node, "IsolationLost", why).await?;
    ensure!(
        [&node, "kubectl apply -f config/deploy/"].iter().all(|it| lost.contains(*it)),
        "{lost}"
    );
    let doctor = provider.mercato(&["doctor"]).await?.stdout;
    ensure!(doctor.contains(&format!("guests on {node} are not closed")), "{doctor}");
    let status = provider.mercato(&["status"]).await?.ok()?;
    ensure!(status.contains("required is not sold"), "{status}");
    agents.leave(false).await?;
    home.sees_offer_of(name).await?;
    told_of(provider, &node, "IsolationProven", "can be sold").await?;
    timer.step("without a program on a node nothing is sold so, and with it again");
    Ok(())
}

/// A pod beside the guest that asks for it, as whoever can be made to may, is not closed.
async fn who_lies_stays_open(turin: &Cluster, targets: &Targets) -> Result<()> {
    let of = |field: &str| format!("jsonpath={{{field}}}");
    let guest = User::new(turin, GUESTS);
    let node = guest.kubectl(&["get", "pod", "far", "-o", &of(".spec.nodeName")]).await?;
    let uid = guest.kubectl(&["get", "pod", "far", "-o", &of(".metadata.uid")]).await?;
    let host = guest.kubectl(&["get", "pod", "far", "-o", &of(".status.hostIP")]).await?;
    let user = User::new(turin, LOCAL).on(&node);
    Found::by(&user, "liar", targets).await?;
    let asks = format!("echo {uid} | nc -w 3 {host} {PORT}");
    let said = user.kubectl(&["exec", "liar", "--", "sh", "-c", &asks]).await?;
    ensure!(said.trim() == "wait", "it is told {said:?}");
    let found = Found::again(&user, "liar", targets).await?;
    ensure!(found == targets.all(), "whoever asks is closed, and finds {found:?}");
    Ok(())
}

/// Rome cancels, and its pods there end: what was set up for them goes everywhere.
async fn over(home: &Daemon<'_>, provider: &Daemon<'_>, guest: IpAddr) -> Result<()> {
    late::ends(home, provider).await.context("a guest that goes on")?;
    home.cluster.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await?.ok()?;
    let (near, far) = (home.cluster, provider.cluster);
    futures::try_join!(has_no_tunnel(near, 1), has_no_tunnel(far, 1), has_no_tunnel(far, 2))?;
    for number in [1, 2] {
        let known =
            format!("conntrack -L 2>/dev/null | grep -F '={guest} ' | grep '=10[.]20[0-7][.]'");
        let what = format!("conntrack of node {number} knows nobody who has called {guest}");
        let nothing =
            format!("left=$({known}) || true; [ -z \"$left\" ] || {{ echo \"$left\"; exit 1; }}");
        wait::until(&what, TOLD, || async {
            far.on_nth_machine(number, &nothing).await?;
            Ok(true)
        })
        .await?;
    }
    Ok(())
}
