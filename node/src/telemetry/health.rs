//! Whether the daemon is well: one check a line, with the reason of one that fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_broker::Standing;
use mercato_protocol::text::shown;

use super::scrape::Facts;
use crate::admin::{TunnelState, Tunnels};
use crate::driver::{Driver, Handle};
use crate::kubernetes::Kubernetes;
use crate::limits;

/// What health is judged by.
pub(super) struct Health {
    pub(super) driver: Handle,
    pub(super) kubernetes: Option<Arc<dyn Kubernetes>>,
    pub(super) tunnels: Arc<dyn Tunnels>,
}

/// One of the things that have to be well.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Check {
    name: &'static str,
    /// Why it is not well; none: it is.
    trouble: Option<String>,
}

impl Health {
    /// Whether the daemon goes on at all; where it does not, a restart may help.
    pub(super) async fn alive(&self) -> Vec<Check> {
        vec![Check { name: "driver", trouble: self.facts().await.err() }]
    }

    /// Whether it does what it is there for.
    pub(super) async fn ready(&self) -> Vec<Check> {
        let mut checks = self.alive().await;
        let degraded = |driver: &Driver| driver.agent().degraded().map(str::to_owned);
        if let Ok(degraded) = self.driver.look(degraded).await {
            let trouble = degraded.map(|why| {
                format!("read-only: cannot write to the data folder; no new contracts: {why}")
            });
            checks.push(Check { name: "store", trouble });
        }
        if let Some(kubernetes) = &self.kubernetes {
            checks.push(Check { name: "kubernetes", trouble: kubernetes.trouble() });
        }
        checks
    }

    /// What the driver knows, if it answers.
    pub(super) async fn facts(&self) -> Result<Facts, String> {
        let looked = tokio::time::timeout(limits::ALIVE, self.driver.look(facts)).await;
        match looked {
            Ok(Ok(facts)) => Ok(facts),
            Ok(Err(gone)) => Err(gone.to_string()),
            Err(_) => Err(format!("it has not answered for {} s", limits::ALIVE.as_secs())),
        }
    }

    /// How the tunnels are, if that is told in time.
    pub(super) async fn tunnels(&self) -> Option<Vec<TunnelState>> {
        tokio::time::timeout(limits::ALIVE, self.tunnels.states()).await.ok()
    }

    /// Whether the API server answers, if there is one.
    pub(super) fn kubernetes(&self) -> Option<bool> {
        self.kubernetes.as_ref().map(|kubernetes| kubernetes.trouble().is_none())
    }
}

/// What the driver knows now.
fn facts(driver: &Driver) -> Facts {
    let (agent, now) = (driver.agent(), driver.now());
    let placed = agent.placed();
    let mut contracts = BTreeMap::new();
    for deal in agent.broker().deals() {
        *contracts.entry((deal.side(), deal.state())).or_default() += 1;
    }
    let mut records = BTreeMap::new();
    for record in driver.records().iter() {
        *records.entry(record.key().kind()).or_default() += 1;
    }
    let trusted = |(_, standing): &(_, Standing)| *standing == Standing::Trusted;
    Facts {
        contracts,
        pods: (placed.elsewhere, placed.here),
        offers: agent.broker().providers(now).count(),
        peers: [
            ("known", agent.directory().known().count()),
            ("connected", agent.connected().len()),
            ("trusted", agent.broker().peers().filter(trusted).count()),
        ],
        depth: driver.backlog(),
        records,
        guest_namespaces: driver.guest_namespaces(),
        waiting: driver.waiting(),
        degraded: agent.degraded().is_some(),
    }
}

/// Whether all is well, and a line for each check.
pub(super) fn report(checks: &[Check]) -> (bool, String) {
    let line = |check: &Check| match &check.trouble {
        None => format!("ok {}\n", check.name),
        Some(why) => {
            format!("failed {}: {}\n", check.name, shown(&why.replace(char::is_control, " ")))
        }
    };
    (checks.iter().all(|check| check.trouble.is_none()), checks.iter().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_fails_says_why() {
        let store = Check { name: "store", trouble: None };
        assert_eq!(report(&[store]), (true, "ok store\n".to_owned()));
        let [store, cluster] = [None, Some("no\nroute".to_owned())]
            .map(|trouble| Check { name: "kubernetes", trouble });
        let (well, text) = report(&[store, cluster]);
        assert!(!well);
        assert_eq!(text, "ok kubernetes\nfailed kubernetes: no route\n");
    }
}
