//! The addresses of pods, and what either side, or a gateway, says of them.

use std::net::IpAddr;

use mercato_offload::address::{GuestAddress, Reach, Tunnel};
use mercato_offload::guest::{self, Observed, ObservedPod};
use mercato_offload::home;
use mercato_offload::key::{Item, PodId, Uid};
use mercato_offload::message::{Report, Stage, ToGuest, ToHome};
use mercato_protocol::id::Digest;

use super::told::{Asked, Lied, at_home, pod, put, refusal};

#[test]
fn a_pod_waits_for_its_address_also_if_the_tunnel_comes_up_after_it() {
    let mut lied = Lied::to();
    lied.takes(home::Input::Tunnel(Tunnel::Awaited));
    lied.says(vec![ToHome::HaveEnd]);
    let report = Report { status: Some(Digest::of(b"running")), stage: Stage::Live };
    lied.says(vec![ToHome::Status { pod: pod("u1", "web"), report }]);
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    lied.effects.clear();
    let range = "10.200.0.0/24".parse().unwrap();
    lied.takes(home::Input::Tunnel(Tunnel::Agreed(range)));
    let address = [10, 200, 0, 1].into();
    let record = home::Record::Address(pod("u1", "web"), address);
    assert_eq!(lied.effects, [home::Effect::Persist(record)], "nothing is written yet");
    assert_eq!(lied.told.last(), Some(&ToGuest::Address { pod: pod("u1", "web"), address }));
    lied.says(vec![ToHome::InForce {
        pod: pod("u1", "web"),
        address: Some(address),
        second: false,
    }]);
    let write = home::Write::Status {
        status: Some(Digest::of(b"running")),
        outcome: None,
        reach: Reach::At { address, second: None },
        resize: None,
    };
    assert_eq!(lied.effects.last(), Some(&home::Effect::Write(pod("u1", "web"), write)));
}

/// Neither the provider nor home's own gateway can keep a pod from getting ready.
#[test]
fn a_pod_for_which_nobody_carries_packets_gets_ready_without_an_address() {
    for says_provider in [false, true] {
        let mut lied = Lied::to();
        lied.takes(home::Input::Tunnel(Tunnel::Agreed("10.200.0.0/24".parse().unwrap())));
        lied.says(vec![ToHome::HaveEnd]);
        let report = Report { status: Some(Digest::of(b"running")), stage: Stage::Live };
        lied.says(vec![ToHome::Status { pod: pod("u1", "web"), report }]);
        lied.takes(home::Input::Written(Uid("u1".to_owned())));
        if says_provider {
            lied.says(vec![ToHome::InForce {
                pod: pod("u1", "web"),
                address: None,
                second: false,
            }]);
        } else {
            let address = [10, 200, 0, 1].into();
            lied.takes(home::Input::Carried(pod("u1", "web"), address, false));
        }
        let write = home::Write::Status {
            status: Some(Digest::of(b"running")),
            outcome: None,
            reach: Reach::Not,
            resize: None,
        };
        assert_eq!(lied.effects.last(), Some(&home::Effect::Write(pod("u1", "web"), write)));
    }
}

/// A node of home's may come later, or be late after a start: what is shown has been in force.
#[test]
fn an_address_that_is_shown_stays_though_one_node_does_not_carry_it() {
    let mut lied = Lied::to();
    lied.takes(home::Input::Tunnel(Tunnel::Agreed("10.200.0.0/24".parse().unwrap())));
    lied.says(vec![ToHome::HaveEnd]);
    let report = Report { status: Some(Digest::of(b"running")), stage: Stage::Live };
    lied.says(vec![ToHome::Status { pod: pod("u1", "web"), report }]);
    let address = [10, 200, 0, 1].into();
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    lied.says(vec![ToHome::InForce {
        pod: pod("u1", "web"),
        address: Some(address),
        second: false,
    }]);
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    let shown = home::HomePod { pod_ip: Some(address), ..at_home() };
    lied.takes(home::Input::Pod(shown));
    lied.effects.clear();
    lied.takes(home::Input::Carried(pod("u1", "web"), address, false));
    assert_eq!(lied.effects, [], "nothing else is written");
}

/// Home sends IPv6 to nobody of whom the provider has not said that it comes there.
#[test]
fn a_second_address_is_shown_while_both_sides_carry_it() {
    let mut lied = Lied::to();
    lied.takes(home::Input::Tunnel(Tunnel::Agreed("10.200.0.0/24".parse().unwrap())));
    lied.says(vec![ToHome::HaveEnd]);
    let report = Report { status: Some(Digest::of(b"running")), stage: Stage::Live };
    lied.says(vec![ToHome::Status { pod: pod("u1", "web"), report }]);
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    let address = [10, 200, 0, 1].into();
    let known: IpAddr = "fd4d::10.200.0.1".parse().unwrap();
    let in_force = |address, second| ToHome::InForce { pod: pod("u1", "web"), address, second };
    let shows = |lied: &mut Lied, second: Option<IpAddr>| {
        let write = home::Write::Status {
            status: Some(Digest::of(b"running")),
            outcome: None,
            reach: Reach::At { address, second },
            resize: None,
        };
        let is_right = lied.effects.contains(&home::Effect::Write(pod("u1", "web"), write));
        assert!(is_right, "{second:?}: {:?}", lied.effects);
        lied.takes(home::Input::Written(Uid("u1".to_owned())));
        let at_home = at_home();
        lied.takes(home::Input::Pod(home::HomePod {
            pod_ip: Some(address),
            second_ip: second,
            ..at_home
        }));
        lied.effects.clear();
    };
    let carry = |there| home::Effect::CarrySecond(pod("u1", "web"), address, there);
    // Nobody has asked for it.
    lied.takes(home::Input::SecondCarried(pod("u1", "web"), address, Some(known)));
    lied.says(vec![in_force(Some(address), false)]);
    assert!(!lied.effects.contains(&carry(true)));
    shows(&mut lied, None);
    lied.says(vec![in_force(Some(address), true)]);
    assert_eq!(lied.effects, [carry(true)], "it is not there yet");
    lied.takes(home::Input::SecondCarried(pod("u1", "web"), address, Some(known)));
    shows(&mut lied, Some(known));
    // Of another address nothing is believed.
    lied.says(vec![in_force(Some([10, 200, 0, 2].into()), false)]);
    lied.takes(home::Input::SecondCarried(pod("u1", "web"), [10, 200, 0, 2].into(), None));
    assert_eq!(lied.effects, []);
    lied.says(vec![in_force(Some(address), false)]);
    assert!(lied.effects.contains(&carry(false)), "{:?}", lied.effects);
    shows(&mut lied, None);
}

/// What is said of a guest is of where it is now.
#[test]
fn a_provider_says_both_at_once_and_takes_the_second_back() {
    let mut asked = Asked::of_provider();
    let address = [10, 200, 0, 1].into();
    let id = pod("u1", "web");
    asked.is_told(put(Item::Pod(id.clone())));
    asked.does(guest::Input::Written(Item::Pod(id.clone())));
    let seen = |guest: &str| {
        let pod = ObservedPod {
            uid: "g1".parse().unwrap(),
            marked: true,
            status: Digest::of(b"running"),
            terminal: None,
            deleting: false,
            kept: true,
            ended: false,
            unschedulable: None,
            held: false,
            unlike: None,
            left_out: false,
            address: guest.parse().ok(),
            called: None,
        };
        let (item, digest) = (Item::Pod(id.clone()), Digest::of(b"web"));
        guest::Input::Observed(Observed { item, digest, pod: Some(pod) })
    };
    asked.does(seen("10.42.0.5"));
    let map =
        |guest: &str| GuestAddress { pod: id.clone(), address, guest: guest.parse().unwrap() };
    let effects = asked.is_told(ToGuest::Address { pod: id.clone(), address });
    assert!(effects.contains(&guest::Effect::Map(map("10.42.0.5"))), "{effects:?}");
    let said = |said: Vec<ToHome>| {
        let mut in_force = Vec::new();
        for word in said {
            if let ToHome::InForce { address, second, .. } = word {
                in_force.push((address, second));
            }
        }
        in_force
    };
    assert_eq!(said(asked.says(guest::Input::SecondMapped(map("10.42.0.9"), true))), []);
    assert_eq!(said(asked.says(guest::Input::SecondMapped(map("10.42.0.5"), true))), []);
    let both = [(Some(address), true)];
    assert_eq!(said(asked.says(guest::Input::Mapped(map("10.42.0.5"), true))), both);
    let first = [(Some(address), false)];
    assert_eq!(said(asked.says(guest::Input::SecondMapped(map("10.42.0.5"), false))), first);
}

/// Who has an address opens its namespace at home to the provider's guests.
#[test]
fn a_pod_that_stays_has_no_address_whatever_its_provider_claims_to_hold() {
    let mut lied = Lied::to();
    lied.takes(home::Input::Tunnel(Tunnel::Agreed("10.200.0.0/24".parse().unwrap())));
    let stays = pod("u2", "agent");
    let agent = |refusal| home::HomePod { pod: stays.clone(), refusal, ..at_home() };
    lied.takes(home::Input::Pod(agent(Some(refusal()))));
    let report = Report { status: Some(Digest::of(b"running")), stage: Stage::Live };
    let (item, digest) = (Item::Pod(stays.clone()), Some(Digest::of(b"web")));
    let have = ToHome::Have { item, digest, report: Some(report.clone()) };
    let status = ToHome::Status { pod: stays.clone(), report };
    let in_force = ToHome::InForce { pod: stays.clone(), address: None, second: false };
    lied.says(vec![have, ToHome::HaveEnd, status, in_force]);
    let has_address = |lied: &Lied, id: &PodId| {
        let is_record = |effect: &home::Effect| matches!(effect, home::Effect::Persist(home::Record::Address(pod, _)) if pod == id);
        lied.effects.iter().any(is_record)
    };
    assert!(has_address(&lied, &pod("u1", "web")), "{:?}", lied.effects);
    assert!(!has_address(&lied, &stays), "{:?}", lied.effects);
    // What was given away before it had to stay is still known by its address until it ends.
    lied.takes(home::Input::Pod(home::HomePod { refusal: Some(refusal()), ..at_home() }));
    assert!(!lied.effects.contains(&home::Effect::Uncarry(pod("u1", "web"))));
    lied.takes(home::Input::Pod(agent(None)));
    assert!(has_address(&lied, &stays), "it may leave now: {:?}", lied.effects);
}

/// A guest begins with its address, or never has it.
#[test]
fn a_pod_is_sent_once_it_is_known_whether_it_has_an_address_and_together_with_that() {
    for tunnel in [Tunnel::Off, Tunnel::Agreed("10.200.0.0/24".parse().unwrap())] {
        let mut lied = Lied::to();
        lied.takes(home::Input::Tunnel(Tunnel::Awaited));
        lied.says(vec![ToHome::HaveEnd]);
        assert_eq!(lied.told, [], "it waits");
        lied.takes(home::Input::Tunnel(tunnel));
        assert!(matches!(lied.told[0], ToGuest::Put { .. }), "{:?}", lied.told);
        let address = [10, 200, 0, 1].into();
        let said = ToGuest::Address { pod: pod("u1", "web"), address };
        assert_eq!(lied.told.get(1), tunnel.is_agreed().then_some(&said));
        // Who is there already is changed all the same.
        lied.takes(home::Input::Tunnel(Tunnel::Awaited));
        let changed = home::HomePod { digest: Digest::of(b"another"), ..at_home() };
        lied.takes(home::Input::Pod(changed));
        assert!(matches!(lied.told.last(), Some(ToGuest::Put { .. })), "{:?}", lied.told);
    }
}
