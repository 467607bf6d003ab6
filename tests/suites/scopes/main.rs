//! Three real clusters with equal ranges, as one installer makes them, and three pod networks: two
//! buy of one, and that one buys of one of them. Each reaches its own guests, is reached by them, and nobody else.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, Cluster, ClusterSpec, PodNetwork};
use mercato_tests::courier::Sender;
use mercato_tests::daemon::Daemon;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Stage, Test};
use mercato_tests::user::User;

const GATEWAY: &str = "gateway:\n  enabled: on";
const NAMESPACE: &str = "calls";
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
}

async fn each_its_own(stage: &Stage) -> Result<()> {
    let [milan, rome, turin] = ["milan", "rome", "turin"].map(|name| stage.cluster(name));
    let program = stage.program("mercato")?;
    let start = async |cluster| Daemon::start(cluster, &program, GATEWAY).await;
    let mut timer = StepTimer::start();
    let [in_milan, in_rome, in_turin] =
        [start(milan).await?, start(rome).await?, start(turin).await?];
    in_rome.leases_from(&in_turin, PODS).await.context("rome buys of turin")?;
    in_milan.leases_from(&in_turin, PODS).await.context("milan buys of turin")?;
    in_turin.leases_from(&in_rome, PODS).await.context("turin buys of rome")?;
    timer.step("three contracts");
    let mut pairs = Vec::new();
    for (home, provider) in [(&in_rome, turin), (&in_milan, turin), (&in_turin, rome)] {
        pairs.push(Pair::open(home, provider).await?);
    }
    timer.step("each has called its guest, and its guest has called back");
    nobody_else(&pairs).await?;
    timer.step("and nobody has called another's");
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
        Ok(Self { home: cluster, provider, user, guest, pod: there.seen_as })
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
