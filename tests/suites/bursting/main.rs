//! Bursts: home is full, and pods that find no room there buy their own capacity of two providers with
//! different prices, within what is allowed, and give it back. All nodes are simulated, so that what takes
//! time is the clusters and the daemons.
#![allow(clippy::disallowed_methods, reason = "what is bought by itself is bought in real time")]

mod crowd;
mod kills;
mod market;
mod next;
mod page;
mod rows;
mod vain;

use std::process::ExitCode;

use mercato_tests::cluster::{ClusterSpec, Kind};
use mercato_tests::suite::{self, Test};

fn main() -> ExitCode {
    let cluster = |name, nodes| ClusterSpec {
        nodes: 0,
        simulated: vec![Kind::plain(nodes)],
        ..ClusterSpec::named(name)
    };
    let clusters = vec![cluster("rome", 1), cluster("turin", 2), cluster("lyon", 2)];
    let tests = vec![
        Test::ci("what_does_not_count_buys_nothing_and_says_why", |s| Box::pin(rows::all(s))),
        Test::ci("a_crowd_runs_of_the_cheapest_and_is_given_back", |s| Box::pin(crowd::comes(s))),
        Test::ci("a_daemon_that_dies_buys_once", |s| Box::pin(kills::once(s))),
        Test::ci("the_next_is_asked_where_the_cheapest_is_gone", |s| Box::pin(next::killed(s))),
        Test::full("the_next_is_asked_where_the_cheapest_signs_late", |s| Box::pin(next::late(s))),
        Test::full("the_next_is_asked_where_an_owner_would_be", |s| Box::pin(next::asks(s))),
        Test::full("the_next_is_asked_where_more_is_wanted", |s| Box::pin(next::wants_more(s))),
        Test::full("what_takes_no_pod_is_given_back", |s| Box::pin(vain::given_back(s))),
        Test::full("it_buys_once_whenever_it_dies", |s| Box::pin(kills::at_each_moment(s))),
        Test::full("it_extends_and_gives_back_once", |s| Box::pin(kills::later(s))),
        Test::full("the_page_on_bursts_works_as_it_stands", |s| Box::pin(page::typed(s))),
    ];
    suite::run_in_turn("bursting", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}
