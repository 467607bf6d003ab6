//! What the task of a lease tells, besides what the agent hears.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use mercato_agent::Input;
use mercato_offload::placement::export::Destinations;
use mercato_protocol::names::LeaseNames;
use mercato_protocol::node::ServiceAddress;
use tokio::sync::watch;

/// Tells the agent; waits while it is behind.
pub(crate) type Report = Arc<dyn Fn(Input) -> BoxFuture<'static, ()> + Send + Sync>;

/// Takes all the addresses that Services of a lease's guest namespaces have now.
pub(crate) type TellServices = Arc<dyn Fn(BTreeSet<ServiceAddress>) + Send + Sync>;

/// Takes all names that the guests of a lease have at home.
pub(crate) type TellNames = Arc<dyn Fn(Arc<LeaseNames>) + Send + Sync>;

/// Takes where Services of namespaces lead that open them to a lease, all of them each time.
pub(crate) type TellLeads = Arc<dyn Fn(Leads) + Send + Sync>;

/// Where Services lead that namespaces open to a lease, by what its side at home has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leads {
    /// The virtual node of the lease.
    pub(crate) node: String,
    /// By address, as pods have them at home.
    pub(crate) to: Destinations,
}

/// Where guests are told home's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NameServerAt {
    /// That is not known yet, and is soon.
    #[default]
    NotYet,
    /// Nowhere in this cluster, or not on each of its nodes.
    Nowhere,
    /// On each node, at this address.
    There(IpAddr),
}

/// Whom a lease's task tells what it finds, and what it is told.
pub(crate) struct Telling {
    /// Takes what the agent is told.
    pub(crate) report: Report,
    /// Takes what whoever closes guests is told.
    pub(crate) services: TellServices,
    /// Takes what guests are told of names.
    pub(crate) names: TellNames,
    /// Takes where Services lead that are open.
    pub(crate) leads: TellLeads,
    /// Where guests are told that.
    pub(crate) name_server: watch::Receiver<NameServerAt>,
    /// Whether there are tunnels at all.
    pub(crate) has_tunnels: bool,
    /// At which address inside of them guests elsewhere reach this cluster's API server.
    pub(crate) home_api: Option<IpAddr>,
}
