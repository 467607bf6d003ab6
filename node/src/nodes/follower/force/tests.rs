//! What is in force by words and the clock.

use mercato_protocol::egress::{self as protocol, Outside};
use mercato_protocol::node::{NodeLease, NodeNames, ServiceAddress};

use mercato_protocol::tunnel::SECOND_POOL;

use super::super::testing::{lease, snapshot, way};
use super::*;

fn heard(version: u64, at_ms: u64, leases: Vec<NodeLease>) -> Heard {
    Heard { connection: 1, at_ms, snapshot: Some(snapshot(version, leases)) }
}

fn set_up(force: &Force) -> Wanted {
    match force.target() {
        Target::SetUp(wanted) => *wanted,
        other @ (Target::Stay | Target::Leave | Target::Nothing | Target::Refuse) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn what_is_there_at_the_start_stays_for_a_while() {
    let mut force = Force::new(1_000);
    assert_eq!((force.target(), force.word()), (Target::Stay, None));
    let until_ms = force.next_ms().unwrap();
    assert_eq!(until_ms, 1_000 + limits::FOLLOW_EARLIER_MS);
    force.end(until_ms - 1);
    assert_eq!(force.target(), Target::Stay);
    force.end(until_ms);
    assert_eq!((force.target(), force.next_ms()), (Target::Refuse, None));
    force.hear(heard(1, until_ms, Vec::new()));
    assert_eq!(set_up(&force).node, way().address);
}

#[test]
fn a_snapshot_is_all_that_is_wanted() {
    let mut force = Force::new(0);
    let one = lease(9_000, &["10.201.0.0/24"], &["10.42.0.5"]);
    let two = lease(9_000, &["10.201.0.0/24", "10.202.0.0/24"], &["10.42.0.5", "10.42.0.6"]);
    force.hear(heard(1, 50, vec![one, two]));
    let wanted = set_up(&force);
    wanted.check().unwrap();
    assert_eq!((wanted.pool, wanted.node), (way().pool, way().address));
    assert_eq!(wanted.ranges.len(), 2);
    assert_eq!(wanted.pods.len(), 2);
    assert_eq!(wanted.way, Way::Through(way().gateway));
    let overlay = wanted.overlay.unwrap();
    assert_eq!(overlay.nodes, BTreeMap::from([(way().gateway, way().gateway_machine)]));
    assert_eq!((overlay.local, overlay.mtu), (way().machine, way().mtu));
    assert_eq!((overlay.vni, u32::from(overlay.port)), (way().vni, way().port));
    force.hear(heard(2, 60, vec![lease(9_000, &[], &["10.42.0.7"])]));
    let wanted = set_up(&force);
    assert_eq!((wanted.ranges.len(), wanted.pods.len()), (0, 1));
    assert_eq!(force.word(), Some(Word { connection: 1, version: 2 }));
    let none = Snapshot { way: None, ..snapshot(3, Vec::new()) };
    force.hear(Heard { connection: 1, at_ms: 70, snapshot: Some(none) });
    assert_eq!(force.target(), Target::Nothing);
}

#[test]
fn what_is_of_the_second_family_follows_from_the_first() {
    let mut force = Force::new(0);
    let pods = ["10.42.0.5", "fd42::5"];
    let mut heard = heard(1, 50, vec![lease(9_000, &["10.201.0.0/24"], &pods)]);
    let way = heard.snapshot.as_mut().and_then(|it| it.way.as_mut()).unwrap();
    way.pool_v6 = Some(SECOND_POOL.into());
    force.hear(heard);
    let wanted = set_up(&force);
    wanted.check().unwrap();
    let node = "fd4d:6572:6361:746f::10.200.0.7".parse().unwrap();
    assert_eq!(wanted.second, Some(Place { pool: SECOND_POOL.into(), node }));
    assert!(wanted.ranges.contains(&"fd4d:6572:6361:746f::10.201.0.0/120".parse().unwrap()));
    assert_eq!((wanted.ranges.len(), wanted.pods.len()), (2, 2));
    let nodes = wanted.overlay.unwrap().nodes;
    assert_eq!(
        nodes[&"fd4d:6572:6361:746f::10.200.0.1".parse().unwrap()],
        nodes[&self::way().gateway]
    );
}

#[test]
fn the_daemons_own_machine_is_left_to_it() {
    let own = || Heard { connection: 1, at_ms: 0, snapshot: None };
    let mut force = Force::new(0);
    force.hear(own());
    force.end(limits::FOLLOW_EARLIER_MS);
    assert_eq!((force.target(), force.word(), force.next_ms()), (Target::Leave, None, None));
    force.hear(heard(1, 0, vec![lease(500, &[], &["10.42.0.5"])]));
    assert_eq!(set_up(&force).pods.len(), 1);
    force.hear(own());
    assert_eq!((force.target(), force.end(1_000)), (Target::Leave, 0));
}

#[test]
fn each_lease_ends_by_the_clock_and_the_way_after_the_last() {
    let mut force = Force::new(0);
    let leases = [lease(500, &["10.201.0.0/24"], &[]), lease(700, &[], &["10.42.0.5"])];
    force.hear(heard(1, 1_000, leases.to_vec()));
    assert_eq!(force.next_ms(), Some(1_500));
    assert_eq!(force.end(1_499), 0);
    assert_eq!(force.end(1_500), 1);
    let wanted = set_up(&force);
    assert_eq!((wanted.ranges.len(), wanted.pods.len()), (0, 1));
    let over_ms = 1_700 + limits::FOLLOW_ENDED_MS;
    assert_eq!((force.next_ms(), force.end(1_700)), (Some(1_700), 1));
    assert_eq!((force.next_ms(), force.end(over_ms - 1)), (Some(over_ms), 0));
    assert!(set_up(&force).pods.is_empty(), "what comes yet is refused for a while");
    force.end(over_ms);
    assert_eq!((force.target(), force.next_ms()), (Target::Nothing, None));
}

#[test]
fn guests_alone_call_their_homes() {
    let mut force = Force::new(0);
    let guests = NodeLease { guests: true, ..lease(500, &["10.202.0.0/24"], &["10.42.0.5"]) };
    force.hear(heard(1, 1_000, vec![lease(700, &["10.201.0.0/24"], &[]), guests]));
    let wanted = set_up(&force);
    assert_eq!(wanted.homes, ["10.202.0.0/24".parse().unwrap()].into());
    assert_eq!(wanted.ranges.len(), 2);
}

#[test]
fn services_are_for_guests_that_are_closed_and_lead_nowhere() {
    let mut force = Force::new(0);
    let guest = |uid: &str| NodeGuest { uid: uid.parse().unwrap(), pod: None, called: None };
    let with = |uid, range, service: [u8; 4]| NodeLease {
        guests: true,
        closed: [guest(uid)].into(),
        services: [ServiceAddress {
            here: service.into(),
            home: Some([10, 79, 3, service[3]].into()),
        }]
        .into(),
        ..lease(500, &[range], &[])
    };
    let leases = vec![
        with("a", "10.201.0.0/24", [10, 96, 0, 7]),
        with("b", "10.202.0.0/24", [10, 96, 0, 8]),
    ];
    let mut heard = heard(1, 1_000, leases);
    let way = heard.snapshot.as_mut().and_then(|it| it.way.as_mut()).unwrap();
    way.pool_v6 = Some(SECOND_POOL.into());
    force.hear(heard);
    let rules = force.rules().unwrap();
    let reached = |uid: &str| (*rules.guests[&guest(uid).uid].reached).clone();
    let nets = |all: [&str; 3]| all.map(|net| net.parse().unwrap()).into();
    let second = "fd4d:6572:6361:746f::10.201.0.0/120";
    assert_eq!(reached("a"), nets(["10.201.0.0/24", second, "10.96.0.7/32"]));
    assert!(!reached("b").contains(&"10.96.0.7/32".parse().unwrap()));
    let called: Vec<_> = rules.guests[&guest("b").uid].services.iter().collect();
    assert_eq!(called, [(&[10, 79, 3, 8].into(), &[10, 96, 0, 8].into())]);
    let wanted = set_up(&force);
    let ours: [IpNet; 2] = ["10.200.0.0/13".parse().unwrap(), SECOND_POOL.into()];
    let is_ours = |range: &IpNet| ours.iter().any(|pool| pool.contains(range));
    assert!(wanted.ranges.iter().chain(&wanted.homes).all(is_ours), "{wanted:?}");
}

#[test]
fn guests_go_out_as_their_lease_says_and_never_near() {
    let net = |text: &str| text.parse::<IpNet>().unwrap();
    let guest = |uid: &str| NodeGuest { uid: uid.parse().unwrap(), pod: None, called: None };
    let with = |uid, egress| NodeLease {
        guests: true,
        closed: [guest(uid)].into(),
        egress,
        ..lease(500, &[], &[])
    };
    let named = Outside::of([net("203.0.114.0/24")]).unwrap();
    let leases = vec![
        with("a", protocol::Egress::Internet),
        with("b", protocol::Egress::Named(named)),
        with("c", protocol::Egress::None),
    ];
    let mut heard = heard(1, 1_000, leases);
    heard.snapshot.as_mut().unwrap().never = [net("9.9.8.0/24")].into();
    let mut force = Force::new(0);
    force.hear(heard);
    let of = |force: &Force| {
        let rules = force.rules().unwrap();
        let egress = |uid: &str| rules.guests[&guest(uid).uid].egress.clone();
        (["a", "b", "c"].map(egress), rules.never.clone())
    };
    let (egress, never) = of(&force);
    assert_eq!(
        (egress, never.len()),
        ([const { Egress::None }; 3], 0),
        "its own networks are not known"
    );
    force.know_networks(Ok([net("9.9.9.0/24")].into()));
    let (egress, never) = of(&force);
    let named = Egress::Named([net("203.0.114.0/24")].into());
    assert_eq!(egress, [Egress::Internet, named, Egress::None]);
    let is_near = |text: &str| never.iter().any(|it| it.contains(&net(text)));
    assert!(["9.9.8.7/32", "9.9.9.7/32", "10.0.0.0/8"].into_iter().all(is_near), "{never:?}");
    force.end(10_000);
    assert!(force.rules().unwrap().guests.is_empty());
    assert!(force.rules().unwrap().never.is_empty());
}

#[test]
fn guests_ask_for_names_where_our_server_listens_alone() {
    let address: IpAddr = "10.207.255.254".parse().unwrap();
    let named = |address| {
        let mut heard = heard(1, 0, vec![lease(500, &[], &[])]);
        let way = heard.snapshot.as_mut().and_then(|it| it.way.as_mut()).unwrap();
        way.names = Some(NodeNames { address, domain: String::new(), servers: vec![] });
        heard
    };
    let asked = |force: &Force| {
        let names = set_up(force).names.unwrap();
        assert_eq!(names.address, address, "the machine has it, so that somebody can listen");
        (names.listens, force.rules().unwrap().names)
    };
    let mut force = Force::new(0);
    force.hear(named(address));
    assert_eq!(asked(&force), (false, None), "nobody has said that it listens");
    force.listen("10.207.255.253".parse().ok());
    assert_eq!(asked(&force), (false, None), "it is another address");
    force.listen(Some(address));
    assert_eq!(asked(&force), (true, Some(address)));
    force.hear(named(address));
    assert_eq!(asked(&force), (true, Some(address)), "it listens yet");
    force.listen(None);
    assert_eq!(asked(&force), (false, None), "it has ended");
    force.hear(heard(2, 0, vec![]));
    assert_eq!((set_up(&force).names, force.rules().unwrap().names), (None, None));
}

#[test]
fn a_lease_that_lasts_for_ever_is_none_that_has_ended() {
    let mut force = Force::new(0);
    force.hear(heard(1, 1_000, vec![lease(u64::MAX, &[], &["10.42.0.5"])]));
    assert_eq!(force.end(u64::MAX - 1), 0);
}
