//! Whom a pod finds that tries all who are there.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::{self, Sender};
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::json;
use tokio::sync::Mutex;

pub(crate) const IMAGE: &str = "mercato.test/busybox:1";
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

/// Those whom a pod tries, by address and port.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    /// Those of the provider itself.
    there: BTreeSet<(IpAddr, u16)>,
    /// Of home, if it is tried.
    home: Option<IpAddr>,
    /// A guest, by its own addresses.
    guest: [IpAddr; 2],
    /// The pods that are among them.
    pods: Vec<IpAddr>,
}

/// Those who have answered, if only that nobody listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found(BTreeSet<(IpAddr, u16)>);

impl Targets {
    /// The nodes of a cluster, its API server, and a pod of this namespace on each node, which are
    /// made for it; and a guest, by its own address.
    pub(crate) async fn of(
        cluster: &Cluster,
        namespace: &str,
        guests: &User<'_>,
        guest: &str,
    ) -> Result<Self> {
        cluster.kubectl(&["create", "namespace", namespace]).await?.ok()?;
        let user = User::new(cluster, namespace);
        let service = ["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"];
        let service = User::new(cluster, "default").kubectl(&service).await?;
        let mut there = BTreeSet::from([(service.parse()?, 443)]);
        let mut pods = Vec::new();
        for number in [1, 2] {
            let machine = cluster.machine(number);
            let name = format!("neighbour-{number}");
            user.on(&machine.name()).serves(&name).await.with_context(|| name.clone())?;
            let both = user.addresses_of(&name).await?;
            there.extend(both.map(|pod| (pod, courier::PORT)));
            pods.push(both[0]);
            // The kubelet, and a port at which nobody listens.
            there.extend([10_250, 9].map(|port| (machine.address(), port)));
            there.insert((machine.address_v6(), 9));
        }
        let guest = guests.addresses_of(guest).await?;
        Ok(Self { there, home: None, guest, pods })
    }

    /// The guest's own address over there.
    pub(crate) fn guest(&self) -> IpAddr {
        self.guest[0]
    }

    /// The address of the provider's own pod on one of its nodes, counted from 1.
    pub(crate) fn pod(&self, number: usize) -> Result<Ipv4Addr> {
        match self.pods.get(number - 1) {
            Some(IpAddr::V4(pod)) => Ok(*pod),
            other => anyhow::bail!("on node {number} there is {other:?}"),
        }
    }

    /// The same, with nobody to be tried but that one.
    pub(crate) fn only(&self, address: IpAddr) -> Self {
        Self { there: [(address, courier::PORT)].into(), home: None, ..self.clone() }
    }

    /// The same, with a pod of home's.
    pub(crate) fn and(&self, home: IpAddr) -> Self {
        Self { home: Some(home), ..self.clone() }
    }

    pub(crate) fn all(&self) -> Found {
        Found(self.there.clone())
    }

    pub(crate) fn home(&self) -> Found {
        Found(self.home.iter().map(|home| (*home, courier::PORT)).collect())
    }

    /// By UDP and by ping a pod of the courier's image reaches each of the pods, or none of them.
    pub(crate) async fn are_reached_otherwise(&self, from: Sender<'_>, are: bool) -> Result<()> {
        for pod in &self.pods {
            let answered = from.ping(*pod, 1).await?;
            let carried = from.udp(*pod, 3, "closed").await;
            let by_udp = carried.as_ref().is_ok_and(|carried| carried.back > 0);
            ensure!((answered > 0) == are && by_udp == are, "{pod}: {answered}, {carried:?}");
        }
        Ok(())
    }

    /// No pod of this namespace and name has found the guest, whose port is open.
    pub(crate) async fn is_not_called(
        &self,
        cluster: &Cluster,
        namespace: &str,
        pod: &str,
    ) -> Result<()> {
        let user = User::new(cluster, namespace);
        let there = self.guest.map(|guest| (guest, courier::PORT)).into();
        let guest = Self { there, ..self.clone() };
        let found = Found::again(&user, pod, &guest).await?;
        ensure!(found == Found::default(), "a neighbour has called a guest: {found:?}");
        Ok(())
    }

    /// Says on a line each whom it has found: on a busy node a second and a third SYN may be needed, which
    /// are sent after one second and after three.
    pub(crate) fn script(&self) -> String {
        let home = self.home.map(|home| (home, courier::PORT));
        let all = self.there.iter().copied().chain(home);
        let one = |(address, port)| {
            let why = format!("/tmp/{address}-{port}");
            format!(
                "(if nc -w 4 {address} {port} </dev/null >/dev/null 2>{why} || \
                 grep -q refused {why}; then echo found {address} {port}; fi) & "
            )
        };
        all.map(one).collect::<String>() + "wait; echo done"
    }
}

impl Found {
    /// Makes a pod that tries them first in an init container, then in one that goes on beside the others
    /// (a sidecar), and then in its own, and stays.
    pub(crate) async fn by(user: &User<'_>, name: &str, targets: &Targets) -> Result<Self> {
        let script = targets.script();
        let command = |script: &str| json!(["sh", "-c", script]);
        let spec = json!({ "terminationGracePeriodSeconds": 0,
            "initContainers": [
                { "name": "first", "image": IMAGE, "command": command(&script) },
                { "name": "beside", "image": IMAGE, "restartPolicy": "Always",
                    "command": command(&format!("{script}; sleep 3600")) }],
            "containers": [{ "name": name, "image": IMAGE,
                "command": command(&format!("{script}; sleep 3600")) }] });
        user.makes(name, &spec).await?;
        let own = said(user, name, name).await?;
        for other in ["first", "beside"] {
            let by = said(user, name, other).await?;
            // Over IPv6 a new address is nobody's for a second or two (RFC 4862, section 5.4).
            let alike = by.0.is_subset(&own.0) && by.by_version_4() == own.by_version_4();
            ensure!(alike, "its container {other} found {by:?}, and it itself {own:?}");
        }
        Ok(own)
    }

    /// Whom a container finds that joins a pod later (`kubectl debug`).
    pub(crate) async fn beside(user: &User<'_>, pod: &str, targets: &Targets) -> Result<Self> {
        let (image, script) = (format!("--image={IMAGE}"), targets.script());
        let debug = ["debug", pod, &image, "--container=later", "--", "sh", "-c", &script];
        user.kubectl(&debug).await?;
        said(user, pod, "later").await
    }

    fn by_version_4(&self) -> BTreeSet<(IpAddr, u16)> {
        self.0.iter().copied().filter(|(address, _)| address.is_ipv4()).collect()
    }

    /// Whom a pod finds that runs.
    pub(crate) async fn again(user: &User<'_>, pod: &str, targets: &Targets) -> Result<Self> {
        let (script, last) = (targets.script(), Mutex::new(Self::default()));
        // A daemon that has just started knows its peers in a moment.
        wait::until(&format!("{pod} tries them"), PATIENCE, || async {
            let said = user.kubectl(&["exec", pod, "--", "sh", "-c", &script]).await?;
            *last.lock().await = Self::read(&said)?;
            Ok(true)
        })
        .await?;
        Ok(last.into_inner())
    }

    fn read(said: &str) -> Result<Self> {
        let mut found = BTreeSet::new();
        for line in said.lines() {
            if let ["found", address, port] = line.split(' ').collect::<Vec<_>>()[..] {
                found.insert((address.parse()?, port.parse()?));
            }
        }
        ensure!(said.ends_with("done") || said.ends_with("done\n"), "it did not end: {said}");
        Ok(Self(found))
    }
}

/// Whom a container has found that says so on lines, and then that it is done.
pub(crate) async fn said(user: &User<'_>, pod: &str, container: &str) -> Result<Found> {
    let logs = ["logs", pod, "-c", container];
    wait::until(&format!("{pod} has tried all in {container}"), PATIENCE, || async {
        Ok(user.output(&logs).await?.stdout.trim_end().ends_with("done"))
    })
    .await?;
    Found::read(user.kubectl(&logs).await?.trim_end())
}
