//! `mercato heartbeat`: what keeps the virtual nodes of a daemon that is away, until a signal. It
//! needs no daemon, and no rights of the daemon's.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use mercato_config::{Seconds, settings};
use mercato_kubelet::{Cluster, heartbeat};
use tokio::signal::unix::{SignalKind, signal};

use super::global::Global;
use super::run::logs;
use crate::admin::{Class, Problem};
use crate::kubernetes::real;
use crate::present::text::text;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato heartbeat
  mercato heartbeat --kubeconfig heartbeat.yaml --keep-alive 2h

It is run by the chart, and by config/deploy/optional/heartbeat.yaml, under an
account that may do nothing else. While the daemon gives no sign of life it renews
the Leases of its virtual nodes, so that no pod on them is evicted, until their
contracts end at most. Two of them on two machines outlive the death of one.")]
pub(crate) struct Heartbeat {
    /// The cluster [default: $KUBECONFIG, ~/.kube/config, or the pod's own cluster]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// For how long after the daemon's last sign of life
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = text::<Seconds>)]
    keep_alive: Seconds,
}

impl Heartbeat {
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
        let keep_alive = Duration::from_secs(self.keep_alive.0);
        tracing::info!(version = env!("CARGO_PKG_VERSION"), ?keep_alive, "looking for the daemon");
        tokio::select! {
            () = heartbeat::keep(Cluster::new(client), keep_alive) => {}
            _ = end.recv() => {}
            ended = tokio::signal::ctrl_c() => ended.map_err(deaf)?,
        }
        Ok(String::new())
    }
}
