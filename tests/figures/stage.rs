//! Two clusters on a bed of their own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use mercato_tests::cluster::{Cluster, ClusterSpec};
use mercato_tests::toolchain::Toolchain;
use mercato_tests::{Testbed, runtime};

/// Brings up Rome and Turin, with so many simulated nodes each, for `body`.
pub(crate) fn on_bed<T: Send>(
    nodes: u32,
    body: impl AsyncFnOnce(&Cluster, &Cluster) -> Result<T> + Send,
) -> Result<T> {
    let toolchain = Toolchain::build(&mut |line| eprintln!("{line}"))?;
    let bed = Testbed::start_anonymous(&program("lab")?)?;
    let spec = |name| ClusterSpec {
        nodes: 0,
        simulated: nodes,
        // One file, whatever is written to it.
        api_server_flags: vec!["--audit-log-maxsize=4096".to_owned()],
        ..ClusterSpec::named(name)
    };
    let rome = Cluster::new(&bed, &toolchain, spec("rome"))?;
    let turin = Cluster::new(&bed, &toolchain, spec("turin"))?;
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
