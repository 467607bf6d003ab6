//! Two ends of a tunnel in network namespaces of this machine carry packets both ways, and leave
//! nothing.

#![allow(clippy::disallowed_methods, reason = "rates are kept, and moves followed, over a time")]

mod addresses;
// The two ends are those of `mercato bench tunnel`, which are no library.
#[path = "../../../node/src/bench/cable.rs"]
mod cable;
mod carry;
#[path = "../../../node/src/bench/flood.rs"]
mod flood;
mod leases;
mod life;
#[path = "../../../node/src/bench/mercato.rs"]
mod mercato;
mod mtu;
#[path = "../../../node/src/bench/namespace.rs"]
mod namespace;
mod transfer;

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::{self, Stage, Test};
use serde_json::Value;

fn main() -> ExitCode {
    let tests = vec![
        Test::ci("both_ends_carry_packets", |s| Box::pin(carried(s))),
        Test::ci("without_rights_it_says_what_it_needs", |s| Box::pin(without_rights(s))),
        Test::ci("a_program_that_is_missing_is_named", |s| Box::pin(without_a_program(s))),
        Test::ci("each_offload_can_be_missing", |s| Box::pin(carry::without_each_offload(s))),
        Test::ci("cards_need_no_offloads", |s| Box::pin(carry::cards_that_do_nothing(s))),
        Test::ci("gateways_find_each_other_by_version_6", |s| Box::pin(carry::by_version_6(s))),
        Test::ci("several_shards_carry_several_streams", |s| Box::pin(carry::several_shards(s))),
        Test::ci("sessions_leave_nothing", |s| Box::pin(life::many_sessions(s))),
        Test::ci("an_end_that_moves_is_followed", |s| Box::pin(life::an_end_moves(s))),
        Test::ci("changes_of_addresses_are_told_once_they_are_in_force", |s| {
            Box::pin(addresses::changes_are_told_in_force(s))
        }),
        Test::ci("a_flood_of_handshakes_stops_nothing", |s| {
            Box::pin(addresses::a_flood_of_handshakes_stops_nothing(s))
        }),
        Test::ci("links_of_all_sizes_carry_everything", |s| Box::pin(mtu::links_of_all_sizes(s))),
        Test::ci("the_first_datagram_arrives_whatever_fits", |s| {
            Box::pin(mtu::the_first_datagram(s))
        }),
        Test::ci("a_router_to_a_smaller_link_needs_no_icmp", |s| {
            Box::pin(mtu::a_router_to_a_smaller_link(s))
        }),
        Test::ci("a_link_that_becomes_smaller_is_noticed_at_once", |s| {
            Box::pin(mtu::a_link_that_becomes_smaller(s))
        }),
        Test::ci("a_lease_keeps_to_its_rate", |s| Box::pin(leases::a_rate_is_kept(s))),
        Test::ci("a_lease_receives_no_more_than_its_rate", |s| {
            Box::pin(leases::what_comes_too_fast_is_dropped(s))
        }),
        Test::ci("a_flood_of_one_lease_leaves_room_for_others", |s| {
            Box::pin(leases::a_flood_leaves_room_for_others(s))
        }),
    ];
    suite::run_in_turn("tunnel", env!("CARGO_BIN_EXE_lab"), Vec::new(), tests)
}

/// Network devices of this machine, in the namespace of this process.
fn devices() -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir("/sys/class/net")?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

async fn carried(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    let before = devices()?;
    // Not a flood of 100,000 initiations a second: without optimisation one takes milliseconds.
    let loads = "one-stream,four-streams,100-streams,64-byte-packets,round-trip,idle-peer";
    for through in ["gateways", "nodes"] {
        let words = ["bench", "tunnel", "--rounds", "1", "--each", "1s", "--load", loads];
        let words = [&words[..], &["--through", through, "-o", "json"]].concat();
        let output = Command::new(&program).args(words).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "bench tunnel --through {through}: {said}");
        let figures: Value = serde_json::from_slice(&output.stdout)?;
        let all = figures.as_array().context("no list of figures")?;
        for path in ["cable", "mercato"] {
            for case in ["one-stream", "four-streams", "64-byte-packets", "round-trip"] {
                let of = all.iter().find(|of| of["path"] == path && of["case"] == case);
                let of = of.with_context(|| format!("no {case} by the {path}: {figures}"))?;
                ensure!(of["median"].as_u64() > Some(0), "nothing came by the {path}: {case}");
            }
        }
        let idle = all.iter().find(|of| of["case"] == "idle-peer").context("no idle peer")?;
        ensure!(idle["median"].as_u64() < Some(300 << 10), "an idle peer takes {idle}");
    }
    ensure!(devices()? == before, "devices of the machine were changed");
    Ok(())
}

async fn without_rights(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    // Of the same user: another may not reach a folder of builds below this one's home.
    let words = ["--bounding-set=-all", "--inh-caps=-all"];
    let output =
        Command::new("setpriv").args(words).arg(program).args(["bench", "tunnel"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "it ended with {:?}: {said}", output.status.code());
    ensure!(said.contains("CAP_SYS_ADMIN"), "what it needs is not said: {said}");
    Ok(())
}

async fn without_a_program(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    for (name, how) in [("wireguard-go", "go install"), ("boringtun", "cargo install")] {
        let beside = format!("{name}=/nowhere/{name}");
        let words = ["bench", "tunnel", "--beside", beside.as_str()];
        let output = Command::new(&program).args(words).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "it ended with {:?}", output.status.code());
        ensure!(said.contains("/nowhere") && said.contains(how), "how to get it: {said}");
    }
    Ok(())
}
