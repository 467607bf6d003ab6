//! A pod on each node of home and a guest on each node of the provider, and their calls.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_protocol::tunnel;
use mercato_tests::capture::{Capture, Overlay, Seen};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::{self, Carried, Sender};
use mercato_tests::suite::Stage;
use mercato_tests::user::User;
use mercato_tests::wait;

/// Of the pods at home, offloaded.
pub(crate) const NAMESPACE: &str = "calls";
/// What it is called in turin.
const GUESTS: &str = "calls-rome";
const NODE: &str = "mercato-turin";
/// Of home, each on the node of its number; and of the guests.
pub(crate) const NEAR: [&str; 2] = ["near-1", "near-2"];
pub(crate) const FAR: [&str; 2] = ["far-1", "far-2"];
/// What is looked for in packets.
pub(crate) const MARKER: &str = "from-any-node-to-any-other";
/// Between the nodes of a cluster packets are in clear, by this port (ADR 31).
const OVERLAY: u16 = 7_477;
const BYTES: u64 = 2_000_000;
const DATAGRAMS: u64 = 40;
/// Of a packet that is larger than one datagram between gateways carries, and
/// which the overlay takes.
const LARGE: u64 = 1_428;
const PINGS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// The pods and the guests, all of which serve.
pub(crate) struct Calls<'a> {
    pub(crate) home: &'a Cluster,
    pub(crate) user: User<'a>,
}

impl<'a> Calls<'a> {
    pub(crate) async fn open(home: &'a Cluster, provider: &'a Cluster) -> Result<Self> {
        let user = User::new(home, NAMESPACE);
        let [one, two] = [1, 2].map(|number| home.machine(number).name());
        let (on_one, on_two) = (user.on(&one), user.on(&two));
        futures::try_join!(on_one.serves(NEAR[0]), on_two.serves(NEAR[1]))?;
        for (number, name) in (1..).zip(FAR) {
            guest_on(&user, provider, number, name).await.with_context(|| name.to_owned())?;
        }
        Ok(Self { home, user })
    }

    /// The addresses of the guests, once each pod and node of home is answered by each of them.
    pub(crate) async fn meet(&self) -> Result<[IpAddr; 2]> {
        let [one, two] = FAR.map(|name| self.user.address_of(name));
        self.answered([one.await?, two.await?]).await
    }

    /// The same by IPv6: each address follows from the one of IPv4.
    pub(crate) async fn meet_by_ipv6(&self, firsts: [IpAddr; 2]) -> Result<[IpAddr; 2]> {
        let mut seconds = firsts;
        for (name, address) in FAR.into_iter().zip(&mut seconds) {
            let [first, second] = self.user.addresses_of(name).await?;
            ensure!(first == *address, "{name} is {first} by now, and not {address}");
            follows(first, second).with_context(|| name.to_owned())?;
            *address = second;
        }
        self.answered(seconds).await
    }

    async fn answered(&self, addresses: [IpAddr; 2]) -> Result<[IpAddr; 2]> {
        for from in self.senders() {
            for to in addresses {
                wait::until(&format!("{to} answers {}", name(from)), PATIENCE, || async {
                    Ok(from.ping(to, 1).await? == 1)
                })
                .await?;
            }
        }
        Ok(addresses)
    }

    fn senders(&self) -> [Sender<'a>; 4] {
        let [one, two] = NEAR.map(|name| Sender::Pod(self.user, name));
        [one, two, Sender::Node(self.home, 1), Sender::Node(self.home, 2)]
    }

    /// Each of home's to each guest, and each guest back to each pod, by everything; and between
    /// clusters nothing passes in clear. Gives as whom guests see each of home's.
    pub(crate) async fn each_other(
        &self,
        stage: &Stage,
        guests: [IpAddr; 2],
    ) -> Result<Vec<IpAddr>> {
        let wires = Wires::watch(stage)?;
        let mut seen_as = Vec::new();
        for from in self.senders() {
            let mut seen = Vec::new();
            for to in guests {
                let one = carried(from, to).await;
                seen.push(one.with_context(|| format!("{} to {to}", name(from)))?);
            }
            ensure!(seen[0] == seen[1], "{} is seen as {seen:?}", name(from));
            ensure!(!seen_as.contains(&seen[0]), "{} is seen as another: {seen:?}", name(from));
            seen_as.push(seen[0]);
        }
        // By the guests, as pods and nodes of home; and by each other.
        for (from, is) in FAR.into_iter().zip(guests) {
            for to in seen_as[..NEAR.len()].iter().copied().chain(guests) {
                let known = carried(Sender::Pod(self.user, from), to).await;
                let known = known.with_context(|| format!("{from} to {to}"))?;
                ensure!(known == is, "{from}, which is {is} at home, is seen as {known}");
            }
            // The API server calls by the first address.
            if is.is_ipv6() {
                continue;
            }
            let proxied = courier::by_pod_proxy(&self.user, from, BYTES, MARKER).await;
            let proxied = proxied.with_context(|| format!("{from} by home's API server"))?;
            let node = seen_as[NEAR.len()];
            ensure!((proxied.seen_as, proxied.back) == (node, BYTES), "{from}: {proxied:?}");
        }
        let seen = wires.end()?;
        ensure!(seen.marked == 0 && seen.overlaid > 300, "on the wires: {seen:?}");
        Ok(seen_as)
    }

    /// All of that by IPv6, as whoever is known by IPv4.
    pub(crate) async fn each_other_by_ipv6(
        &self,
        stage: &Stage,
        guests: [IpAddr; 2],
        seen_as: &[IpAddr],
    ) -> Result<()> {
        let seconds = self.each_other(stage, guests).await?;
        seen_as.iter().zip(seconds).try_for_each(|(first, second)| follows(*first, second))
    }
}

/// The one address of IPv6 that belongs to one of IPv4.
fn follows(first: IpAddr, second: IpAddr) -> Result<()> {
    let known = tunnel::second(tunnel::SECOND_POOL, first);
    ensure!(known == Some(second), "{first} goes with {known:?}, and not with {second}");
    Ok(())
}

fn name(sender: Sender<'_>) -> String {
    match sender {
        Sender::Pod(_, name) => name.to_owned(),
        Sender::Node(_, number) => format!("home's node {number}"),
    }
}

/// A guest on one of the provider's nodes: the other one takes none meanwhile.
async fn guest_on(user: &User<'_>, provider: &Cluster, number: u8, name: &str) -> Result<()> {
    let (here, other) = (provider.machine(number).name(), provider.machine(3 - number).name());
    provider.kubectl(&["cordon", &other]).await?.ok()?;
    user.on(NODE).serves(name).await?;
    provider.kubectl(&["uncordon", &other]).await?.ok()?;
    let node = ["get", "pod", name, "-o", "jsonpath={.spec.nodeName}"];
    let node = User::new(provider, GUESTS).kubectl(&node).await?;
    ensure!(node == here, "it is on {node}, not on {here}");
    Ok(())
}

/// The links of all machines of both clusters, where packets of the marker are looked for.
struct Wires(Capture);

impl Wires {
    fn watch(stage: &Stage) -> Result<Self> {
        let overlay = |name: &&str| {
            let cluster = stage.cluster(name);
            let machines = [1, 2].map(|number| cluster.machine(number).address()).into();
            Overlay { port: OVERLAY, machines }
        };
        let overlays = ["rome", "turin"].iter().map(overlay).collect();
        Ok(Self(Capture::beside(&stage.bed.network(), MARKER, overlays)?))
    }

    /// What has passed, on all links together.
    fn end(self) -> Result<Seen> {
        let mut all = Seen::default();
        for seen in self.0.end()?.into_values() {
            all.packets += seen.packets;
            all.marked += seen.marked;
            all.overlaid += seen.overlaid;
        }
        ensure!(all.packets > 0, "nothing at all has passed the wires");
        Ok(all)
    }
}

/// By everything; gives as whom the other end has seen the sender.
async fn carried(from: Sender<'_>, to: IpAddr) -> Result<IpAddr> {
    // First: nobody has been told how large packets may be, and none is lost by it.
    let headers = if to.is_ipv4() { 20 + 8 } else { 40 + 8 };
    let large = from.udp_of(LARGE - headers, to, DATAGRAMS, MARKER).await?;
    let all = (large.there, large.back) == (DATAGRAMS, DATAGRAMS);
    ensure!(all, "by UDP in packets of {LARGE} bytes {large:?}");
    let tcp = from.tcp(to, BYTES, MARKER).await?;
    let seen_as = tcp.seen_as;
    ensure!(tcp == Carried { there: BYTES, back: BYTES, ..tcp }, "by TCP {tcp:?}");
    let udp = from.udp(to, DATAGRAMS, MARKER).await?;
    ensure!(udp == Carried { there: DATAGRAMS, back: DATAGRAMS, seen_as, ..udp }, "by UDP {udp:?}");
    let answered = from.ping(to, PINGS).await?;
    ensure!(answered == PINGS, "{answered} of {PINGS} pings were answered");
    Ok(seen_as)
}
