//! What the driver tells whoever keeps the tunnels of leases. None of it waits.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use mercato_agent::{LeaseDesire, OwnRanges};
use mercato_net::TunnelResponder;
use mercato_offload::address::GuestAddress;
use mercato_offload::key::PodId;
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::names::LeaseNames;
use mercato_protocol::node::ServiceAddress;
use mercato_protocol::tunnel::Ask;
use tokio::sync::watch;

use crate::kubernetes::{Leads, NameServerAt};

/// Whoever keeps the tunnels of leases.
pub(crate) trait LeaseTunnels: Send + Sync {
    /// A lease is to be as this says.
    fn lease(&self, desire: &LeaseDesire);

    /// Nothing of a lease is left here.
    fn forget(&self, contract: ContractId);

    /// Packets for this pod are to be carried, or brought to it, and that is to be answered.
    fn map(&self, contract: ContractId, of: GuestAddress);

    /// The other side brings packets of IPv6 too to the pod of this address, or no longer.
    fn second(&self, contract: ContractId, pod: &PodId, address: IpAddr, there: bool);

    /// Packets for this pod are carried no longer.
    fn unmap(&self, contract: ContractId, pod: &PodId);

    /// Provider: this cluster has given these addresses to Services of the lease's guest namespaces,
    /// and no others.
    fn services(&self, contract: ContractId, addresses: BTreeSet<ServiceAddress>);

    /// Provider: the lease's guests have these names at home, and no others.
    fn names(&self, contract: ContractId, names: Arc<LeaseNames>);

    /// Consumer: there the Services lead that namespaces open to a lease, and nowhere else.
    fn leads(&self, contract: ContractId, leads: Leads);

    /// Provider: where guests are told names.
    fn name_server(&self) -> watch::Receiver<NameServerAt>;

    /// Consumer: at which address inside of them guests reach this cluster's API server, if anywhere.
    fn home_api(&self) -> Option<IpAddr>;

    /// By which addresses this cluster's own pods are known.
    fn own(&self, own: OwnRanges);

    /// A peer is connected, anew perhaps.
    fn connected(&self, cluster: ClusterId, key: PublicKey);

    /// A peer is connected no longer.
    fn disconnected(&self, key: PublicKey);

    /// A peer asks about the tunnel.
    fn ask(&self, peer: PublicKey, ask: Ask, responder: TunnelResponder);
}
