//! Whatever a node finds out is told: each of it alone, with no lease in force, whether it is found out
//! before the daemon has said anything or afterwards.

use std::collections::BTreeSet;

use mercato_protocol::id::ContractId;
use mercato_protocol::node::{NodeState, UnopenedName};

use super::super::super::testing::wanted;
use super::*;

/// What a node may find out.
struct Finding {
    /// The one part of a standing that is another one then,
    part: &'static str,
    /// and what is said of it with each state; none: it is said with the first word.
    said: Option<&'static str>,
    /// What the daemon has said; none: nothing. It has no lease.
    snapshot: Option<Snapshot>,
    comes: fn(&mut Stand),
}

/// When it is found out.
#[derive(Clone, Copy, Debug)]
enum When {
    BeforeTheSnapshot,
    AfterTheSnapshot,
}

/// One of each: what no lease needs, what is left when leases are over, and nothing said at all.
fn findings() -> [Finding; 10] {
    let nothing = || Some(Snapshot { way: None, ..snapshot(1, Vec::new()) });
    let rest = || Some(snapshot(1, Vec::new()));
    let both = NodeWay { pool_v6: Some(SECOND_POOL.into()), ..way() };
    let of_both = Some(Snapshot { way: Some(both), ..snapshot(1, Vec::new()) });
    let finding = |part, said, snapshot, comes| Finding { part, said, snapshot, comes };
    [
        finding("word", Some("version"), None, |it| {
            it.hear(1, Snapshot { way: None, ..snapshot(1, Vec::new()) });
        }),
        finding("mtu", Some("mtu"), rest(), |it| it.machine.now(|now| now.mtu = 1_400)),
        finding("address", None, None, |it| it.machine.now(|now| now.set_up = Some(wanted()))),
        finding("trouble", Some("trouble"), None, |it| {
            it.machine.now(|now| now.trouble = Some("the kernel refuses".to_owned()));
        }),
        finding("second", Some("second"), of_both, |it| {
            it.machine.now(|now| now.second_trouble = Some("no IPv6".to_owned()));
        }),
        finding("open", Some("open"), nothing(), |it| {
            let why = Some("it was tried in vain".to_owned());
            it.machine.now(|now| now.closings.send_modify(|it| it.trouble = why));
        }),
        finding("mended", Some("mended"), nothing(), |it| {
            it.machine.now(|now| now.mended += 1);
        }),
        finding("unnamed", Some("unnamed"), nothing(), |it| {
            let unnamed = Some("another program has the port".to_owned());
            it.serve.send_replace(Served { unnamed, ..Served::default() });
        }),
        finding("unopened", Some("unopened"), nothing(), |it| {
            let (guest, lease) = ("10.42.0.7".parse().unwrap(), ContractId([5; 16]));
            let (service, namespace) = ("db".to_owned(), "data".to_owned());
            let unopened = [UnopenedName { lease, guest, service, namespace }].into();
            it.serve.send_replace(Served { unopened, ..Served::default() });
        }),
        finding("unkept", Some("unkept"), nothing(), |it| {
            it.machine.now(|now| now.networks = Err("it has 300 networks".to_owned()));
        }),
    ]
}

/// All that a standing has, by name, and whether it is another one there.
fn parts(one: &Standing, other: &Standing) -> [(&'static str, bool); 10] {
    let Standing { set_up, open, mended, unnamed, unopened, unkept } = one;
    let SetUp { word, mtu, address, trouble, second } = set_up;
    let there = &other.set_up;
    [
        ("word", *word != there.word),
        ("mtu", *mtu != there.mtu),
        ("address", *address != there.address),
        ("trouble", *trouble != there.trouble),
        ("second", *second != there.second),
        ("open", *open != other.open),
        ("mended", *mended != other.mended),
        ("unnamed", *unnamed != other.unnamed),
        ("unopened", *unopened != other.unopened),
        ("unkept", *unkept != other.unkept),
    ]
}

/// The same of what is said.
fn words(one: &Standing, other: &Standing) -> [(&'static str, bool); 9] {
    let [one, other] = [one, other].map(|standing| standing.state(1));
    let [FromNode::State(one), FromNode::State(other)] = [one, other] else {
        panic!("a standing is no hello")
    };
    let NodeState {
        version,
        mtu,
        trouble,
        second,
        open,
        mended,
        unnamed,
        unopened,
        // It is one of this release.
        egress: _,
        unkept,
    } = one;
    [
        ("version", version != other.version),
        ("mtu", mtu != other.mtu),
        ("trouble", trouble != other.trouble),
        ("second", second != other.second),
        ("open", open != other.open),
        ("mended", mended != other.mended),
        ("unnamed", unnamed != other.unnamed),
        ("unopened", unopened != other.unopened),
        ("unkept", unkept != other.unkept),
    ]
}

fn others<const N: usize>(all: [(&'static str, bool); N]) -> Vec<&'static str> {
    all.into_iter().filter(|(_, is_another)| *is_another).map(|(name, _)| name).collect()
}

/// What was told in the end, by whoever has looked before the daemon was there. None: it is not found out.
async fn told(finding: &Finding, when: Option<When>) -> Standing {
    let mut stand = Stand::new(Fake::default());
    stand.step().await;
    if let Some(When::BeforeTheSnapshot) = when {
        (finding.comes)(&mut stand);
        stand.step().await;
    }
    if let Some(snapshot) = finding.snapshot.clone() {
        stand.hear(1, snapshot);
        stand.step().await;
    }
    if let Some(When::AfterTheSnapshot) = when {
        (finding.comes)(&mut stand);
        stand.step().await;
    }
    stand.told.borrow().clone().unwrap()
}

#[tokio::test]
async fn each_finding_is_told_alone_and_in_both_orders() {
    let mut lost = Vec::new();
    for finding in findings() {
        let without = told(&finding, None).await;
        for when in [When::BeforeTheSnapshot, When::AfterTheSnapshot] {
            let with = told(&finding, Some(when)).await;
            let told = (others(parts(&without, &with)), others(words(&without, &with)));
            if told != (vec![finding.part], Vec::from_iter(finding.said)) {
                lost.push((finding.part, when, told));
            }
        }
    }
    assert!(lost.is_empty(), "what is told is not what was found out: {lost:?}");
}

#[test]
fn there_is_a_finding_of_all_that_is_told() {
    let nothing = Standing::default();
    let names = |all: &[(&'static str, bool)]| -> BTreeSet<_> {
        all.iter().map(|(name, _)| *name).collect()
    };
    let found: BTreeSet<_> = findings().iter().map(|finding| finding.part).collect();
    assert_eq!(found, names(&parts(&nothing, &nothing)));
    let said: BTreeSet<_> = findings().iter().filter_map(|finding| finding.said).collect();
    assert_eq!(said, names(&words(&nothing, &nothing)));
}
