//! `mercato approve-certificates`: what approves the serving certificates of virtual nodes in the
//! place of a person, until a signal. It needs no daemon, and no rights of the daemon's.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use mercato_config::settings;
use mercato_kubelet::{Cluster, approver};
use tokio::signal::unix::{SignalKind, signal};

use super::global::Global;
use super::run::logs;
use crate::admin::{Class, Problem};
use crate::kubernetes::real;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato approve-certificates
  mercato approve-certificates --kubeconfig approver.yaml --address 192.0.2.7

It is run by the Deployment in config/deploy/optional/approver.yaml, under an
account that may approve such certificates. It approves requests of the daemon's
account for its virtual nodes, at the address of a node that the chart's daemon
runs on; all others it leaves to people.")]
pub(crate) struct Approve {
    /// The cluster [default: $KUBECONFIG, ~/.kube/config, or the pod's own cluster]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Another address at which a daemon runs: one beside the cluster, or one that its
    /// configuration names (kubernetes.address)
    #[arg(long = "address", value_name = "IP")]
    addresses: Vec<IpAddr>,
}

impl Approve {
    pub(crate) async fn perform(self, global: &Global) -> Result<String, Problem> {
        logs(global, if global.verbose { "info,mercato=debug" } else { "warn,mercato=info" });
        let deaf = |error: std::io::Error| {
            Problem::failed("the signal to end cannot be waited for").because(&error)
        };
        let mut end = signal(SignalKind::terminate()).map_err(deaf)?;
        let settings =
            settings::Kubernetes { kubeconfig: self.kubeconfig, ..settings::Kubernetes::default() };
        let client = real::client(&settings).await.map_err(|error| {
            Problem::new(Class::Failed, format!("no cluster is found: {error:#}"))
                .todo("name its kubeconfig: --kubeconfig FILE")
        })?;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "approving");
        tokio::select! {
            () = approver::approve(Cluster::new(client), self.addresses.into_iter().collect()) => {}
            _ = end.recv() => {}
            ended = tokio::signal::ctrl_c() => ended.map_err(deaf)?,
        }
        Ok(String::new())
    }
}
