//! `mercato node`: what runs on each node but the gateway's, until a signal.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::global::Global;
use super::run::logs;
use crate::admin::Problem;
use crate::nodes::{self, Places};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato node --control /etc/mercato/control --token /run/mercato/token
  mercato node --control control --token token --verbose

It is run by the DaemonSet in config/deploy/optional/nodes.yaml, as root on the
host's network. What it has set up stays when it ends: the daemon has it removed
once no contract needs it, or mercato gateway clean does.")]
pub(crate) struct Node {
    /// The folder with the daemon's address and certificate, in files of these names
    #[arg(long, value_name = "DIR")]
    control: PathBuf,
    /// The file with this node's token
    #[arg(long, value_name = "FILE")]
    token: PathBuf,
}

impl Node {
    pub(crate) async fn perform(self, global: &Global) -> Result<String, Problem> {
        logs(global, if global.verbose { "info,mercato=debug" } else { "warn,mercato=info" });
        let deaf = |error: std::io::Error| {
            Problem::failed("the signal to end cannot be waited for").because(&error)
        };
        let mut end = signal(SignalKind::terminate()).map_err(deaf)?;
        let places = Places { control: self.control, token: self.token };
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "running");
        tokio::select! {
            () = nodes::follow(places) => {}
            _ = end.recv() => {}
            ended = tokio::signal::ctrl_c() => ended.map_err(deaf)?,
        }
        tracing::info!("stopping: what is in force on this node stays");
        Ok(String::new())
    }
}
