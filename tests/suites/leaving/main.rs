//! The end of a lease as home sees it come: pods move in time, as far as their budgets and the room
//! elsewhere let them, the rest is ended before the provider ends it, and people's own words about the
//! node stand. What happened is judged by every change of the pods that a watch shows.
#![allow(clippy::disallowed_methods, reason = "ends of contracts take time")]

mod notice;
mod pods;
mod stand;
mod term;

use std::process::ExitCode;

use mercato_tests::cluster::ClusterSpec;
use mercato_tests::suite::{self, Test};

fn main() -> ExitCode {
    let clusters = vec![ClusterSpec::named("rome"), ClusterSpec::named("turin")];
    let tests = vec![
        Test::full("pods_move_before_what_was_sold_is_taken_back", |s| {
            Box::pin(notice::pods_move(s))
        }),
        Test::full("a_term_ends_and_another_is_extended_in_the_middle", |s| {
            Box::pin(term::ends_and_extended(s))
        }),
    ];
    suite::run_in_turn("leaving", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}
