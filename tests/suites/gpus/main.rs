//! Devices of many kinds: Milan's nodes are simulated and have some of each, of which it sells what
//! they are; Turin's are real and have a driver that hands out ids. Rome buys of both.

mod bought;
mod hostile;
mod labels;
mod sale;
mod shopping;

use std::process::ExitCode;

use mercato_tests::cluster::{ClusterSpec, Kind};
use mercato_tests::suite::{self, Test};

fn main() -> ExitCode {
    let clusters = vec![
        ClusterSpec { nodes: 0, simulated: sale::kinds(), ..ClusterSpec::named("milan") },
        ClusterSpec { nodes: 0, simulated: vec![Kind::plain(1)], ..ClusterSpec::named("rome") },
        ClusterSpec { nodes: 3, ..ClusterSpec::named("turin") },
    ];
    let tests = vec![
        Test::ci("what_is_on_sale_is_what_there_is", |s| Box::pin(sale::sale(s))),
        Test::ci("what_was_bought_is_what_is_got", |s| Box::pin(bought::bought(s))),
        Test::full("the_page_on_shopping_works_as_it_stands", |s| Box::pin(shopping::typed(s))),
    ];
    suite::run_in_turn("gpus", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}
