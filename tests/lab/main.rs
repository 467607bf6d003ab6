//! `lab`: real Kubernetes clusters on this machine, for people.
#![allow(clippy::disallowed_methods, reason = "it tells how long things took")]

mod commands;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mercato_tests::supervisor::{init, reaper};

/// Real Kubernetes clusters on this machine, in seconds.
///
/// Each cluster is real etcd, API server, controllers and scheduler, with real
/// nodes (kubelet, containerd, kube-proxy, CoreDNS) or simulated ones, on a LAN in
/// a network namespace of its own. `lab down` leaves nothing behind: what `lab in` still
/// runs is ended first.
#[derive(Parser)]
#[command(name = "lab", after_help = EXAMPLES)]
struct Cli {
    /// The bed to work on; several can be up side by side.
    #[arg(long, global = true, env = "MERCATO_LAB", default_value = "lab", value_name = "NAME")]
    bed: String,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  lab up rome turin                       two clusters with a real node each
  lab up milan --nodes 0 --simulated 50   one with fifty simulated nodes
  lab up pisa --simulated gfd-h100-eight=2,gfd-t4-turns=1   with devices, as their labels tell
  lab in rome kubectl get pods -A
  lab in --detach rome mercato run --name rome --gateway
  lab down";

#[derive(Subcommand)]
enum Command {
    /// Build what clusters are made of, and the Kubernetes project's end-to-end suite
    /// (once; some twelve minutes)
    Toolchain,
    /// Bring up clusters, on a new bed or beside those that are up
    Up(commands::Up),
    /// Give each real node of a cluster the images of an archive, as docker save or podman save write it
    Import {
        /// Name of the cluster that gets them
        cluster: String,
        /// The archive, a file of this machine
        file: PathBuf,
    },
    /// Give the first real node of a cluster the labels and devices of a kind, and a driver that hands
    /// these out
    Plug {
        /// Name of the cluster that gets them
        cluster: String,
        /// The kind, such as gke-gfd-t4-two
        kind: String,
    },
    /// Run a program on a cluster's first machine, in its network and mounts, with KUBECONFIG set. It
    /// ends with whoever starts it, unless it is detached
    In {
        /// Let it run on until `lab down`, whatever becomes of the shell; says which file has what it
        /// prints. Stands before CLUSTER
        #[arg(long)]
        detach: bool,
        /// Name of the cluster
        cluster: String,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// A shell on a cluster's first machine, with KUBECONFIG set
    Shell {
        /// Name of the cluster
        cluster: String,
    },
    /// What is up, and how its parts are
    Status,
    /// Write logs, objects and events of every cluster to a folder
    Dump {
        /// The folder
        to: PathBuf,
    },
    /// End the bed with its clusters, and what `lab in` still runs there
    Down,
    #[command(hide = true)]
    Reaper { dir: PathBuf },
    #[command(hide = true)]
    Init { dir: PathBuf },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Toolchain => commands::toolchain(),
        Command::Up(up) => commands::up(&cli.bed, &up),
        Command::Import { cluster, file } => commands::import(&cli.bed, &cluster, &file),
        Command::Plug { cluster, kind } => commands::plug(&cli.bed, &cluster, &kind),
        Command::In { detach: true, cluster, command } => {
            commands::detached::run(&cli.bed, &cluster, &command)
        }
        Command::In { detach: false, cluster, command } => {
            return commands::run_in(&cli.bed, &cluster, &command);
        }
        Command::Shell { cluster } => {
            let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
            return commands::run_in(&cli.bed, &cluster, &[shell]);
        }
        Command::Status => commands::status(&cli.bed),
        Command::Dump { to } => commands::dump(&cli.bed, &to),
        Command::Down => commands::down(&cli.bed),
        Command::Reaper { dir } => reaper::run(&dir),
        Command::Init { dir } => init::run(&dir),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
