//! What plays the Internet of the bed: a machine to which the default routes of nodes lead.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier;
use mercato_tests::suite::Stage;
use mercato_tests::supervisor::Program;
use mercato_tests::wait;

const SCRIPT: &str = include_str!("internet.sh");
const NAME: &str = "internet";
const PATIENCE: Duration = Duration::from_secs(20);

/// The addresses of the machine on the LAN.
pub(crate) const ROUTER: &str = "10.77.255.1";
pub(crate) const ROUTER_V6: &str = "fd77::fffe";
/// Somebody whom the contract of ranges names, of each family;
pub(crate) const NAMED: &str = "9.9.9.9";
pub(crate) const NAMED_V6: &str = "2620:fe::9";
/// somebody behind a hop that takes 1,300 bytes, whose router has a private address alone, and whom it names too;
pub(crate) const BEHIND: &str = "9.9.11.1";
/// and somebody whom it does not.
pub(crate) const OTHER: &str = "8.8.8.8";
/// The ranges of that contract.
pub(crate) const RANGES: &str = "9.9.9.0/24,9.9.11.0/24,2620:fe::/48";
/// Addresses that are nobody's, and that answer here all the same: metadata of clouds, 6to4 and its anycast,
/// Teredo, and IPv4 within IPv6.
pub(crate) const NOBODYS: [&str; 6] = [
    "169.254.169.254",
    "168.63.129.16",
    "192.88.99.1",
    "2002:909:909::1",
    "2001::909:909",
    "64:ff9b::909:909",
];

/// The machine, until the bed ends.
pub(crate) struct Internet<'s> {
    stage: &'s Stage,
    process: i32,
}

impl<'s> Internet<'s> {
    /// Begins it, or finds the one that is there.
    pub(crate) fn begin(stage: &'s Stage) -> Result<Self> {
        let supervisor = stage.bed.supervisor();
        let log = stage.bed.data().join(NAME);
        let said = stage.bed.from_outside(&log);
        let courier = stage.toolchain.program("courier").display().to_string();
        let single = |address: &&str| {
            let length = if address.contains(':') { 128 } else { 32 };
            format!("{address}/{length}")
        };
        let all = [NAMED, NAMED_V6, OTHER].iter().chain(&NOBODYS).map(single);
        supervisor.start(Program {
            name: NAME.to_owned(),
            argv: ["unshare", "--net", "sh", "-c", SCRIPT].map(str::to_owned).to_vec(),
            env: vec![
                ("ADDRESSES".into(), all.collect::<Vec<_>>().join(" ")),
                ("ROUTER".into(), ROUTER.into()),
                ("ROUTER_V6".into(), ROUTER_V6.into()),
                ("NAMED".into(), NAMED.into()),
                ("BEHIND".into(), BEHIND.into()),
                ("COURIER".into(), courier),
            ],
            log,
            restarts: false,
        })?;
        wait::until_blocking("the Internet is there", PATIENCE, || {
            let said = fs::read_to_string(&said)?;
            ensure!(said.lines().any(|line| line == "ready"), "{said}");
            Ok(true)
        })?;
        let all = supervisor.list()?;
        let lives = all.iter().find(|program| program.name == NAME && program.exit.is_none());
        let process = lives.with_context(|| format!("{NAME} has ended"))?.pid;
        Ok(Self { stage, process })
    }

    /// The nodes of a cluster find it.
    pub(crate) async fn is_found(&self, cluster: &Cluster) -> Result<()> {
        let routes = format!(
            "ip route replace default via {ROUTER} && ip -6 route replace default via {ROUTER_V6}"
        );
        for number in 1..=cluster.spec().nodes {
            cluster.on_nth_machine(number, &routes).await?;
        }
        Ok(())
    }

    /// It finds this address by that machine of the LAN.
    pub(crate) fn finds(&self, address: IpAddr, via: IpAddr) -> Result<()> {
        let (to, via) = (address.to_string(), via.to_string());
        let route = ["route", "replace", &to, "via", &via];
        let done = self.stage.bed.command(self.process, "ip").args(route).output()?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    }
}

/// Somebody whom guests try, at the courier's port.
pub(crate) fn at(address: &str) -> Result<(IpAddr, u16)> {
    Ok((address.parse()?, courier::PORT))
}
