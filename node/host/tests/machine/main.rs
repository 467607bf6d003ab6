//! Machines in network namespaces of this one: what is set up is there as `ip` and `nft` say it,
//! goes again without a trace, and does with packets what it should.

#![allow(clippy::disallowed_methods, reason = "a deadline ends a test that hangs")]

mod api;
mod between;
mod both;
mod bounds;
mod closed;
mod cluster;
// What is tried by property tests, and here on the kernel.
#[path = "../../../machine/tests/frames/dice.rs"]
mod dice;
#[path = "../../../machine/tests/frames/draw.rs"]
mod draw;
mod dropping;
mod elsewhere;
mod ends;
mod entries;
mod errors;
mod frames;
mod guests;
mod homes;
mod leases;
mod names;
// That of `mercato bench tunnel`, which is no library.
#[path = "../../../src/bench/namespace.rs"]
mod namespace;
mod nodes;
mod overlay;
mod own_address;
mod packets;
mod pods;
mod sandboxes;
mod services;
mod six;
mod six_packets;
mod sizes;
mod state;
mod tracked;
mod tries;
mod verdicts;
#[allow(dead_code, reason = "the property asks more of it")]
#[path = "../../../machine/tests/frames/wire.rs"]
mod wire;
#[allow(dead_code, reason = "the property asks more of it")]
#[path = "../../../machine/tests/frames/world.rs"]
mod world;

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};

#[allow(clippy::too_many_lines, reason = "a list of tests")]
fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let skipped = !nix::unistd::geteuid().is_root() && std::env::var_os("CI").is_none();
    if skipped {
        eprintln!("skipped: network namespaces need root; run `sudo -E cargo test`");
    }
    let trial = |name, test: Test| {
        let run = move || test().map_err(|error| Failed::from(format!("{error:#}")));
        Trial::test(name, run).with_ignored_flag(skipped)
    };
    let mut trials = vec![
        trial("what_is_there_is_what_was_wanted", state::wanted_is_there),
        trial("a_second_time_there_is_nothing_to_do", state::second_plan_is_empty),
        trial("a_stop_at_any_step_is_mended", state::stops_are_mended),
        trial("nothing_is_left_after_cleaning", state::nothing_is_left),
        trial("changes_leave_the_rest_alone", state::changes_are_small),
        trial("what_others_break_is_mended", state::broken_is_mended),
        trial("many_pods_and_ranges_are_set_up", state::many_of_all),
        trial("a_refusal_says_what_and_why", state::refusals_say_why),
        trial("networks_of_others_are_listed", state::networks_of_others),
        trial("chains_that_drop_are_named_with_a_cure", dropping::chains_are_named),
        trial("what_is_not_forwarded_is_trouble", dropping::what_is_not_forwarded_is_trouble),
        trial("where_no_pod_is_nothing_is_tried", dropping::where_no_pod_is_nothing_is_tried),
        trial("pods_keep_their_address_and_others_have_the_nodes", packets::sources_are_right),
        trial("other_clusters_reach_pods_that_are_mapped_alone", packets::nobody_else_is_reached),
        trial("senders_to_a_guest_that_is_gone_are_told", ends::senders_are_told),
        trial("a_forged_source_is_dropped", packets::forged_sources_are_dropped),
        trial("services_lead_to_other_clusters", packets::services_lead_there),
        trial("a_guest_calls_home_once_it_is_mapped", homes::a_guest_calls_once_it_is_mapped),
        trial("a_guest_of_another_node_calls_home", homes::by_the_overlay_as_well),
        trial("guests_that_may_reach_the_api_server", api::guests_that_may_reach_it),
        trial("guests_of_two_clusters_meet", between::guests_of_two_clusters_meet),
        trial("guests_of_two_clusters_meet_by_both_families", between::both_families_meet),
        trial("nobody_else_goes_through", between::nobody_else_goes_through),
        trial("nothing_leaves_in_clear_without_the_device", packets::nothing_leaves_in_clear),
        trial("pods_of_other_nodes_keep_their_address", overlay::sources_are_right),
        trial("pods_of_other_nodes_are_reached", overlay::mapped_pods_alone_are_reached),
        trial("nothing_leaves_in_clear_without_the_overlay", overlay::nothing_leaves_in_clear),
        trial("datagrams_of_strangers_are_dropped", overlay::forged_datagrams_are_dropped),
        trial("nodes_send_for_mapped_pods_alone", overlay::nodes_send_for_mapped_pods_alone),
        trial("pods_have_no_overlay", overlay::pods_have_no_overlay),
        trial("equal_ranges_do_no_harm", overlay::equal_ranges_do_no_harm),
        trial("first_datagrams_pass_between_nodes", sizes::first_datagrams_pass_between_nodes),
        trial("a_large_packet_is_refused", overlay::large_packets_are_refused_by_the_own_node),
        trial("what_is_there_for_nodes_is_what_was_wanted", entries::wanted_is_there),
        trial("a_stop_at_any_step_for_nodes_is_mended", entries::stops_are_mended),
        trial("nothing_for_nodes_is_left_after_cleaning", entries::nothing_is_left),
        trial("the_size_is_that_of_the_address", entries::sizes_are_of_the_address),
        trial("nodes_come_and_go", entries::nodes_come_and_go),
        trial("what_others_break_at_the_overlay_is_mended", entries::broken_is_mended),
        trial("a_taken_port_is_said", entries::a_taken_port_is_said),
        trial("many_nodes_and_their_pods_are_set_up", entries::many_of_all),
        trial("what_is_there_of_ipv6_is_what_was_wanted", six::wanted_is_there),
        trial("a_stop_at_any_step_for_both_families_is_mended", six::stops_are_mended),
        trial("nothing_of_ipv6_is_left_after_cleaning", six::nothing_is_left),
        trial("a_second_family_comes_and_goes", six::a_second_family_comes_and_goes),
        trial("what_others_break_of_ipv6_is_mended", six::broken_is_mended),
        trial("ipv6_that_is_off_is_said", six::what_is_off_is_said),
        trial("as_many_of_ipv6_are_set_up", six::many_of_all),
        trial("both_families_keep_their_addresses", six_packets::sources_are_right),
        trial("pods_of_ipv6_are_reached", six_packets::mapped_pods_alone_are_reached),
        trial("connections_and_echoes_of_ipv6", six_packets::all_kinds_cross),
        trial("both_families_cross_a_network_of_ipv6", six_packets::by_a_network_of_ipv6),
        trial("no_ipv6_leaves_in_clear", six_packets::nothing_leaves_in_clear),
        trial("forged_ipv6_is_dropped", six_packets::what_is_forged_is_dropped),
        trial("nobody_says_that_he_is_a_router", six_packets::neighbours_are_not_believed),
        trial("a_large_packet_of_ipv6_is_refused", six_packets::large_packets_are_refused),
        trial("no_ipv6_goes_where_nobody_has_it", six_packets::without_a_pool_nothing_goes),
    ];
    trials.extend(of_own_addresses().map(|(name, test)| trial(name, test)));
    trials.extend(of_guests().map(|(name, test)| trial(name, test)));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// All that is tried, and not one of each kind: which frames pass is a property of `mercato-machine`
/// too, whose interpreter is compared with the kernel here.
fn is_full() -> bool {
    std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full")
}

type Test = fn() -> Result<()>;

fn of_own_addresses() -> [(&'static str, Test); 8] {
    [
        ("a_pod_knows_itself_by_one_address", own_address::a_pod_knows_itself_by_one_address),
        ("errors_are_about_what_each_knows", own_address::errors_are_about_what_each_knows),
        ("services_are_translated_as_well", own_address::services_are_translated_as_well),
        ("a_pod_is_called_by_itself", own_address::it_is_called_by_itself),
        ("a_masquerade_goes_along_with_an_address", own_address::its_masquerade_goes_along),
        ("nothing_leaves_with_an_own_address_before", own_address::nothing_leaves_with_it_before),
        ("an_own_address_comes_and_goes", own_address::it_comes_and_goes),
        ("a_pod_with_an_own_address_is_found", own_address::it_is_found_by_its_address_on_the_wire),
    ]
}

fn of_guests() -> [(&'static str, Test); 44] {
    [
        ("the_kernel_says_the_same_of_frames", verdicts::the_kernel_says_the_same_of_frames),
        (
            "the_kernel_says_the_same_of_connections",
            tracked::the_kernel_says_the_same_of_connections,
        ),
        ("guests_ask_for_names", names::guests_ask_for_names),
        ("another_name_server_is_not_asked", names::another_name_server_is_not_asked),
        ("guests_call_other_clusters_alone", guests::guests_call_other_clusters_alone),
        (
            "services_lead_guests_to_other_clusters_alone",
            guests::services_lead_guests_to_other_clusters_alone,
        ),
        ("a_closed_pod_reaches_a_service", closed::a_service_is_reached_by_its_address),
        ("services_have_other_addresses_here", services::services_have_other_addresses_here),
        ("errors_are_about_what_was_called", services::errors_are_about_what_was_called),
        ("services_may_have_each_others_addresses", services::each_others_addresses),
        ("neither_node_nor_pod_is_a_service", services::neither_node_nor_pod_is_a_service),
        ("no_error_is_believed_about_others", errors::none_is_believed_about_others),
        ("errors_about_oneself_are_believed", errors::those_about_oneself_are_believed),
        ("others_do_not_call_guests", guests::others_do_not_call_guests),
        ("forged_guests_are_dropped", guests::forged_guests_are_dropped),
        ("guests_have_few_protocols", guests::guests_have_few_protocols),
        ("unmapped_guests_have_no_other_source", guests::unmapped_guests_have_no_other_source),
        (
            "a_family_without_a_pool_is_closed_to_guests",
            guests::a_family_without_a_pool_is_closed_to_guests,
        ),
        ("a_guest_has_so_many_connections", bounds::a_guest_has_so_many_connections),
        ("what_was_counted_stays", bounds::what_was_counted_stays),
        ("a_guest_begins_so_many_connections", bounds::a_guest_begins_so_many_connections),
        ("others_begin_so_many_with_a_guest", bounds::others_begin_so_many_with_a_guest),
        ("others_begin_so_many_by_the_gateway", bounds::others_begin_so_many_by_the_gateway),
        ("a_guest_asks_for_so_many_names", names::a_guest_asks_for_so_many_names),
        ("a_lease_elsewhere_begins_so_many", elsewhere::a_lease_begins_so_many),
        ("a_guest_begins_so_many_with_another", elsewhere::a_guest_begins_so_many_with_another),
        ("twenty_leases_leave_nothing", leases::twenty_leave_nothing),
        ("a_closed_pod_asks_so_often", bounds::a_closed_pod_asks_so_often),
        ("a_closed_pod_reaches_nobody_else", closed::nobody_else_is_reached),
        ("nothing_else_leaves_a_closed_pod", closed::nothing_else_leaves),
        ("a_pod_is_closed_without_the_nodes_rules", closed::it_is_closed_without_the_nodes_rules),
        ("nobody_else_reaches_a_closed_pod", closed::nobody_else_reaches_it),
        ("a_change_keeps_a_closed_pods_connections", closed::a_change_keeps_connections),
        ("the_nodes_end_of_a_pod_is_enough", closed::the_nodes_end_is_enough),
        ("what_is_at_the_node_goes_with_the_pod", sandboxes::what_is_at_the_node_goes_with_the_pod),
        ("a_pod_is_found_by_its_address", sandboxes::a_pod_is_found_by_its_address),
        ("a_pod_that_was_seen_is_known", sandboxes::one_that_was_seen_is_known),
        ("a_pod_at_a_bridge_is_found", sandboxes::a_pod_at_a_bridge_is_found),
        ("a_pod_that_is_not_sure_is_refused", sandboxes::who_is_not_sure_is_refused),
        ("who_was_closed_by_mistake_is_opened", sandboxes::who_was_closed_by_mistake_is_opened),
        (
            "namespaces_that_are_not_seen_are_trouble",
            sandboxes::namespaces_that_are_not_seen_are_trouble,
        ),
        ("what_is_in_force_in_a_pod_is_seen", sandboxes::what_is_in_force_is_seen),
        ("a_pod_that_cannot_be_closed_is_refused", sandboxes::who_cannot_be_closed_is_refused),
        ("as_much_as_is_taken_is_in_force", sandboxes::as_much_as_is_taken_is_in_force),
    ]
}
