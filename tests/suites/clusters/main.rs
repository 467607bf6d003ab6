//! The bed's clusters do what a Kubernetes user expects of any cluster.
//!
//! Rome has two nodes, Turin one node and Rome's ranges; Siena is dual stack and
//! verifies its kubelet's certificate; Milan's nodes are simulated; Pisa, which has
//! none, is there to be broken.

mod faults;
mod packets;
mod scale;
mod workloads;

use std::process::ExitCode;

use mercato_tests::cluster::{Cidrs, ClusterSpec, Kind};
use mercato_tests::suite::{self, Test};

fn main() -> ExitCode {
    let clusters = vec![
        ClusterSpec { nodes: 2, cidrs: Some(Cidrs::same()), ..ClusterSpec::named("rome") },
        ClusterSpec { cidrs: Some(Cidrs::same()), ..ClusterSpec::named("turin") },
        ClusterSpec { dual_stack: true, verify_kubelets: true, ..ClusterSpec::named("siena") },
        ClusterSpec {
            nodes: 0,
            simulated: vec![Kind::of("gfd-h100-eight", 8), Kind::plain(42)],
            ..ClusterSpec::named("milan")
        },
        ClusterSpec { nodes: 0, ..ClusterSpec::named("pisa") },
    ];
    let tests = vec![
        Test::ci("a_service_is_resolved_and_reached", |s| Box::pin(workloads::service(s))),
        Test::ci("two_clusters_with_the_same_ranges_do_not_meet", |s| {
            Box::pin(workloads::same_ranges(s))
        }),
        Test::ci("a_pod_reaches_its_own_api_server", |s| Box::pin(workloads::own_api_server(s))),
        Test::ci("logs_are_followed", |s| Box::pin(workloads::logs(s))),
        Test::ci("exec_has_a_terminal_and_an_exit_code", |s| Box::pin(workloads::exec(s))),
        Test::ci("who_attaches_is_heard", |s| Box::pin(workloads::attach(s))),
        Test::ci("files_are_copied_both_ways", |s| Box::pin(workloads::copy(s))),
        Test::ci("a_port_is_forwarded", |s| Box::pin(workloads::port_forward(s))),
        Test::ci("pods_and_services_have_both_families", |s| Box::pin(workloads::dual_stack(s))),
        Test::ci("bytes_are_counted_and_captured_on_a_node", |s| {
            Box::pin(packets::within_a_node(s))
        }),
        Test::ci("a_pod_has_its_own_address_in_its_cluster_alone", |s| {
            Box::pin(packets::between_nodes(s))
        }),
        Test::ci("a_program_is_in_its_nodes_network", |s| Box::pin(packets::in_its_network(s))),
        Test::ci("kubelet_certificates_are_verified", |s| Box::pin(workloads::verified(s))),
        Test::ci("a_part_is_paused_killed_and_restarted", |s| Box::pin(faults::parts(s))),
        Test::ci("kubectl_tells_its_exit_code", |s| Box::pin(faults::exit_code(s))),
        Test::ci("a_dump_explains", |s| Box::pin(faults::dump(s))),
        Test::ci("many_pods_are_scheduled", |s| Box::pin(scale::many_pods(s))),
        Test::ci("gpus_are_scheduled_and_run_out", |s| Box::pin(scale::gpus(s))),
    ];
    suite::run("clusters", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}
