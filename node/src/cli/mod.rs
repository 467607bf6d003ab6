//! The command line: reads what was typed, asks the api, shows the answer.
//!
//! `args` has the words, `brief` what tables have room for; each command's options and what it does are in one module:
//! `look` (status, peers, events), `market` (browse, offer), `peer`, `share`, `order`, `rfq`,
//! `key`,
//! `deals` (requests, contracts), `change` (contracts extend, resize), `statement`,
//! `reclaim`, `federation` (with `root_key`,
//! `revoke` and `announce`), `namespaces`, `portable` (export,
//! import), `run` (run, demo), `node`, `gate`, `approve`, `heartbeat`, `uninstall`, `manual`. What is done, the daemon does.

mod announce;
mod approve;
mod args;
mod bench;
mod change;
mod deals;
mod demand;
mod doctor;
mod federation;
mod gate;
mod gateway;
mod global;
mod heartbeat;
mod joined;
mod joining;
mod key;
mod look;
mod lookup;
mod manual;
mod market;
mod namespaces;
mod node;
mod order;
mod page;
mod peer;
mod portable;
mod progress;
mod reclaim;
mod requests;
mod revoke;
mod rfq;
mod root_key;
mod rule;
mod run;
mod screen;
mod share;
mod statement;
mod table;
#[cfg(test)]
mod tests;
mod token;
mod tunnel;
mod uninstall;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ColorChoice, FromArgMatches as _};

use self::args::{Ask, Cli, Command, Offer};
use self::global::Global;
use self::screen::{Screen, print};
use crate::admin::{OperatorApi, Problem};

/// Does what was typed, and says how it ended.
pub(crate) fn main() -> ExitCode {
    let cli = read();
    let screen = Screen::new(&cli.global);
    match perform(cli, &screen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            screen.complain(&problem);
            problem.class.exit_code().into()
        }
    }
}

/// What was typed. Help and mistakes end the program here.
fn read() -> Cli {
    // The option is needed before it can be read, for help and mistakes themselves.
    let plain = std::env::args_os().any(|arg| arg == "--no-color");
    let color = if plain { ColorChoice::Never } else { ColorChoice::Auto };
    let called = std::env::args_os().next().unwrap_or_default();
    let plugin = Path::new(&called).file_name().is_some_and(|name| name == "kubectl-mercato");
    let name = if plugin { "kubectl mercato" } else { "mercato" };
    let matches = args::command().bin_name(name).color(color).try_get_matches();
    let matches = matches.unwrap_or_else(|error| mistaken(&error));
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| mistaken(&error));
    // Not by clap, which would show it in the usage as if each command took it.
    let data_dir = std::env::var_os("MERCATO_DATA_DIR").filter(|dir| !dir.is_empty());
    cli.global.data_dir = cli.global.data_dir.or_else(|| data_dir.map(PathBuf::from));
    cli
}

/// Shows a mistake or a help, and ends.
fn mistaken(error: &clap::Error) -> ! {
    if error.use_stderr() && screen::folds() {
        eprint!("{}", table::folded(&error.render().to_string(), 2));
        std::process::exit(error.exit_code());
    }
    error.exit()
}

fn perform(cli: Cli, screen: &Screen) -> Result<(), Problem> {
    let Cli { global, command } = cli;
    let text = match command {
        Command::Run(run) => on_threads(run.perform(&global)),
        Command::Node(node) => on_threads(node.perform(&global)),
        // Each guest waits for it: it needs no threads.
        Command::Gate(gate) => Ok(gate.pass()),
        Command::ApproveCertificates(approve) => on_threads(approve.perform(&global)),
        Command::Heartbeat(heartbeat) => on_threads(heartbeat.perform(&global)),
        Command::Demo(demo) => on_threads(demo.perform(&global, screen)),
        Command::Doctor => on_threads(doctor::doctor(&global, screen)),
        Command::Gateway(gateway) => gateway.perform(screen),
        Command::Page(page) => on_threads(page.perform(&global, screen)),
        Command::Bench(bench) => on_threads(bench.perform(screen)),
        Command::Export(export) => on_threads(export.perform(&global, screen)),
        Command::Import(import) => import.perform(&global, screen),
        Command::Uninstall(uninstall) => on_threads(uninstall.perform(&global, screen)),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::command(), "mercato", &mut script);
            Ok(String::from_utf8_lossy(&script).into_owned())
        }
        Command::Manual(manual) => manual.perform(args::command()),
        Command::Ask(asked) => {
            let api = global.api();
            on_threads(ask(&*api, screen, &global, asked))
        }
    }?;
    print(&text)
}

fn on_threads(work: impl Future<Output = Result<String, Problem>>) -> Result<String, Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::failed("no threads can be started").because(&error))?;
    runtime.block_on(work)
}

/// What a api is asked; the text to be shown in the end.
async fn ask(
    api: &dyn OperatorApi,
    screen: &Screen,
    global: &Global,
    command: Ask,
) -> Result<String, Problem> {
    match command {
        Ask::Status => look::status(api, screen).await,
        Ask::Peers { watch: false } => look::peers(api, screen).await,
        Ask::Peers { watch: true } => {
            let watching = watch::watch(screen, || look::peers(api, screen));
            watch::within(global.limit(), watching).await
        }
        Ask::Peer(peer) => peer.perform(api, screen).await,
        Ask::Key(key) => key.perform(api, screen, global.answer_timeout()).await,
        Ask::Browse(browse) => browse.perform(api, screen, global.limit()).await,
        Ask::Offer(Offer::Show { provider }) => market::offer(api, screen, &provider).await,
        Ask::Share(share) => share.perform(api, screen).await,
        Ask::Order(order) => order.perform(api, screen, global.limit()).await,
        Ask::Rfq(rfq) => rfq.perform(api, screen).await,
        Ask::Reclaim(reclaim) => reclaim.perform(api, screen).await,
        Ask::Requests(requests) => requests.perform(api, screen).await,
        Ask::Contracts(contracts) => contracts.perform(api, screen).await,
        Ask::Federation(federation) => federation.perform(api, screen).await,
        Ask::Offload(offload) => offload.perform(api, screen).await,
        Ask::Namespaces => namespaces::opened(api, screen).await,
        Ask::Unoffload { namespace } => namespaces::unoffload(api, screen, namespace).await,
        Ask::Events(events) => events.perform(api, screen, global.limit()).await,
    }
}
