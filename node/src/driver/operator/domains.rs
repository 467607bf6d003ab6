//! The domains of federations: looked up when the owner asks, followed as long as this cluster
//! goes by the federation.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use mercato_agent::Input;
use mercato_protocol::envelope::Signed;
use mercato_protocol::federation::Root;
use mercato_sources::{Dns, DnsError, Following, domain_name};
use tokio::task::JoinSet;

use crate::admin::{Announced, Class, Problem};
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
