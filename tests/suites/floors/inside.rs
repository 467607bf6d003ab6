//! The rules on the inside of a crate, each seen to fail: types that are several, files in circles,
//! tuples as parameters, doc comments that say nothing.

use std::path::Path;

use crate::{
    NOTHING, circles, comments, fixture::Fixture, rules::MUTUAL_FOLDERS, signatures, types,
    workspace::Workspace,
};

#[test]
fn every_crate_that_is_excused_needs_it() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let workspace = Workspace::read(dir).unwrap();
    assert_eq!(types::large_for_nothing(&workspace).unwrap(), []);
    assert_eq!(circles::excused_for_nothing(&workspace).unwrap(), NOTHING);
    assert_eq!(signatures::excused_for_nothing(&workspace).unwrap(), NOTHING);
    assert_eq!(comments::excused_for_nothing(&workspace).unwrap(), NOTHING);
}

#[test]
fn folders_that_import_each_other_are_on_the_list() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let workspace = Workspace::read(dir).unwrap();
    assert_eq!(circles::mutual_folders(&workspace, "node").unwrap(), MUTUAL_FOLDERS);
    let clean = Fixture::clean()
        .with("broker/src/sale/mod.rs", "mod price;\n")
        .with("broker/src/sale/price.rs", "use crate::order::Order;\npub struct Price(Order);\n")
        .with("broker/src/order/mod.rs", "mod size;\npub struct Order;\n")
        .with("broker/src/order/size.rs", "pub struct Size;\n");
    let pairs = |fixture: &Fixture| {
        circles::mutual_folders(&Workspace::read(fixture.dir()).unwrap(), "broker")
    };
    assert!(pairs(&clean).unwrap().is_empty());
    let spoilt = clean.with("broker/src/order/size.rs", "use crate::sale::price::Price;\n");
    assert_eq!(pairs(&spoilt).unwrap(), [["order", "sale"]]);
}

#[test]
fn a_type_that_is_several() {
    let methods = "    fn f() {}\n".repeat(21);
    let half = format!("impl Stall {{\n{methods}}}\n");
    let clean = || Fixture::clean().with("broker/src/stall.rs", &format!("struct Stall;\n{half}"));
    assert_eq!(clean().report(&[]), NOTHING);
    assert_eq!(
        clean().with("broker/src/stall/prices.rs", &half).report(&[]),
        ["broker/src/stall.rs:1: Stall has 46 lines and 42 methods of inherent impl"],
    );
    let lines = format!("struct Stall;\nimpl Stall {{\n{}}}\n", "    // more\n".repeat(600));
    assert_eq!(
        Fixture::clean().with("broker/src/stall.rs", &lines).report(&[("broker/src/stall.rs", "")]),
        ["broker/src/stall.rs:1: Stall has 602 lines and 0 methods of inherent impl"],
    );
}

#[test]
fn files_that_import_each_other() {
    let facade = "mod price;\nmod stall;\npub use price::Price;\npub use stall::Stall;\n";
    let stall = "use super::Price;\npub struct Stall(Price);\n";
    let clean = Fixture::clean()
        .with("broker/src/market/mod.rs", facade)
        .with("broker/src/market/stall.rs", stall)
        .with("broker/src/market/price.rs", "pub(in crate::market) struct Price;\n");
    assert_eq!(clean.report(&[]), NOTHING);
    let spoilt = clean.with(
        "broker/src/market/price.rs",
        "pub struct Price;\nfn f() -> Option<crate::market::Stall> {\n    None\n}\n",
    );
    assert_eq!(
        spoilt.report(&[]),
        [
            "broker/src/market/price.rs:1: 2 files import each other in circles, 0 are excused: broker/src/market/price.rs, broker/src/market/stall.rs"
        ],
    );
}

#[test]
fn a_tuple_as_a_parameter() {
    let clean = "fn f(pair: &[(u8, u8)]) {\n    g(|(a, b): (u8, u8)| a);\n}\n";
    assert_eq!(Fixture::clean().with("broker/src/stall.rs", clean).report(&[]), NOTHING);
    for parameter in ["(a, b): (u8, u8)", "pair: (u8, u8)"] {
        let spoilt = format!("fn f(\n    &self,\n    {parameter},\n) {{\n}}\n");
        assert_eq!(
            Fixture::clean().with("broker/src/stall.rs", &spoilt).report(&[]),
            ["broker/src/stall.rs:1: a tuple as a parameter; 0 are excused in this crate"],
        );
    }
}

#[test]
fn a_doc_comment_that_says_nothing() {
    let clean = "/// Which stall sells\n/// it today.\nfn f() {}\n";
    assert_eq!(Fixture::clean().with("broker/src/stall.rs", clean).report(&[]), NOTHING);
    assert_eq!(
        Fixture::clean().with("broker/src/stall.rs", "/// Which stall.\nfn f() {}\n").report(&[]),
        ["broker/src/stall.rs:1: a doc comment of fewer than 5 words: Which stall.; 0 are excused"],
    );
}

#[test]
fn an_example_in_a_doc_comment() {
    let said = |language: &str| {
        let source = format!("//! Says it so:\n//!\n//! ```{language}\n//! f();\n//! ```\n");
        Fixture::clean().with("broker/src/said.rs", &source).report(&[])
    };
    let example = "broker/src/said.rs:3: an example in a doc comment, which no test runs";
    assert_eq!((said(""), said("rust")), (vec![example.to_owned()], vec![example.to_owned()]));
    assert_eq!(said("text"), NOTHING);
}
