//! Changes beside the names whole, which are what they are to come to.

use std::net::Ipv4Addr;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::super::{NamedEndpoint, NamedPort, NamedRange};
use super::*;
use crate::codec::Message as _;
use crate::node::ToNode;

const LEASE: ContractId = ContractId([5; 16]);

fn address() -> impl Strategy<Value = IpAddr> {
    (0..6u8).prop_map(|last| Ipv4Addr::new(10, 96, 0, last).into())
}

/// One of few names, so that many stay.
fn label() -> impl Strategy<Value = String> {
    "[ab][cd]"
}

fn ports() -> impl Strategy<Value = Vec<NamedPort>> {
    vec((label(), any::<bool>(), 1..4u32), 0..2).prop_map(|all| {
        all.into_iter().map(|(name, is_udp, port)| NamedPort { name, is_udp, port }).collect()
    })
}

fn slice() -> impl Strategy<Value = SliceNames> {
    let endpoint =
        (address(), label()).prop_map(|(address, hostname)| NamedEndpoint { address, hostname });
    (ports(), vec(endpoint, 0..3)).prop_map(|(ports, endpoints)| SliceNames { ports, endpoints })
}

fn service() -> impl Strategy<Value = ServiceNames> {
    let name = String::new();
    prop_oneof![
        (vec(address(), 1..3), ports()).prop_map({
            let name = name.clone();
            move |(addresses, ports)| {
                let name = name.clone();
                ServiceNames { name, addresses, ports, ..ServiceNames::default() }
            }
        }),
        btree_set(slice(), 0..4)
            .prop_map(|slices| ServiceNames { slices, ..ServiceNames::default() }),
        label().prop_map(|label| ServiceNames { external: Some(label), ..ServiceNames::default() }),
    ]
}

fn names() -> impl Strategy<Value = LeaseNames> {
    let services = btree_map(label(), service(), 0..4).prop_map(|all| {
        all.into_iter().map(|(name, service)| ServiceNames { name, ..service }).collect::<Vec<_>>()
    });
    let namespaces = btree_map(label(), (services, any::<bool>()), 0..4).prop_map(|all| {
        let of = |(home, (services, is_part))| NamespaceNames { home, services, is_part };
        all.into_iter().map(of).collect::<Vec<_>>()
    });
    let own = btree_map(address(), (label(), label(), label()), 0..3).prop_map(|all| {
        let of = |(guest, (home, hostname, subdomain))| OwnName {
            guest,
            home,
            hostname,
            subdomain,
            called: None,
        };
        all.into_iter().map(of).collect::<Vec<_>>()
    });
    let api = proptest::option::of(vec(address(), 0..3).prop_map(|guests| ApiNames {
        address: None,
        guests,
        others: vec![],
    }));
    let range = (0..4u8).prop_map(|n| {
        let net = |text: String| text.parse().unwrap();
        let (home, here) = (net(format!("10.42.{n}.0/24")), net(format!("10.203.{n}.0/24")));
        NamedRange { home, here }
    });
    let head = (vec(label(), 0..2), any::<bool>(), any::<bool>(), vec(range, 0..2));
    (head, namespaces, api, own).prop_map(|(head, namespaces, api, own)| {
        let (domains, is_part, forwards, ranges) = head;
        LeaseNames { lease: LEASE, domains, is_part, forwards, namespaces, api, own, ranges }
    })
}

fn between(before: &LeaseNames, now: &LeaseNames) -> Option<NamesChange> {
    let of = |number, names| Numbered { number, names };
    NamesChange::between(of(1, before), of(2, now))
}

proptest! {
    #[test]
    fn a_change_makes_of_names_what_they_are_whole(before in names(), now in names()) {
        let change = between(&before, &now).expect("it is small");
        let made = change.apply(&before);
        prop_assert_eq!(made.as_ref(), Ok(&now));
        let said = ToNode::NamesChange(change.clone());
        prop_assert_eq!(ToNode::from_bytes(&said.to_bytes().unwrap()).unwrap(), said);
        let nothing = change.gone.is_empty() && change.parts.is_empty();
        prop_assert_eq!(nothing, before == now);
    }

    #[test]
    fn of_other_names_a_change_makes_what_a_message_may_have_or_nothing(
        before in names(),
        now in names(),
        others in names(),
    ) {
        let change = between(&before, &now).expect("it is small");
        if let Ok(made) = change.apply(&others) {
            prop_assert_eq!(made.check(), Ok(()));
        }
    }
}

/// A headless Service of so many slices, of which each has so many endpoints.
fn large(slices: u32, endpoints: u32) -> LeaseNames {
    let endpoint = |n: u32| NamedEndpoint {
        address: Ipv4Addr::from(0x0a00_0000 + n).into(),
        hostname: String::new(),
    };
    let slice = |nth: u32| {
        let endpoints = (nth * endpoints..(nth + 1) * endpoints).map(endpoint).collect();
        SliceNames { ports: vec![], endpoints }
    };
    let slices = (0..slices).map(slice).collect();
    let service = ServiceNames { name: "members".into(), slices, ..ServiceNames::default() };
    let (home, services, is_part) = ("shop".into(), vec![service], false);
    LeaseNames {
        lease: LEASE,
        domains: vec!["rome.example".into()],
        is_part: false,
        forwards: true,
        namespaces: vec![NamespaceNames { home, services, is_part }],
        api: None,
        own: vec![],
        ranges: vec![],
    }
}

#[test]
fn an_endpoint_of_many_costs_its_slice_alone() {
    let before = large(40, 100);
    let mut now = before.clone();
    let slices = &mut now.namespaces[0].services[0].slices;
    let mut slice = slices.pop_first().unwrap();
    slice.endpoints.pop();
    slices.insert(slice);
    let change = between(&before, &now).unwrap();
    assert_eq!((change.gone.len(), change.parts.len()), (1, 1));
    let bytes = |said: ToNode| said.to_bytes().unwrap().len();
    let whole = bytes(ToNode::Names { number: 2, names: now });
    let part = bytes(ToNode::NamesChange(change));
    assert!(30 * part < whole, "{part} of {whole}");
}

#[test]
fn of_much_that_is_another_all_is_said() {
    let none = large(0, 0);
    assert!(between(&none, &large(limits::NAMES_CHANGES as u32 - 1, 1)).is_some());
    assert_eq!(between(&none, &large(limits::NAMES_CHANGES as u32 + 1, 1)), None);
    // Nor is it said by parts that no parts can say.
    let mut twice = large(1, 1);
    twice.namespaces.push(twice.namespaces[0].clone());
    assert_eq!(between(&none, &twice), None);
}
