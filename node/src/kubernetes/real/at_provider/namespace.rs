//! One guest namespace at the provider: how it is, within which bounds, and what makes it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_agent::{GuestWork, LeaseDesire};
use mercato_kubelet::guest::namespace as guest_namespace;
use mercato_kubelet::{Account, Cluster, Failure, Upkeep};
use mercato_offload::key::Item;
use mercato_offload::placement::Binding;
use mercato_offload::placement::spec::GuestNamespace;
use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;
use tokio::task::AbortHandle;

use super::super::retry::Backoff;
use super::login::Read;

/// A guest namespace; kept by home namespace.
pub(super) struct Namespace {
    pub(super) name: String,
    pub(super) state: State,
    /// What makes it, or will look at it again: one at a time.
    pub(super) making: AbortHandle,
}

/// What the objects in all guest namespaces of a lease say, and may say otherwise one day.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// So much the quota lets be asked for.
    quantity: Resources,
    /// By which resources pods ask for GPUs of it, by model.
    pub(super) resources: BTreeMap<GpuModel, String>,
    /// The other side's pods, as the network policy admits them.
    pub(super) ranges: Vec<IpNet>,
    /// Where guests are told names, which the network policy lets them ask.
    pub(super) name_server: Option<IpAddr>,
    /// By which nodes pull the image of its gates.
    pub(super) login: Read,
}

impl Bounds {
    pub(super) fn of(
        desire: &LeaseDesire,
        binding: Option<&Binding>,
        name_server: Option<IpAddr>,
        login: Read,
    ) -> Self {
        let ranges = desire.ranges.iter().map(|range| range.local).collect();
        let quantity = desire.contract.terms.quantity.clone();
        let resources = binding.map(|binding| binding.resources.clone()).unwrap_or_default();
        Self { quantity, resources, ranges, name_server, login }
    }
}

/// How a guest namespace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    BeingMade,
    There,
    /// The cluster will not have it as it is; it is tried again now and then.
    Refused(String),
}

/// Makes a guest namespace, however long the cluster takes to be able to, with that login.
pub(super) async fn make(
    cluster: Cluster,
    account: Account,
    kept: Upkeep,
    wanted: GuestNamespace,
    login: Read,
) -> (GuestNamespace, Result<(), Failure>) {
    let wanted = match login {
        Ok(login) => GuestNamespace { login, ..wanted },
        Err(why) => return (wanted, Err(Failure::transient(why))),
    };
    let mut backoff = Backoff::default();
    loop {
        match guest_namespace::ensure(&cluster, &account, &kept, wanted.clone()).await {
            Err(failure) if failure.is_transient() => {
                tracing::debug!(%failure, namespace = wanted.name, "not yet made");
                backoff.wait().await;
            }
            done => return (wanted, done),
        }
    }
}

/// What a piece of work is about.
pub(super) fn item(work: &GuestWork) -> Item {
    match work {
        GuestWork::Apply(item, ..) | GuestWork::Delete(item, _) | GuestWork::Confirm(item, _) => {
            item.clone()
        }
        GuestWork::Make(pod, ..) | GuestWork::Update(pod, ..) | GuestWork::Release(pod) => {
            Item::Pod(pod.clone())
        }
    }
}

/// Whether it makes a pod, or changes one.
pub(super) fn is_of_pod(work: &GuestWork) -> bool {
    match work {
        GuestWork::Apply(Item::Pod(_), ..) | GuestWork::Make(..) | GuestWork::Update(..) => true,
        GuestWork::Apply(..)
        | GuestWork::Delete(..)
        | GuestWork::Release(_)
        | GuestWork::Confirm(..) => false,
    }
}
