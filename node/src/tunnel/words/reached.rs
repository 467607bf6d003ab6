//! Pods of this cluster that guests elsewhere may call though none of their namespace runs with them: those that
//! Services lead to which their owners open.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_offload::placement::export::{Consent, LeaseNode, Listed, reached};
use mercato_protocol::id::ContractId;

use super::Said;
use crate::admin::OpenNamespace;
use crate::kubernetes::PodPlace;

impl Said {
    /// Consumer: what is open to the guests of a lease, besides what those of its own namespaces reach.
    fn open<'a>(
        &self,
        contract: &ContractId,
        consent: &'a Consent,
    ) -> BTreeMap<&'a str, &'a Listed> {
        let (Some(lease), Some(leads)) = (self.leases.get(contract), self.leads.get(contract))
        else {
            return BTreeMap::new();
        };
        let guests = self.callable(contract, consent);
        let node = LeaseNode { name: &leads.node, contract, provider: &lease.cluster };
        consent.open_to(node, &guests)
    }

    /// The namespaces that open Services, and to which leases.
    pub(in crate::tunnel) fn opened(&self, consent: &Consent) -> Vec<OpenNamespace> {
        let mut all: BTreeMap<&str, OpenNamespace> = BTreeMap::new();
        for (namespace, opens) in consent.opening() {
            let (services, callers) = (opens.services.clone(), opens.callers.clone());
            let (services, callers) = (services.into(), callers.into());
            let (name, (contracts, left_out)) = (namespace.to_owned(), Default::default());
            let one = OpenNamespace { namespace: name, services, callers, contracts, left_out };
            all.insert(namespace, one);
        }
        for contract in self.leads.keys() {
            for namespace in self.open(contract, consent).keys() {
                all.entry(*namespace).or_default().contracts.push(*contract);
            }
            for namespace in self.left_out(contract, consent) {
                all.entry(namespace).or_default().left_out += 1;
            }
        }
        all.into_values().collect()
    }

    fn left_out<'a>(&self, contract: &ContractId, consent: &'a Consent) -> BTreeSet<&'a str> {
        let (Some(lease), Some(leads)) = (self.leases.get(contract), self.leads.get(contract))
        else {
            return BTreeSet::new();
        };
        let guests = self.callable(contract, consent);
        let node = LeaseNode { name: &leads.node, contract, provider: &lease.cluster };
        consent.left_out_of(node, &guests)
    }

    /// Consumer: the pods here that the guests of a lease may call by that.
    pub(in crate::tunnel) fn reached(
        &self,
        contract: &ContractId,
        consent: &Consent,
        pods: &[PodPlace],
        pool: IpNet,
    ) -> BTreeSet<IpAddr> {
        let Some(leads) = self.leads.get(contract).filter(|leads| !leads.to.is_empty()) else {
            return BTreeSet::new();
        };
        // Where the others are is for their own leases to say.
        let at_home = pods.iter().filter_map(|pod| Some((pod.namespace.as_str(), pod.address?)));
        let at_home = at_home.filter(|(_, address)| !pool.contains(address));
        reached(&self.open(contract, consent), &leads.to, at_home)
    }

    /// The same of all leases together.
    pub(in crate::tunnel) fn reached_by_any(
        &self,
        consent: &Consent,
        pods: &[PodPlace],
        pool: IpNet,
    ) -> BTreeSet<IpAddr> {
        let all = self.leads.keys();
        all.flat_map(|contract| self.reached(contract, consent, pods, pool)).collect()
    }
}
