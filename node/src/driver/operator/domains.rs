//! The domains of federations: looked up when the owner asks, followed as long as this cluster
//! goes by the federation.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mercato_agent::Input;
use mercato_protocol::envelope::Signed;
use mercato_protocol::federation::Root;
use mercato_sources::{Dns, DnsError, Following, domain_name};
use tokio::task::JoinSet;

use crate::admin::{Announced, Class, Problem};
use crate::doctor::Finding;
use crate::driver::{Driver, Gone, Handle, clock};

/// What is known by DNS.
pub(crate) struct Domains {
    dns: Result<Dns, String>,
    followed: Mutex<BTreeMap<String, Followed>>,
}

struct Followed {
    _following: Following,
    /// Takes the reports to the agent; ends with it.
    _telling: JoinSet<()>,
}

impl Domains {
    /// Asks these servers, or cannot.
    pub(crate) fn new(dns: Result<Dns, DnsError>) -> Self {
        Self { dns: dns.map_err(|error| error.to_string()), followed: Mutex::default() }
    }

    /// What a domain announces; nothing is believed yet.
    pub(in crate::driver) async fn announced(&self, domain: &str) -> Result<Announced, Problem> {
        let dns = self.dns.as_ref().map_err(|why| Problem::failed(why.clone()).todo(OTHER))?;
        let domain = domain_name(domain).map_err(|error| {
            Problem::new(Class::Usage, error.to_string())
                .todo("name a domain such as alps.example, or give a registrar's token")
        })?;
        let root: Signed<Root> = dns.root(&domain).await.map_err(|error| problem(&error))?;
        let founded = root.open_root(clock::wall()).map_err(|error| {
            Problem::failed(format!("{domain} announces no federation: {error}"))
        })?;
        let peers = dns.peers(&domain).await.map_err(|error| problem(&error))?;
        let peers = peers.addresses.iter().map(ToString::to_string).collect();
        Ok(Announced { domain, name: founded.name.clone(), id: founded.id(), root, peers })
    }

    /// Whether the domains that are followed announce their federations now.
    pub(super) async fn findings(&self) -> Vec<Finding> {
        let domains: Vec<String> = {
            let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            followed.keys().cloned().collect()
        };
        let looks = domains.iter().map(|domain| tokio::time::timeout(LOOK, self.announced(domain)));
        let found = futures::future::join_all(looks).await;
        domains.iter().zip(found).map(|(domain, found)| finding(domain, found.ok())).collect()
    }

    /// Follows the domains of the federations that there are now, and no others.
    pub(crate) async fn follow(&self, driver: &Handle) -> Result<(), Gone> {
        let Ok(dns) = &self.dns else { return Ok(()) };
        let domains = |driver: &Driver| {
            let federations = driver.agent().federations().into_iter();
            federations.filter_map(|federation| federation.domain).collect::<Vec<_>>()
        };
        let domains = driver.look(domains).await?;
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|domain, _| domains.contains(domain));
        for domain in domains {
            followed.entry(domain).or_insert_with_key(|domain| {
                let (following, mut reports) = dns.clone().follow(domain.clone());
                let driver = driver.clone();
                let mut telling = JoinSet::new();
                telling.spawn(async move {
                    while let Some(report) = reports.recv().await {
                        driver.tell(Input::Sighted(report)).await;
                    }
                });
                Followed { _following: following, _telling: telling }
            });
        }
        Ok(())
    }
}

/// What came of looking a domain up; none: nothing in time.
fn finding(domain: &str, found: Option<Result<Announced, Problem>>) -> Finding {
    match found {
        Some(Ok(Announced { name, peers, .. })) => {
            let peers = match peers.len() {
                1 => "1 address".to_owned(),
                more => format!("{more} addresses"),
            };
            Finding::ok("names", format!("{domain} announces the federation {name}, at {peers}"))
        }
        Some(Err(problem)) => {
            let said = format!("{domain}, which is followed by DNS: {}", problem.what);
            problem.todo.into_iter().fold(Finding::warn("names", said), Finding::todo)
        }
        None => {
            let said = format!("{domain}, which is followed by DNS: no answer within 5 s");
            Finding::warn("names", said).todo(OTHER)
        }
    }
}

/// How long a domain is waited for.
const LOOK: Duration = Duration::from_secs(5);
/// Whose word decides which server is asked.
const OTHER: &str = "to have the daemon ask another name server: mercato run --dns ADDR:53, or \
    `dns` in its configuration";

fn problem(error: &DnsError) -> Problem {
    let (class, todo) = match error {
        DnsError::NoRoot { .. } => (
            Class::NoMatch,
            "its operator publishes what this prints: mercato federation dns DOMAIN",
        ),
        DnsError::Domain(_) => (Class::Usage, "name a domain such as alps.example"),
        DnsError::System(_) | DnsError::Lookup { .. } => (Class::Failed, OTHER),
    };
    Problem::new(class, error.to_string()).todo(todo).because(error)
}
