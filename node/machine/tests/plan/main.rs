//! What is planned for machines in all states: none of it touches this one.

#![allow(clippy::unwrap_used, reason = "a test")]

mod model;
mod overlay;
mod ranges;
mod six;

use std::collections::BTreeSet;

use ipnet::IpNet;
use mercato_machine::{
    ApiWay, Expression, Family, Finding, Found, Link, Marks, NamesWay, RouteKind, Rule, Step,
    Wanted, WantedError, clean_plan, guard, nobody_listens_plan, plan,
};

use crate::model::{after, nets, new_machine, wanted};

fn set_up() -> Found {
    let steps = plan(&new_machine(), &wanted()).unwrap();
    after(new_machine(), &steps)
}

#[test]
fn what_is_right_is_not_touched() {
    assert_eq!(plan(&set_up(), &wanted()), Ok(vec![]));
}

#[test]
fn what_protects_comes_first() {
    let steps = plan(&new_machine(), &wanted()).unwrap();
    assert!(matches!(steps[0], Step::ReplacePackets(_)), "{steps:#?}");
    let Step::AddRoute(route) = &steps[1] else { panic!("{steps:#?}") };
    assert_eq!(route.kind, RouteKind::Unreachable);
    assert!(matches!(steps[2], Step::AddRule(_)), "{steps:#?}");
    let leads = |step: &Step| matches!(step, Step::AddRoute(route) if route.device.is_some());
    assert_eq!(steps[3..].iter().filter(|step| leads(step)).count(), 2);
}

#[test]
fn whoever_is_stopped_goes_on() {
    let steps = plan(&new_machine(), &wanted()).unwrap();
    for done in 0..steps.len() {
        let stopped = after(new_machine(), &steps[..done]);
        let rest = plan(&stopped, &wanted()).unwrap();
        assert_eq!(rest, steps[done..]);
    }
}

#[test]
fn changed_pods_are_changed_elements() {
    let mut wanted = wanted();
    wanted.pods = ["10.42.0.6", "10.42.0.7"].map(|pod| pod.parse().unwrap()).into();
    let add = ["10.42.0.7".parse().unwrap()].into();
    let remove = ["10.42.0.5".parse().unwrap()].into();
    assert_eq!(
        plan(&set_up(), &wanted),
        Ok(vec![Step::ChangeSet { family: Family::V4, set: "pods".to_owned(), add, remove }])
    );
}

#[test]
fn a_guest_is_an_element_of_its_family_whether_or_not_it_has_a_pool() {
    let guests = ["10.42.0.6", "fd42::6"].map(|guest| guest.parse().unwrap()).into();
    let wanted = Wanted { guests, ..wanted() };
    let found =
        || Found { forwarding: Family::ALL.map(|family| (family, true)).into(), ..set_up() };
    let both = after(found(), &plan(&found(), &model::wanted()).unwrap());
    let steps = plan(&both, &wanted).unwrap();
    let added = |family: Family, guest: &str| Step::ChangeSet {
        family,
        set: "guests".to_owned(),
        add: [guest.parse().unwrap()].into(),
        remove: [].into(),
    };
    assert_eq!(steps, [added(Family::V4, "10.42.0.6"), added(Family::V6, "fd42::6")]);
    let in_pool = Wanted { guests: ["10.200.0.9".parse().unwrap()].into(), ..wanted };
    let refused = plan(&both, &in_pool).unwrap_err();
    assert!(matches!(refused, WantedError::PodInPool { .. }), "{refused}");
    let guests = (0..513_u32).map(|n| std::net::Ipv4Addr::from(0x0a2a_0000 + n).into());
    let many = Wanted { guests: guests.collect(), ..in_pool };
    let refused = plan(&both, &many).unwrap_err();
    assert!(matches!(refused, WantedError::Many { count: 513, .. }), "{refused}");
}

#[test]
fn guests_ask_for_names_while_our_server_listens_and_nobody_otherwise() {
    let address: std::net::IpAddr = "10.207.255.254".parse().unwrap();
    let at = |listens| Wanted { names: Some(NamesWay { address, listens }), ..wanted() };
    let brought = |found: &Found, to| after(found.clone(), &plan(found, &at(to)).unwrap());
    let silent = brought(&new_machine(), false);
    let own = silent.device.as_ref().unwrap();
    assert!(own.addresses.contains(&address.into()), "nobody can listen before: {own:?}");
    let table = &silent.packets[&Family::V4];
    let says = |word: &Expression| *word == Expression::CmpEq(vec![10, 207, 255, 254]);
    let mut rules = table.chains.values().flat_map(|chain| &chain.rules);
    assert!(!rules.any(|rule| rule.expressions.iter().any(says)), "{table:#?}");
    assert!(table.sets.values().all(|set| !set.contains(&address)), "{:?}", table.sets);
    // Bounds go on counting, whatever becomes of the server.
    let change = |add: &[_], remove: &[_]| Step::ChangeSet {
        family: Family::V4,
        set: "names".to_owned(),
        add: add.iter().copied().collect(),
        remove: remove.iter().copied().collect(),
    };
    assert_eq!(plan(&silent, &at(true)), Ok(vec![change(&[address], &[])]));
    let heard = brought(&silent, true);
    let ends = vec![change(&[], &[address])];
    assert_eq!(plan(&heard, &at(false)), Ok(ends.clone()));
    assert_eq!(nobody_listens_plan(&heard), ends, "whoever has listened has ended");
    for found in [new_machine(), set_up(), silent] {
        assert_eq!(nobody_listens_plan(&found), []);
    }
    let callers = BTreeSet::from(["10.201.4.7".parse().unwrap()]);
    let api = ApiWay { address: "10.207.255.253".parse().unwrap(), callers: callers.clone() };
    let called = Wanted { api: Some(api), ..wanted() };
    let found = after(new_machine(), &plan(&new_machine(), &called).unwrap());
    let steps = nobody_listens_plan(&found);
    assert!(
        matches!(&steps[..], [Step::ChangeSet { set, remove, .. }] if set == "callers" && remove == &callers),
        "{steps:#?}"
    );
}

#[test]
fn a_changed_node_leaves_no_gap() {
    let wanted = Wanted { node: "10.201.0.2".parse().unwrap(), ..wanted() };
    let steps = plan(&set_up(), &wanted).unwrap();
    let last = steps.last().unwrap();
    assert!(matches!(last, Step::RemoveAddress { .. }), "{steps:#?}");
    assert_eq!(plan(&after(set_up(), &steps), &wanted), Ok(vec![]));
}

#[test]
fn changed_settings_leave_nothing_behind() {
    let marks = Marks { table: 7476, preference: 400, ..Marks::default() };
    let wanted = Wanted { marks, pool: "10.200.0.0/12".parse().unwrap(), ..wanted() };
    let steps = plan(&set_up(), &wanted).unwrap();
    let found = after(set_up(), &steps);
    assert_eq!(plan(&found, &wanted), Ok(vec![]));
    assert!(found.routes.iter().all(|route| route.table == 7476), "{found:#?}");
    assert_eq!(found.rules.len(), 1);
}

#[test]
fn a_range_as_large_as_the_pool_comes_before_the_refusal() {
    let wanted = Wanted { ranges: nets(&["10.200.0.0/13"]), ..wanted() };
    let steps = plan(&new_machine(), &wanted).unwrap();
    let found = after(new_machine(), &steps);
    let first = found.routes.iter().min_by_key(|route| route.metric).unwrap();
    assert_eq!((found.routes.len(), first.kind), (2, RouteKind::Unicast));
}

#[test]
fn without_the_device_what_protects_is_there() {
    let gone = Found { device: None, ..new_machine() };
    let found = after(gone.clone(), &plan(&gone, &wanted()).unwrap());
    assert_eq!(found.packets.len(), 1);
    assert_eq!((found.routes.len(), found.rules.len()), (1, 1));
    assert_eq!(found.findings(), [Finding::NoDevice]);
    assert_eq!(plan(&found, &wanted()), Ok(vec![]));
}

#[test]
fn a_device_made_anew_gets_its_routes_again() {
    let mut found = set_up();
    found.routes.retain(|route| route.device.is_none());
    found.device = new_machine().device.map(|device| Link { index: 8, ..device });
    let steps = plan(&found, &wanted()).unwrap();
    assert!(!steps.iter().any(|step| matches!(step, Step::ReplacePackets(_))));
    assert_eq!(plan(&after(found, &steps), &wanted()), Ok(vec![]));
}

#[test]
fn whatever_somebody_changed_in_our_table_is_mended() {
    let mut found = set_up();
    let table = found.packets.get_mut(&Family::V4).unwrap();
    table.chains.get_mut("sources").unwrap().rules.pop();
    let steps = plan(&found, &wanted()).unwrap();
    assert_eq!(steps, [Step::ReplacePackets(guard(&wanted(), Family::V4, None))]);
}

#[test]
fn nothing_is_left_but_the_device() {
    let found = set_up();
    let steps = clean_plan(&found, &Marks::default());
    assert_eq!(steps.last(), Some(&Step::RemovePackets(Family::V4)));
    let found = after(found, &steps);
    assert_eq!((found.routes.len(), found.rules.len()), (0, 0));
    assert!(found.packets.is_empty());
    assert!(found.device.unwrap().addresses.is_empty());
}

#[test]
fn nothing_of_others_is_removed() {
    let mut found = set_up();
    let mut rule = found.rules.first().unwrap().clone();
    (rule.protocol, rule.preference) = (3, 400);
    let mut route = found.routes.first().unwrap().clone();
    (route.protocol, route.metric) = (3, 5);
    let network: IpNet = "169.254.7.1/16".parse().unwrap();
    found.device.as_mut().unwrap().addresses.insert(network);
    found.rules.insert(rule.clone());
    found.routes.insert(route.clone());
    assert_eq!(plan(&found, &wanted()), Ok(vec![]));
    let found = after(found.clone(), &clean_plan(&found, &Marks::default()));
    assert_eq!(found.rules, [rule].into());
    assert_eq!(found.routes, [route].into());
    assert_eq!(found.device.unwrap().addresses, [network].into());
}

#[test]
fn what_cannot_be_is_said_before_anything_is_touched() {
    let refused = |change: fn(&mut Wanted)| {
        let mut wanted = wanted();
        change(&mut wanted);
        plan(&new_machine(), &wanted).unwrap_err()
    };
    let outside = refused(|wanted| wanted.ranges = nets(&["10.0.0.0/24"]));
    assert!(matches!(outside, WantedError::Outside { .. }), "{outside}");
    assert!(outside.to_string().contains("gateway.pool"));
    let outside = refused(|wanted| wanted.node = "192.0.2.1".parse().unwrap());
    assert!(matches!(outside, WantedError::Outside { .. }), "{outside}");
    let family = refused(|wanted| {
        wanted.pods.insert("fd00::1".parse().unwrap());
    });
    assert!(matches!(family, WantedError::Family(_)), "{family}");
    let wide = refused(|wanted| wanted.pool = "0.0.0.0/0".parse().unwrap());
    assert!(matches!(wide, WantedError::Wide(_)), "{wide}");
    let pod = refused(|wanted| {
        wanted.pods.insert("10.200.0.9".parse().unwrap());
    });
    assert!(matches!(pod, WantedError::PodInPool { .. }), "{pod}");
    for name in ["", "a/b", "sixteen-letters-"] {
        let mut wanted = wanted();
        name.clone_into(&mut wanted.marks.device);
        let error = plan(&new_machine(), &wanted).unwrap_err();
        assert_eq!(error, WantedError::Device(name.to_owned()));
    }
    let reserved = refused(|wanted| wanted.marks.table = 254);
    assert!(matches!(reserved, WantedError::Reserved { .. }), "{reserved}");
    let many = refused(|wanted| {
        let pods = (0..5_000_u32).map(|n| std::net::Ipv4Addr::from(0x0a2a_0000 + n).into());
        wanted.pods = pods.collect();
    });
    assert!(matches!(many, WantedError::Many { .. }), "{many}");
}

#[test]
fn a_machine_that_forwards_nothing_is_told_what_to_do() {
    let found = Found { forwarding: [(Family::V4, false)].into(), ..new_machine() };
    let findings = found.findings();
    assert_eq!(findings, [Finding::ForwardingOff(Family::V4)]);
    assert!(findings[0].to_string().contains("sysctl -w net.ipv4.ip_forward=1"));
}

#[test]
fn a_rule_that_is_not_plain_is_made_anew() {
    let mut found = set_up();
    let rule = found.rules.pop_first().unwrap();
    let other = Rule { is_plain: false, ..rule.clone() };
    found.rules.insert(other.clone());
    let steps = plan(&found, &wanted()).unwrap();
    assert_eq!(steps, [Step::AddRule(rule), Step::RemoveRule(other)]);
}
