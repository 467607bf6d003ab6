//! Whom a pod reaches of all who are there.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier;
use mercato_tests::user::User;

use super::internet::{BEHIND, Internet, NAMED, NAMED_V6, NOBODYS, OTHER, ROUTER, ROUTER_V6, at};

/// An address and a port.
pub(crate) type Target = (IpAddr, u16);

/// A public address of a node, which it has beside that of its own network.
pub(crate) const OF_NODE: &str = "9.9.9.77";
/// The port where mail is taken.
const MAIL: u16 = 25;
const KUBELET: u16 = 10_250;
/// Whoever is there refuses it.
const NOBODY_LISTENS: u16 = 9;
const NEIGHBOURS: &str = "neighbours";

/// Those whom a pod tries, by what they are.
pub(crate) struct Targets {
    /// Whom the contract of ranges names.
    pub(crate) named: BTreeSet<Target>,
    /// The others of the Internet.
    pub(crate) others: BTreeSet<Target>,
    /// Whom no guest reaches, whatever its contract says.
    pub(crate) never: BTreeSet<Target>,
}

impl Targets {
    /// Those of the Internet, and a provider's own: nodes, API server, pods, the LAN.
    pub(crate) async fn of(provider: &Cluster) -> Result<Self> {
        let named = [at(NAMED)?, at(NAMED_V6)?, at(BEHIND)?].into();
        let others = [at(OTHER)?].into();
        let mut never: BTreeSet<Target> = NOBODYS.iter().map(|it| at(it)).collect::<Result<_>>()?;
        never.insert((NAMED.parse()?, MAIL));
        never.insert((OF_NODE.parse()?, KUBELET));
        never.extend([at(ROUTER)?, at(ROUTER_V6)?]);
        provider.kubectl(&["create", "namespace", NEIGHBOURS]).await?.ok()?;
        let user = User::new(provider, NEIGHBOURS);
        for number in [1, 2] {
            let machine = provider.machine(number);
            never.extend([(machine.address(), KUBELET), (machine.address_v6(), NOBODY_LISTENS)]);
            let name = format!("neighbour-{number}");
            user.on(&machine.name()).serves(&name).await.with_context(|| name.clone())?;
            never.extend(user.addresses_of(&name).await?.map(|pod| (pod, courier::PORT)));
        }
        let service = ["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"];
        let service = User::new(provider, "default").kubectl(&service).await?;
        never.insert((service.parse()?, 443));
        Ok(Self { named, others, never })
    }

    /// All of them answer an ordinary pod, or nothing is shown by who does not answer a guest.
    pub(crate) async fn answer(&self, internet: &Internet<'_>, provider: &Cluster) -> Result<()> {
        let pod = User::new(provider, NEIGHBOURS).addresses_of("neighbour-1").await?;
        let machine = provider.machine(1);
        for (pod, via) in pod.into_iter().zip([machine.address(), machine.address_v6()]) {
            internet.finds(pod, via)?;
        }
        let found = self.found(&User::new(provider, NEIGHBOURS), "neighbour-1").await?;
        let all: BTreeSet<_> = self.all().collect();
        let missing: Vec<_> = all.difference(&found).collect();
        ensure!(missing.is_empty(), "an ordinary pod does not find {missing:?}");
        Ok(())
    }

    /// Whom a pod finds of all of them.
    pub(crate) async fn found(&self, user: &User<'_>, pod: &str) -> Result<BTreeSet<Target>> {
        // Whoever refuses is found, too.
        let one = |(address, port): Target| {
            format!(
                "(said=$(busybox nc -w 3 {address} {port} </dev/null 2>&1 >/dev/null); \
                 case $?$said in 0*|*refused*) echo found {address} {port};; esac) & "
            )
        };
        let script = self.all().map(one).collect::<String>() + "wait; echo done";
        let said = user.kubectl(&["exec", pod, "--", "busybox", "sh", "-c", &script]).await?;
        ensure!(said.contains("done"), "{pod} said {said:?}");
        let found = said.lines().filter_map(|line| line.strip_prefix("found ")?.split_once(' '));
        found.map(|(address, port)| Ok((address.parse()?, port.parse()?))).collect()
    }

    fn all(&self) -> impl Iterator<Item = Target> {
        self.named.iter().chain(&self.others).chain(&self.never).copied()
    }
}
