//! What breaks, and what then is true all the same: daemons are killed, links cut. After
//! each, the pods of both clusters are the same one to one, no pod has run twice, and both
//! sides hold the same contract.
//!
//! Rome buys of Turin; the tests run one after the other on that one contract.
#![allow(clippy::disallowed_methods, reason = "faults have lengths, and recoveries take time")]

mod agreement;
mod api_server;
mod churn;
mod disk;
mod end;
mod ends;
mod kept;
mod kills;
mod large;
mod lies;
mod link;
mod pair;
mod provider;
mod slow;

use std::process::ExitCode;

use mercato_tests::cluster::ClusterSpec;
use mercato_tests::suite::{self, Level, Test};

fn main() -> ExitCode {
    let clusters = vec![ClusterSpec::named("rome"), ClusterSpec::named("turin")];
    let tests = vec![
        // While the records are young: later their file has room of its own, which a full disk
        // does not take away.
        Test::ci("a_disk_is_full_or_read_only", |s| Box::pin(disk::breaks(s))),
        Test::ci("daemons_are_killed", |s| Box::pin(kills::killed(s))),
        Test::ci("the_link_is_cut", |s| Box::pin(link::cut(s))),
        Test::ci("a_slow_link_carries_everything_once", |s| {
            Box::pin(slow::carries_everything_once(s))
        }),
        Test::ci("an_api_server_is_stopped", |s| Box::pin(api_server::stopped(s))),
        Test::ci("the_api_servers_answer_badly", |s| Box::pin(api_server::answers_badly(s))),
        Test::full("the_api_servers_lie", |s| Box::pin(lies::gain_nothing(s))),
        Test::full("the_provider_evicts", |s| Box::pin(provider::evicts(s))),
        Test::full("the_provider_is_short_of_memory", |s| Box::pin(provider::short_of_memory(s))),
        Test::full("the_provider_loses_its_node", |s| Box::pin(provider::loses_its_node(s))),
        Test::ci("the_guest_namespace_is_deleted", |s| {
            Box::pin(provider::deletes_the_namespace(s))
        }),
        Test::ci("what_keeps_guests_is_put_back", |s| Box::pin(kept::is_put_back(s))),
        Test::full("what_keeps_guests_is_fought_over", |s| Box::pin(kept::is_fought_over(s))),
        Test::ci("the_provider_has_such_objects", |s| Box::pin(provider::has_such_objects(s))),
        Test::full("the_provider_has_such_a_namespace", |s| {
            Box::pin(provider::has_such_a_namespace(s))
        }),
        Test::full("large_objects_stop_nothing", |s| Box::pin(large::stops_nothing(s))),
        Test::ci("each_pod_is_asked_to_end_once", |s| Box::pin(end::asks_once(s))),
        Test::ci("ends_are_counted", |s| Box::pin(ends::are_counted(s))),
        Test::ci("ends_that_nobody_counts_are_not_missed", |s| Box::pin(ends::are_not_missed(s))),
        Test::full("a_contract_ends_while_all_is_broken", |s| Box::pin(end::nothing_left(s))),
    ];
    suite::run_in_turn("faults", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

/// A count or a duration of this level.
fn at_level<T>(ci: T, full: T) -> T {
    match suite::level() {
        Level::Ci => ci,
        Level::Full => full,
    }
}
