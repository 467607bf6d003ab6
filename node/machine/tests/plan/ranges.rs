//! What other clusters say of their ranges changes who is in sets, and no rule.

use std::collections::BTreeSet;

use ipnet::IpNet;
use mercato_machine::{Family, Step, Table, Wanted, WantedError, Way, guard, plan};

use crate::model::{after, nets, wanted};
use crate::{set_up, six};

#[test]
fn changed_ranges_are_changed_routes_and_elements() {
    let mut wanted = wanted();
    wanted.ranges = nets(&["10.201.4.0/24", "10.204.0.0/26"]);
    let steps = plan(&set_up(), &wanted).unwrap();
    let [
        Step::ChangeNets { set, add, remove, .. },
        Step::AddRoute(added),
        Step::RemoveRoute(removed),
    ] = &steps[..]
    else {
        panic!("{steps:#?}")
    };
    assert_eq!((added.net, removed.net), (net("10.204.0.0/26"), net("10.203.0.0/26")));
    assert_eq!(
        (set.as_str(), add, remove),
        (Table::MEETING, &[added.net].into(), &[removed.net].into())
    );
}

#[test]
fn guests_meet_where_there_are_ranges_of_two_leases() {
    let table = |ranges: &[&str], homes: &[&str]| {
        let wanted = Wanted { ranges: nets(ranges), homes: nets(homes), ..wanted() };
        guard(&wanted, Family::V4, None)
    };
    let meeting = |table: &Table| table.nets[Table::MEETING].clone();
    let all = ["10.201.4.0/24", "10.203.0.0/26"];
    assert_eq!(meeting(&table(&all, &[])), nets(&all));
    // The one is the home of guests that run here: that has nobody to meet.
    for alone in [table(&all[..1], &[]), table(&all, &all[..1])] {
        assert_eq!(meeting(&alone), [].into());
    }
    // At the other nodes nothing comes back: it goes by the gateway.
    let node = Wanted { way: Way::Through("10.201.0.9".parse().unwrap()), ..wanted() };
    let at_node = guard(&Wanted { ranges: nets(&all), ..node }, Family::V4, None);
    assert!(!at_node.nets.contains_key(Table::MEETING), "{at_node:#?}");
    assert!(!at_node.chains.contains_key("between"), "{at_node:#?}");
}

#[test]
fn a_home_of_guests_is_among_ranges() {
    let homes = |homes: &[&str]| Wanted { homes: nets(homes), ..wanted() };
    let one = homes(&["10.203.0.0/26"]);
    let brought_to = |wanted: &Wanted| after(set_up(), &plan(&set_up(), wanted).unwrap());
    assert_eq!(plan(&brought_to(&one), &one), Ok(vec![]));
    let table = &brought_to(&one).packets[&Family::V4];
    assert_eq!(table.nets[Table::HOMES], nets(&["10.203.0.0/26"]));
    let apart = homes(&["10.205.0.0/26"]);
    assert!(matches!(plan(&set_up(), &apart), Err(WantedError::NoRange(_))));
}

/// Lists that one partner may sign after the other: of each length, of several, and of none.
fn lists() -> Vec<BTreeSet<IpNet>> {
    let of = |bits: u8| {
        let (four, six) = (32 - bits, 128 - bits);
        (0..4_u8).flat_map(move |block| {
            let six = format!("fd00:c8:a:{block}::/{six}");
            [net(&format!("10.205.{block}.0/{four}")).trunc(), net(&six)]
        })
    };
    let lists = (0..=14).map(|bits| of(bits).collect());
    let mixed = of(8).chain(of(7).take(2)).chain(of(0).skip(4)).collect();
    lists.chain([mixed, BTreeSet::new()]).collect()
}

#[test]
fn no_length_of_a_range_is_a_rule() {
    for (found, wanted) in six::all() {
        let found = after(found.clone(), &plan(&found, &wanted).unwrap());
        let pools = wanted.second.iter().map(|place| place.pool).chain([wanted.pool]);
        let pools: Vec<_> = pools.collect();
        let is_here = |range: &&IpNet| pools.iter().any(|pool| pool.contains(*range));
        for (list, are_homes) in lists().iter().flat_map(|list| [(list, false), (list, true)]) {
            let mut wanted = wanted.clone();
            wanted.ranges.extend(list.iter().filter(is_here));
            wanted.homes.extend(list.iter().filter(|range| are_homes && is_here(range)));
            let steps = plan(&found, &wanted).unwrap();
            let is_whole = |step: &Step| matches!(step, Step::ReplacePackets(_));
            assert!(!steps.iter().any(is_whole), "{list:?}: {steps:#?}");
            assert_eq!(plan(&after(found.clone(), &steps), &wanted), Ok(vec![]), "{list:?}");
        }
    }
}

fn net(net: &str) -> IpNet {
    net.parse().unwrap()
}
