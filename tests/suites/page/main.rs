//! The page in a browser, as people see it: daemons with simulated clusters, `mercato page`, and Debian's
//! Chromium, which is driven from here. All of it runs in a network namespace that has loopback alone.
#![allow(clippy::disallowed_methods, reason = "a browser takes time")]

mod browser;
mod daemons;
mod driver;
mod look;
mod market;
mod refused;
mod trouble;

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use mercato_tests::suite::{self, Test};

/// Says to this program that it is in its own network already.
const INSIDE: &str = "MERCATO_PAGE_INSIDE";

fn main() -> ExitCode {
    let root = nix::unistd::geteuid().is_root();
    if root && std::env::var_os(INSIDE).is_none() {
        return inside();
    }
    let tests = vec![
        Test::ci("a_researcher_finds_compares_and_follows", |s| Box::pin(market::followed(s))),
        Test::ci("who_may_not_see_is_refused_by_a_code", |s| Box::pin(refused::refused(s))),
        Test::ci("a_daemon_that_was_away_is_told_and_comes_back", |s| Box::pin(trouble::told(s))),
        Test::ci("everybody_can_use_it", |s| Box::pin(look::usable(s))),
        Test::full("screenshots", |s| Box::pin(look::pictures(s))),
    ];
    suite::run_in_turn("page", env!("CARGO_BIN_EXE_lab"), Vec::new(), tests)
}

/// Runs this program again where nothing leads out.
fn inside() -> ExitCode {
    let own = std::env::current_exe().unwrap_or_default();
    let up = "ip link set lo up && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--net", "--kill-child", "--fork", "sh", "-c", up]).arg(own);
    command.args(std::env::args_os().skip(1)).env(INSIDE, "1");
    let error = command.exec();
    eprintln!("no network of its own can be made: {error}");
    ExitCode::FAILURE
}
