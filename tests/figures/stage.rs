//! Two clusters on a bed of their own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use mercato_tests::cluster::{Cluster, ClusterSpec, Kind};
use mercato_tests::toolchain::Toolchain;
use mercato_tests::{Testbed, runtime};

/// Brings up Rome and Turin, with so many simulated nodes each, for `body`.
pub(crate) fn on_bed<T: Send>(
    nodes: u32,
    body: impl AsyncFnOnce(&Cluster, &Cluster) -> Result<T> + Send,
) -> Result<T> {
    let spec = |name| ClusterSpec {
        nodes: 0,
        simulated: vec![Kind::plain(nodes)],
        ..ClusterSpec::named(name)
    };
    on_clusters(spec("rome"), spec("turin"), body)
}

/// The same where guests are real: Turin has a node with a kubelet, and Rome has none.
pub(crate) fn on_real_bed<T: Send>(
    body: impl AsyncFnOnce(&Cluster, &Cluster) -> Result<T> + Send,
) -> Result<T> {
    let rome = ClusterSpec { nodes: 0, ..ClusterSpec::named("rome") };
    on_clusters(rome, ClusterSpec::named("turin"), body)
}

/// The same where both have a node with a kubelet.
pub(crate) fn on_two_nodes<T: Send>(
    body: impl AsyncFnOnce(&Cluster, &Cluster) -> Result<T> + Send,
) -> Result<T> {
    on_clusters(ClusterSpec::named("rome"), ClusterSpec::named("turin"), body)
}

fn on_clusters<T: Send>(
    rome: ClusterSpec,
    turin: ClusterSpec,
    body: impl AsyncFnOnce(&Cluster, &Cluster) -> Result<T> + Send,
) -> Result<T> {
    let toolchain = Toolchain::build(&mut |line| eprintln!("{line}"))?;
    let bed = Testbed::start_anonymous(&program("lab")?)?;
    let cluster = |spec| {
        // One file, whatever is written to it.
        let api_server_flags = vec!["--audit-log-maxsize=4096".to_owned()];
        Cluster::new(&bed, &toolchain, ClusterSpec { api_server_flags, ..spec })
    };
    let (rome, turin) = (cluster(rome)?, cluster(turin)?);
    let done = bed.scope(|| {
        runtime()?.block_on(async {
            futures::try_join!(rome.up(), turin.up())?;
            let done = body(&rome, &turin).await;
            if done.is_err() {
                let to = std::env::temp_dir().join(format!("figures-{}", std::process::id()));
                rome.dump(&to).await?;
                turin.dump(&to).await?;
                eprintln!("logs and objects are in {}", to.display());
            }
            done
        })
    });
    bed.end()?;
    done
}

/// A program that was built with this one.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let path = own.parent().unwrap_or(Path::new(".")).join(name);
    let found = path.exists().then_some(path);
    found.with_context(|| format!("{name} is not built: cargo build --release --workspace"))
}
