//! Three real clusters with equal ranges, as one installer makes them, and three pod networks: two
//! buy of one, which closes guests, and that one buys of one of them. Each reaches its own guests, is
//! reached by them, and nobody else; nor do guests of two homes on one node reach each other, nor pods of
//! home's namespaces that nobody has offloaded, until an owner opens a Service to them.

mod bound;
mod open;

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, Cluster, ClusterSpec, PodNetwork};
use mercato_tests::courier::Sender;
use mercato_tests::daemon::Daemon;
use mercato_tests::image;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Stage, Test};
use mercato_tests::user::User;

const GATEWAY: &str = "gateway:\n  enabled: on";
const NAMESPACE: &str = "calls";
/// Of the provider's own pods.
const LOCAL: &str = "neighbours";
const PODS: usize = 4;
const BYTES: u64 = 5_000_000;
const MARKER: &str = "for-its-own-home-alone";

fn main() -> ExitCode {
    let same = |name, pod_network| {
        let cidrs = Some(Cidrs::same());
        ClusterSpec { cidrs, pod_network, ..ClusterSpec::named(name) }
    };
    let clusters = vec![
        same("milan", PodNetwork::Bridged),
        same("rome", PodNetwork::Plain),
        same("turin", PodNetwork::Routed),
    ];
    let tests = vec![Test::ci("each_reaches_its_own_guests", |s| Box::pin(each_its_own(s)))];
    suite::run("scopes", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

/// A pod of a cluster, and its guest in another.
struct Pair<'a> {
    home: &'a Cluster,
    provider: &'a Cluster,
    user: User<'a>,
    /// What home shows of the guest.
    guest: IpAddr,
    /// As whom the guest knows the pod at home.
    pod: IpAddr,
    /// The guest's own address over there.
    own: IpAddr,
}

async fn each_its_own(stage: &Stage) -> Result<()> {
    let [milan, rome, turin] = ["milan", "rome", "turin"].map(|name| stage.cluster(name));
    let program = stage.program("mercato")?;
    let start = async |cluster| Daemon::start(cluster, &program, GATEWAY).await;
    turin.import(1, &image::of_program(&program)?).await.context("the image of gates")?;
    let closes = format!("{GATEWAY}\n  nodes:\n    image: {}", image::MERCATO);
    let mut timer = StepTimer::start();
    let [in_milan, in_rome, in_turin] =
        [start(milan).await?, start(rome).await?, Daemon::start(turin, &program, &closes).await?];
    in_rome.leases_by(&in_turin, PODS, "required").await.context("rome buys of turin")?;
    in_milan.leases_by(&in_turin, PODS, "required").await.context("milan buys of turin")?;
    in_turin.leases_from(&in_rome, PODS).await.context("turin buys of rome")?;
    timer.step("three contracts");
    let mut pairs = Vec::new();
    for (home, provider) in [(&in_rome, turin), (&in_milan, turin), (&in_turin, rome)] {
        pairs.push(Pair::open(home, provider).await?);
    }
    timer.step("each has called its guest, and its guest has called back");
    nobody_else(&pairs).await?;
    timer.step("and nobody has called another's");
    bound::open_nothing(&in_rome, &pairs[0]).await.context("pods that are bound and stay")?;
    timer.step("nor a pod of a namespace of which pods are bound to a virtual node, and stay");
    bound::are_opened(&in_rome, &pairs[0]).await.context("what an owner opens")?;
    timer.step("until its owner opened one Service of it, and that alone");
    neighbours_do_not_meet(turin, &pairs).await?;
    timer.step("nor have guests of two homes on one node, as its own pods have");
    Ok(())
}

impl<'a> Pair<'a> {
    /// Makes both, and has them call each other.
    async fn open(home: &Daemon<'a>, provider: &'a Cluster) -> Result<Self> {
        let (cluster, name) = (home.cluster, home.cluster.name());
        cluster.kubectl(&["create", "namespace", NAMESPACE]).await?.ok()?;
        home.offload(NAMESPACE, "Both").await?;
        let user = User::new(cluster, NAMESPACE);
        let (here, there) = (format!("{name}-1"), format!("mercato-{}", provider.name()));
        let (near, far) = (user.on(&here), user.on(&there));
        futures::try_join!(near.serves("near"), far.serves("far"))?;
        let guest = user.address_of("far").await?;
        let what = format!("a pod of {name} and its guest in {}", provider.name());
        let there = Sender::Pod(user, "near").tcp(guest, BYTES, MARKER).await;
        let there = there.with_context(|| format!("{what}: there"))?;
        let back = Sender::Pod(user, "far").tcp(there.seen_as, BYTES, MARKER).await;
        let back = back.with_context(|| format!("{what}: back"))?;
        ensure!((there.back, back.back) == (BYTES, BYTES), "{what}: {there:?} {back:?}");
        ensure!(back.seen_as == guest, "{what}: home sees {}, not {guest}", back.seen_as);
        let own = User::new(provider, &format!("{NAMESPACE}-{name}")).address_of("far").await?;
        Ok(Self { home: cluster, provider, user, guest, pod: there.seen_as, own })
    }

    /// Nobody answers one of the two there.
    async fn is_refused(&self, from: &str, to: IpAddr) -> Result<()> {
        let answered = Sender::Pod(self.user, from).ping(to, 1).await?;
        let (home, provider) = (self.home.name(), self.provider.name());
        ensure!(answered == 0, "{from} of {home}, with a guest in {provider}, has reached {to}");
        Ok(())
    }

    /// Whether an address is that of one of the two: home may show what the other knows differently.
    fn means(&self, address: IpAddr) -> bool {
        [self.guest, self.pod].contains(&address)
    }
}

/// By no address that another one is known by.
async fn nobody_else(pairs: &[Pair<'_>]) -> Result<()> {
    let tries = pairs.iter().flat_map(|pair| {
        let others = pairs.iter().flat_map(|other| [other.guest, other.pod]);
        let others = others.filter(|address| !pair.means(*address));
        others.flat_map(|to| ["near", "far"].map(|from| pair.is_refused(from, to)))
    });
    futures::future::try_join_all(tries).await.map(drop)
}

/// On this node its own pods reach each other, and guests of two homes do not.
async fn neighbours_do_not_meet(node: &Cluster, pairs: &[Pair<'_>]) -> Result<()> {
    node.kubectl(&["create", "namespace", LOCAL]).await?.ok()?;
    let local = User::new(node, LOCAL);
    futures::try_join!(local.serves("one"), local.serves("two"))?;
    let two = local.address_of("two").await?;
    ensure!(Sender::Pod(local, "one").ping(two, 1).await? == 1, "no pod reaches another there");
    let guests: Vec<_> = pairs.iter().filter(|it| it.provider.name() == node.name()).collect();
    ensure!(guests.len() == 2, "{} homes have guests there", guests.len());
    for (one, other) in [(0, 1), (1, 0)].map(|(one, other)| (guests[one], guests[other])) {
        one.is_refused("far", other.own).await?;
        one.is_refused("far", two).await?;
        let carried = Sender::Pod(one.user, "far").tcp(other.own, 1_000, MARKER).await;
        ensure!(carried.is_err(), "a guest of {} has called a neighbour", one.home.name());
    }
    Ok(())
}
