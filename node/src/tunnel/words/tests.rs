//! What is kept of what the driver says.

use std::net::Ipv4Addr;

use mercato_offload::placement::export::{Destination, Listed, Opened, Opens, Targets};

use super::*;
use crate::kubernetes::PodPlace;

const LEASE: ContractId = ContractId([1; 16]);
const OTHER: ContractId = ContractId([2; 16]);

/// As the driver has it of a pod that a session has sent.
fn sent(namespace: &str) -> GuestAddress {
    let (uid, name) = (Uid(namespace.to_owned()), "web".to_owned());
    let pod = PodId { uid, namespace: namespace.to_owned(), name };
    let address = Ipv4Addr::new(10, 201, 0, namespace.len() as u8).into();
    GuestAddress { pod, address, guest: address }
}

fn bought(side: Side) -> SaidLease {
    let (cluster, ranges) = (ClusterId([1; 32]), Vec::new());
    let (until_ms, namespaces) = (u64::MAX, BTreeSet::new());
    let (is_closed, egress) = (false, Egress::None);
    SaidLease { side, cluster, until_ms, ranges, is_closed, egress, namespaces, said: 1 }
}

#[test]
fn a_lease_opens_what_its_session_has_sent_and_owners_have_opened() {
    let (tunnels, heard) = TunnelHandle::new(None);
    let consent = |names: &[&str]| {
        Consent::new(names.iter().map(|name| ((*name).to_owned(), Opened::default())))
    };
    let (both, shop) = (consent(&["shop", "bank"]), consent(&["shop"]));
    let now = |side| {
        let mut said = heard.now();
        said.leases = [(LEASE, bought(side)), (OTHER, bought(side))].into();
        said
    };
    let of = |names: &[&'static str]| names.iter().copied().collect::<BTreeSet<_>>();
    assert!(now(Side::Consumer).callable_by_any(&both).is_empty(), "nothing is sent");
    tunnels.map(LEASE, sent("shop"));
    tunnels.map(OTHER, sent("bank"));
    tunnels.map(LEASE, sent("kube-system"));
    let said = now(Side::Consumer);
    assert_eq!(said.callable(&LEASE, &both), of(&["shop"]));
    assert_eq!(said.callable(&OTHER, &both), of(&["bank"]));
    assert!(said.callable(&OTHER, &shop).is_empty(), "its owner has taken that back");
    assert_eq!(said.callable_by_any(&both), of(&["bank", "shop"]));
    assert!(now(Side::Provider).callable_by_any(&both).is_empty(), "guests here open nothing");
    tunnels.unmap(LEASE, &sent("shop").pod);
    assert_eq!(now(Side::Consumer).callable(&LEASE, &both), of(&["shop"]), "it hears of that yet");
    let mut later = now(Side::Consumer);
    later.gone.clear();
    assert!(later.callable(&LEASE, &both).is_empty(), "its last pod has gone");
}

#[test]
fn guests_reach_the_pods_here_that_open_services_of_other_namespaces_lead_to() {
    let (tunnels, heard) = TunnelHandle::new(None);
    let address = |last: u8| IpAddr::from([10, 42, 0, last]);
    let pod = |namespace: &str, address: IpAddr| PodPlace {
        namespace: namespace.to_owned(),
        node: "rome-1".to_owned(),
        address: Some(address),
        second: None,
        guest: None,
    };
    let pods = [pod("data", address(1)), pod("data", address(2)), pod("bank", address(3))];
    let opens = Opens { services: Listed::new(["db".to_owned()]), ..Opens::default() };
    let consent = |targets: &[&str]| {
        let targets = Targets::new(targets.iter().map(|one| (*one).to_owned()));
        let data = Opened { opens: opens.clone(), targets, ..Opened::default() };
        Consent::new([("data".to_owned(), data), ("shop".to_owned(), Opened::default())])
    };
    let to = |service: &str| {
        let (namespace, service) = ("data".to_owned(), service.to_owned());
        [Destination { namespace, service }].into()
    };
    let to = [(address(1), to("db")), (address(2), to("cache")), (address(3), to("db"))].into();
    tunnels.leads(LEASE, Leads { node: "mercato-turin".to_owned(), to });
    let reached = |consent: &Consent| {
        let mut said = heard.now();
        said.leases = [(LEASE, bought(Side::Consumer))].into();
        let pool = "10.200.0.0/13".parse().unwrap();
        let opened = said.opened(consent).into_iter().map(|of| of.contracts.len()).sum::<usize>();
        (said.reached(&LEASE, consent, &pods, pool), opened)
    };
    assert_eq!(reached(&consent(&[])), ([].into(), 0), "nobody calls");
    tunnels.map(LEASE, sent("shop"));
    assert_eq!(reached(&consent(&[])), ([address(1)].into(), 1));
    assert_eq!(reached(&consent(&["lyon"])), ([].into(), 0), "it is open elsewhere");
    assert_eq!(reached(&Consent::default()), ([].into(), 0), "its owner has taken that back");
    tunnels.forget(LEASE);
    assert_eq!(reached(&consent(&[])), ([].into(), 0));
}

#[test]
fn an_address_is_gone_once_no_guest_has_it() {
    let (tunnels, heard) = TunnelHandle::new(None);
    let gone = || -> Vec<IpAddr> {
        let said = heard.now();
        said.gone.get(&LEASE).into_iter().flat_map(GoneGuests::addresses).collect()
    };
    let at = |guest: GuestAddress, last: u8| GuestAddress {
        address: Ipv4Addr::new(10, 201, 0, last).into(),
        ..guest
    };
    tunnels.map(LEASE, at(sent("shop"), 7));
    tunnels.map(LEASE, at(sent("bank"), 8));
    let elsewhere = Ipv4Addr::new(10, 42, 0, 9).into();
    tunnels.map(LEASE, GuestAddress { guest: elsewhere, ..at(sent("shop"), 7) });
    assert!(gone().is_empty(), "it has moved to another place alone");
    tunnels.unmap(LEASE, &sent("shop").pod);
    tunnels.unmap(LEASE, &sent("kube-system").pod);
    assert_eq!(gone(), [at(sent("shop"), 7).address]);
    tunnels.map(LEASE, at(sent("bank"), 7));
    assert_eq!(gone(), [at(sent("bank"), 8).address], "another one has it, and gave up its own");
    tunnels.forget(LEASE);
    assert!(gone().is_empty());
}

fn service(here: u32, home: u8) -> ServiceAddress {
    let home = Some(Ipv4Addr::new(10, 96, 0, home).into());
    ServiceAddress { here: Ipv4Addr::from(0x0a60_0000 + here).into(), home }
}

#[test]
fn an_address_is_told_once() {
    let (gone, new) = (service(7, 1), service(7, 2));
    let all = |services: &[ServiceAddress]| services.iter().copied().collect();
    assert_eq!(told(&all(&[gone]), &all(&[gone, new])), all(&[gone]));
    assert_eq!(told(&all(&[gone]), &all(&[new])), all(&[new]));
    assert_eq!(told(&all(&[]), &all(&[gone, new])).len(), 1);
}

#[test]
fn who_was_told_is_not_put_out_by_who_comes() {
    let many: BTreeSet<_> = (1..=LEASE_SERVICES as u32).map(|n| service(n, 1)).collect();
    let before = told(&BTreeSet::new(), &many);
    assert_eq!(before.len(), LEASE_SERVICES);
    let more = many.iter().copied().chain([service(0, 1)]).collect();
    assert_eq!(told(&before, &more), before);
    let others = more.iter().copied().skip(2).chain([service(0, 1)]).collect();
    assert!(told(&before, &others).contains(&service(0, 1)), "there is room again");
}

#[test]
fn names_that_no_node_may_be_told_are_kept_apart() {
    let (tunnels, heard) = TunnelHandle::new(None);
    let names = |domain: &str| {
        let (domains, namespaces, own) = (vec![domain.to_owned()], vec![], vec![]);
        let (is_part, forwards, api) = (false, true, None);
        let ranges = vec![];
        LeaseNames { lease: LEASE, domains, is_part, forwards, namespaces, api, own, ranges }
    };
    let told = |domain: &str| {
        tunnels.names(LEASE, Arc::new(names(domain)));
        let said = heard.now();
        let why = said.unsayable.get(&LEASE).map(ToString::to_string);
        (said.names.contains_key(&LEASE), why)
    };
    assert_eq!(told("rome.example"), (true, None));
    assert_eq!(told("Rome"), (false, Some("no domain".to_owned())));
    assert_eq!(told("rome.example"), (true, None));
    told("Rome");
    tunnels.forget(LEASE);
    assert!(heard.now().unsayable.is_empty());
}
