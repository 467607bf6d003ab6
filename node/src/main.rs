//! Mercato's one program: the command line, the daemon, the demo.
//!
//! `cli` reads what is typed. `daemon` puts a daemon together: the `driver` owns the
//! agent and performs its effects, `store` keeps its records, `kubernetes` is the cluster
//! at the other end, `admin` what its owner may ask, `desk` who else may from where, `present` how things are said to people,
//! `telemetry` what is watched of it, `nodes` what it and the other nodes of the cluster say,
//! `uninstall` how all of it leaves a cluster.

// Floor 4 has the clocks and the machine's randomness.
#![allow(clippy::disallowed_methods)]

mod admin;
mod bench;
mod cli;
mod daemon;
mod demo;
mod desk;
mod doctor;
mod driver;
mod kubernetes;
mod limits;
mod nodes;
mod paced;
mod page;
mod present;
mod resources;
mod store;
mod strangers;
mod telemetry;
mod tunnel;
mod uninstall;

use std::process::ExitCode;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    // Whatever this program writes holds keys, records and the words of people: nobody else
    // reads any of it. The database makes its files without a word about their mode.
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    take_files();
    // Before any TLS: two providers may be linked in, and there is one default.
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.install_default().expect("nothing else runs yet that could have installed one");
    cli::main()
}

/// Takes as many open files as it may have, up to [`limits::FILES`]. Who starts it often leaves it
/// 1,024 at first, since some programs cannot know of more (`select(2)`): a name server and its
/// connections have more than that.
fn take_files() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = hard.min(limits::FILES);
    if soft < wanted {
        // It goes on with what it has.
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).ok();
    }
}
