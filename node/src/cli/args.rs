//! The words of the command line: what can be typed, with the help to it. What a word does
//! is in the module of its command.

use clap::{Arg, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use super::approve::Approve;
use super::bench::Bench;
use super::deals::Contracts;
use super::federation::Federation;
use super::gate::Gate;
use super::gateway::Gateway;
use super::global::Global;
use super::heartbeat::Heartbeat;
use super::key::Key;
use super::look::Events;
use super::manual::Manual;
use super::market::Browse;
use super::namespaces::Offload;
use super::node::Node;
use super::order::Order;
use super::page::ShowPage;
use super::peer::Peer;
use super::portable::{Export, Import};
use super::reclaim::Reclaim;
use super::requests::Requests;
use super::rfq::Rfq;
use super::run::{Demo, Run};
use super::share::Share;
use super::uninstall::Uninstall;
use crate::admin::Class;
use crate::present::text::label;

/// What stands where in a help: what is said and shown before what can be added.
const HELP: &str = "\
{before-help}{about-with-newline}
{usage-heading} {usage}{after-help}

{all-args}";

/// All commands, as they are read and explained.
pub(crate) fn command() -> clap::Command {
    let code = |(class, meaning): (Class, &str)| format!("  {:<4}{meaning}\n", class.exit_code());
    let codes: String = Class::ALL.map(code).concat();
    finished(Cli::command().after_help(format!("{EXAMPLES}\n\nExit codes:\n  0   done\n{codes}")))
}

const EXAMPLES: &str = "Examples:
  mercato demo
  mercato run --share 30%";

/// The names of values that are of a number, with which an option's value may begin.
const MEASURES: [&str; 9] =
    ["N", "AMOUNT", "BYTES", "DURATION", "MODEL=N", "PERCENT", "PRICE", "QUANTITIES", "RATE"];

fn finished(command: clap::Command) -> clap::Command {
    // What is below zero is a wrong value, not an unknown option.
    let value = |arg: Arg| {
        let takes = !arg.is_positional() && arg.get_action().takes_values();
        let mut names = arg.get_value_names().into_iter().flatten();
        let counts = names.any(|name| MEASURES.contains(&name.as_str()));
        if takes && counts { arg.allow_hyphen_values(true) } else { arg }
    };
    command.help_template(HELP).mut_args(value).mut_subcommands(finished)
}

/// A market of Kubernetes clusters, peer to peer.
#[derive(Debug, Parser)]
#[command(name = "mercato", version, arg_required_else_help = true, term_width = 80)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a federation on this machine: offer, purchase, pod, logs, bill
    Demo(Demo),
    /// Run the daemon of this cluster
    Run(Run),
    /// Let the pods of this node reach other clusters: on each node but the gateway's
    Node(Node),
    /// Hold a guest back until its node has isolated it: its first container
    #[command(hide = true)]
    Gate(Gate),
    /// Approve the serving certificates of virtual nodes, in the place of a person
    #[command(hide = true)]
    ApproveCertificates(Approve),
    /// Keep the virtual nodes of a daemon that is away, so that no pod on them is evicted
    Heartbeat(Heartbeat),
    #[command(flatten)]
    Ask(Ask),
    /// Check this machine, the network and the cluster, and say what to do
    #[command(after_help = "Examples:
  mercato doctor
  mercato doctor -o json

Exit code 1 when a check fails. Without a daemon only this machine is checked.")]
    Doctor,
    /// The tunnel's gateway on this machine
    #[command(subcommand)]
    #[command(after_help = "Examples:
  mercato gateway clean
  mercato gateway clean -o json")]
    Gateway(Gateway),
    /// Show the market and your leases in a browser on this machine
    Page(ShowPage),
    /// Measure what this machine can carry
    Bench(Bench),
    /// Write the whole state to a file, including the key
    Export(Export),
    /// Create a data folder from an exported state
    Import(Import),
    /// Remove all that Mercato has made in the cluster
    Uninstall(Uninstall),
    /// Print the completion script of a shell
    #[command(after_help = "Examples:
  mercato completion bash > ~/.local/share/bash-completion/completions/mercato
  mercato completion fish | source")]
    Completion {
        /// The shell that the script is for
        shell: Shell,
    },
    /// Print the manual page of the program, or of a command
    #[command(hide = true)]
    Manual(Manual),
}

/// What a daemon is asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Ask {
    /// Identity, links, contracts and what needs attention, in one screen
    #[command(after_help = "Examples:
  mercato status
  mercato status -o json")]
    Status,
    /// Known clusters: how they were found, how they are reached, whether you trust them
    #[command(after_help = "Examples:
  mercato peers
  mercato peers -w -o wide")]
    Peers {
        /// Keep watching: in place on a terminal, line by line in a pipe
        #[arg(short, long)]
        watch: bool,
    },
    /// Connect to other clusters, trust or block them
    #[command(subcommand)]
    #[command(after_help = "Examples:
  mercato peer add turin.example:7474
  mercato peer trust turin")]
    Peer(Peer),
    /// The key that signs for this cluster
    #[command(subcommand)]
    #[command(after_help = "Examples:
  mercato key rotate
  mercato key rotate --yes")]
    Key(Key),
    /// Show what other clusters offer
    Browse(Browse),
    /// Show one provider's whole offer
    #[command(subcommand)]
    #[command(after_help = "Examples:
  mercato offer show turin
  mercato offer show 4f3c21ab -o yaml")]
    Offer(Offer),
    /// Show or set what this cluster offers
    Share(Share),
    /// Buy from a provider that you trust
    Order(Order),
    /// Ask several providers for firm offers at once
    Rfq(Rfq),
    /// Requests of other clusters: list, accept, deny
    Requests(Requests),
    /// Orders and contracts, on both sides
    Contracts(Contracts),
    /// Take back what was sold, with notice
    Reclaim(Reclaim),
    /// Create, join or manage a federation, whose members trust each other
    Federation(Federation),
    /// Let the pods of a namespace run elsewhere
    Offload(Offload),
    /// Show which namespaces open Services to guests of others, and to whom
    #[command(after_help = "Examples:
  mercato namespaces
  mercato namespaces -o json")]
    Namespaces,
    /// Run the pods of a namespace at home again
    #[command(after_help = "Examples:
  mercato unoffload shop
  mercato unoffload shop --yes")]
    Unoffload {
        /// The name of the namespace
        #[arg(value_parser = label)]
        namespace: String,
    },
    /// Show what happened, newest last
    Events(Events),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Offer {
    /// Show all that the provider offers
    #[command(after_help = "Examples:
  mercato offer show turin
  mercato offer show 4f3c21ab -o yaml")]
    Show {
        /// Its name, or the beginning of its id
        provider: String,
    },
}
