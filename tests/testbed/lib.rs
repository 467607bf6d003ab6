//! The test bed: whole, real Kubernetes clusters on one machine, in seconds.
//!
//! A [`Testbed`] is a set of namespaces with a LAN in it; a [`cluster::Cluster`] is
//! real etcd, API server, controllers and scheduler on that LAN, with real nodes
//! (kubelet, containerd, kube-proxy, CoreDNS), simulated ones (kwok), or none.
//! The programs come from the [`toolchain`], built once from Go modules. Nothing of a
//! bed touches the host's network, and nothing stays when the bed's owner ends,
//! however it ends.
//!
//! What is tested on it stands in `suites/`; people use it by the program `lab`.
#![allow(
    clippy::disallowed_methods,
    reason = "the bed lives on the real machine: it waits in real time"
)]

mod account;
pub mod capture;
pub mod cluster;
pub mod conformance;
pub mod costs;
pub mod courier;
pub mod daemon;
pub mod disks;
pub mod dockerfile;
pub mod fault_proxy;
pub mod full;
pub mod heartbeat;
pub mod image;
pub mod installed;
pub mod leftovers;
pub mod nodes;
pub mod page;
pub mod relay;
pub mod requirements;
pub mod sample_app;
pub mod seen;
pub mod step_timer;
pub mod suite;
pub mod supervisor;
mod testbed;
pub mod toolchain;
pub mod trend;
pub mod tunnel;
pub mod turn;
pub mod user;
pub mod visitors;
pub mod wait;
pub mod work;

use std::process::Command;

use anyhow::{Context, Result, ensure};

pub use testbed::{Place, Testbed};

/// A runtime whose threads live where the calling thread does, with the process's
/// TLS provider settled.
///
/// # Errors
/// When threads cannot be started.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    // A second call finds it settled.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Runs a short program to its end.
///
/// # Errors
/// When it cannot be started or fails, with what it printed.
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    let output =
        Command::new(program).args(args).output().with_context(|| format!("start {program}"))?;
    ensure!(
        output.status.success(),
        "{program} {}: {}{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
