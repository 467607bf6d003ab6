//! This cluster's API server, for guests elsewhere: which of them may call it, what the machine needs for
//! that, and who passes on what they say.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mercato_broker::Side;
use mercato_kubelet::{Repeated, warn_once};
use mercato_machine::ApiWay;
use mercato_offload::placement::export::Consent;

use crate::admin::OwnApiServer;
use crate::driver::clock::wall_ms;
use crate::kubernetes::Kubernetes;
use crate::limits;
use crate::tunnel::end::End;
use crate::tunnel::ground::Ground;
use crate::tunnel::relay::{AskServers, Caller, Callers, Relay, RelayBounds};
use crate::tunnel::words::Said;

/// Who passes on what guests elsewhere say to this cluster's API server.
pub(super) struct OwnApi {
    ask: AskServers,
    relay: Option<Relay>,
    callers: Callers,
    /// How many were refused by those that there were before.
    refused: u64,
    failing: Repeated,
    crowded: Repeated,
    /// Why nobody listens, if so.
    trouble: Option<String>,
}

impl OwnApi {
    /// One that is open to nobody yet.
    pub(super) fn new(kubernetes: Arc<dyn Kubernetes>) -> Self {
        Self {
            ask: Arc::new(move || kubernetes.api_servers()),
            relay: None,
            callers: Callers::default(),
            refused: 0,
            failing: Repeated::default(),
            crowded: Repeated::default(),
            trouble: None,
        }
    }

    /// Where guests call it, while its owner has opened it to those of some namespace.
    pub(super) fn address(&self, ground: &Ground, consent: &Consent) -> Option<IpAddr> {
        ground.gateway().ok()?.api().filter(|_| consent.opens_api())
    }

    /// What the machine needs for those who may by now: nobody, until the relay listens there. Another
    /// program of the machine may have that port at all addresses.
    pub(super) fn way(
        &mut self,
        ground: &Ground,
        said: &Said,
        consent: &Consent,
    ) -> Option<ApiWay> {
        let address = self.address(ground, consent)?;
        let listens = self.listens(address);
        self.learn(said, consent);
        let callers = self.callers.keys().filter(|_| listens).copied().collect();
        Some(ApiWay { address, callers })
    }

    /// Somebody listens there once the machine has the address.
    pub(super) async fn mind(
        &mut self,
        ground: &Ground,
        end: &End,
        said: &Said,
        consent: &Consent,
    ) {
        let bought = said.leases.values().any(|lease| lease.side == Side::Consumer);
        let address = self.address(ground, consent).filter(|_| bought && end.has_machine());
        let Some(address) = address else {
            self.stop();
            self.trouble = None;
            return;
        };
        if !self.listens(address) {
            let at = SocketAddr::new(address, limits::API_PORT);
            match Relay::start(at, self.ask.clone(), RelayBounds::default()).await {
                Ok(relay) => {
                    self.failing.is_over();
                    (self.relay, self.trouble) = (Some(relay), None);
                }
                Err(error) => {
                    let what = "guests elsewhere do not reach this cluster's API server";
                    warn_once!(self.failing, error; address = %at, "{what}");
                    self.trouble = Some(format!("nobody can listen at {at}: {error}"));
                }
            }
        }
        self.learn(said, consent);
        if let Some(relay) = &self.relay {
            relay.allow(&self.callers);
        }
    }

    /// What people see of it.
    pub(super) fn seen(&self, ground: &Ground, consent: &Consent) -> OwnApiServer {
        let now = self.relay.as_ref();
        OwnApiServer {
            address: self.address(ground, consent),
            guests: now.map_or(0, |_| self.callers.len()),
            connections: now.map_or(0, Relay::connections),
            refused: self.refused + now.map_or(0, Relay::refused),
            reason: self.trouble.clone().or_else(|| now.and_then(Relay::trouble)),
        }
    }

    /// Whether the relay listens there. One that has ended, or is elsewhere, is none any more.
    fn listens(&mut self, address: IpAddr) -> bool {
        let at = SocketAddr::new(address, limits::API_PORT);
        if self.relay.as_mut().is_some_and(|it| it.address() != at || it.has_ended()) {
            self.stop();
        }
        self.relay.is_some()
    }

    /// Who may call by now.
    fn learn(&mut self, said: &Said, consent: &Consent) {
        let mut callers = callers(consent, said);
        let many = callers.len();
        if many > limits::API_CALLERS {
            let last = callers.keys().nth(limits::API_CALLERS).copied();
            last.map(|last| callers.split_off(&last));
            let most = limits::API_CALLERS;
            let why = format!("{many} guests of such namespaces are more than {most}");
            warn_once!(self.crowded, why; "some guests do not reach this cluster's API server");
        } else {
            self.crowded.is_over();
        }
        if *self.callers != callers {
            self.callers = Arc::new(callers);
        }
    }

    fn stop(&mut self) {
        if let Some(relay) = self.relay.take() {
            self.refused += relay.refused();
        }
        self.callers = Callers::default();
    }
}

/// The guests of this cluster's own leases that are in force, of namespaces that it was opened to: by the
/// addresses that this cluster has given them.
fn callers(consent: &Consent, said: &Said) -> BTreeMap<IpAddr, Caller> {
    let now_ms = wall_ms();
    let leases = said.leases.iter();
    let own = leases.filter(|(_, it)| it.side == Side::Consumer && it.until_ms > now_ms);
    let mut callers = BTreeMap::new();
    for (id, lease) in own {
        let pods = said.pods.get(id).into_iter().flat_map(BTreeMap::iter);
        for (uid, pod) in pods.filter(|(_, pod)| consent.opens_api_to(&pod.of.pod.namespace)) {
            let address = pod.of.address;
            let is_of_lease = lease.ranges.iter().any(|range| range.local.contains(&address));
            if is_of_lease && address.is_ipv4() {
                let caller = Caller { cluster: lease.cluster, lease: *id, pod: uid.clone() };
                callers.insert(address, caller);
            }
        }
    }
    callers
}

#[cfg(test)]
mod tests {
    use mercato_offload::address::{GuestAddress, MappedRange};
    use mercato_offload::key::{PodId, Uid};
    use mercato_offload::placement::export::Opened;
    use mercato_protocol::id::{ClusterId, ContractId};

    use super::*;
    use crate::driver::LeaseTunnels as _;
    use crate::tunnel::words::{SaidLease, TunnelHandle};

    const BOUGHT: ContractId = ContractId([1; 16]);
    const SOLD: ContractId = ContractId([2; 16]);
    const ENDED: ContractId = ContractId([3; 16]);

    fn open(namespaces: &[&str]) -> Consent {
        Consent::new(
            namespaces
                .iter()
                .map(|name| ((*name).to_owned(), Opened { api: true, ..Opened::default() })),
        )
    }

    fn lease(side: Side, until_ms: u64) -> SaidLease {
        let range = "10.201.4.0/24".parse().unwrap();
        SaidLease {
            side,
            cluster: ClusterId([1; 32]),
            until_ms,
            ranges: vec![MappedRange { inner: range, local: range }],
            is_closed: false,
            egress: mercato_protocol::egress::Egress::None,
            namespaces: Default::default(),
            said: 1,
        }
    }

    #[test]
    fn guests_of_own_leases_and_of_such_namespaces_alone_may_call() {
        let (tunnels, heard) = TunnelHandle::new(None);
        let pod = |contract, namespace: &str, address: &str| {
            let address: IpAddr = address.parse().unwrap();
            let pod = PodId {
                uid: Uid(format!("{namespace}-{address}")),
                namespace: namespace.to_owned(),
                name: "web".to_owned(),
            };
            tunnels.map(contract, GuestAddress { pod, address, guest: address });
        };
        pod(BOUGHT, "shop", "10.201.4.7");
        pod(BOUGHT, "bank", "10.201.4.8");
        // As a peer might have it: an address that is not of the lease.
        pod(BOUGHT, "shop", "10.42.0.7");
        pod(SOLD, "shop", "10.201.4.9");
        pod(ENDED, "shop", "10.201.4.10");
        let mut said = heard.now();
        said.leases.insert(BOUGHT, lease(Side::Consumer, u64::MAX));
        said.leases.insert(SOLD, lease(Side::Provider, u64::MAX));
        said.leases.insert(ENDED, lease(Side::Consumer, 1));
        let may = |namespaces: &[&str]| {
            let callers = callers(&open(namespaces), &said);
            callers.into_keys().map(|address| address.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(may(&["shop"]), ["10.201.4.7"]);
        assert_eq!(may(&["shop", "bank"]), ["10.201.4.7", "10.201.4.8"]);
        assert!(may(&[]).is_empty() && may(&["vault"]).is_empty());
        said.leases.remove(&BOUGHT);
        assert!(callers(&open(&["shop", "bank"]), &said).is_empty(), "the lease is over");
    }
}
