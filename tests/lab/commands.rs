//! What each command of `lab` does, and what it prints.

pub(crate) mod detached;

use std::fmt::Display;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use mercato_tests::cluster::{Cidrs, Cluster, ClusterSpec, Kind, PodNetwork, ProxyMode};
use mercato_tests::toolchain::Toolchain;
use mercato_tests::{Testbed, image, requirements, runtime};

/// Bring up clusters.
#[derive(Args)]
pub(crate) struct Up {
    /// A name for each cluster: lower-case letters, digits, dashes
    #[arg(required = true)]
    clusters: Vec<String>,
    /// Real nodes of each cluster
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=9))]
    nodes: u8,
    /// Simulated nodes of each cluster: so many plain ones, and of kinds with devices
    #[arg(long, value_name = "N|KIND=N", value_delimiter = ',')]
    simulated: Vec<Kind>,
    /// The same ranges for pods and services in each cluster
    #[arg(long, conflicts_with = "dual_stack")]
    same_cidrs: bool,
    /// IPv6 beside IPv4
    #[arg(long)]
    dual_stack: bool,
    /// API servers verify their kubelets' certificates
    #[arg(long)]
    verify_kubelets: bool,
    /// metrics-server, so that kubectl top works
    #[arg(long)]
    metrics: bool,
    /// How packets of pods find their way
    #[arg(long, value_enum, default_value_t = PodNetwork::Routed)]
    pod_network: PodNetwork,
    /// With what kube-proxy makes its rules
    #[arg(long, value_enum, default_value_t = ProxyMode::Nftables)]
    proxy_mode: ProxyMode,
    /// The image mercato.test/mercato:1, of the program as it is built now, on each real node
    #[arg(long)]
    mercato: bool,
}

impl Up {
    fn spec(&self, name: &str) -> ClusterSpec {
        ClusterSpec {
            nodes: self.nodes,
            simulated: self.simulated.clone(),
            cidrs: self.same_cidrs.then(Cidrs::same),
            dual_stack: self.dual_stack,
            verify_kubelets: self.verify_kubelets,
            metrics: self.metrics,
            pod_network: self.pod_network,
            proxy_mode: self.proxy_mode,
            ..ClusterSpec::named(name)
        }
    }
}

pub(crate) fn toolchain() -> Result<()> {
    let toolchain = Toolchain::build(&mut say)?;
    toolchain.build_e2e(&mut say)?;
    say(&format!("the toolchain is in {}", toolchain.dir().display()));
    Ok(())
}

pub(crate) fn up(bed: &str, up: &Up) -> Result<()> {
    requirements::met()?;
    let program = up.mercato.then(mercato).transpose()?;
    let toolchain = Toolchain::build(&mut say)?;
    let archive = program.as_deref().map(image::of_program).transpose()?;
    let started = Instant::now();
    let (bed, ends) = match Testbed::attach(bed) {
        Ok(bed) => (bed, "`lab down` ends the bed with what is half up"),
        // Not detached yet, so it ends with this command.
        Err(_) => (Testbed::start(bed, &std::env::current_exe()?)?, "the bed was ended"),
    };
    let clusters = up
        .clusters
        .iter()
        .map(|name| Cluster::new(&bed, &toolchain, up.spec(name)))
        .collect::<Result<Vec<_>>>()?;
    bed.enter_network()?;
    let coming = clusters.iter().map(|cluster| async {
        cluster.up().await.with_context(|| format!("bring up {}", cluster.name()))?;
        if let Some(archive) = &archive {
            import_into(cluster, archive).await?;
        }
        say(&format!("{} is up after {:.1} s", cluster.name(), started.elapsed().as_secs_f32()));
        anyhow::Ok(())
    });
    let runtime = runtime()?;
    if let Err(error) = runtime.block_on(futures::future::try_join_all(coming)) {
        let to = std::env::temp_dir().join(format!("lab-{}", std::process::id()));
        for cluster in &clusters {
            runtime.block_on(cluster.dump(&to))?;
        }
        return Err(error.context(format!("logs are in {}; {ends}", to.display())));
    }
    let name = bed.name().to_owned();
    bed.detach()?;

    let first = &up.clusters[0];
    let lab = if name == "lab" { "lab".to_owned() } else { format!("lab --bed {name}") };
    print("\nNow, for instance (lab is `cargo run --quiet --bin lab --`):");
    print(format!("  {lab} in {first} kubectl get nodes -o wide"));
    print(format!("  {lab} shell {first}"));
    print(format!("  {lab} status"));
    print(format!("  {lab} down"));
    Ok(())
}

/// The program, beside this one.
fn mercato() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("mercato");
    ensure!(program.exists(), "mercato is not built yet: cargo build --workspace");
    Ok(program)
}

pub(crate) fn import(bed: &str, cluster: &str, archive: &Path) -> Result<()> {
    // `ctr` runs elsewhere.
    let archive = archive.canonicalize().with_context(|| format!("{}", archive.display()))?;
    let bed = attach(bed)?;
    let toolchain = Toolchain::build(&mut say)?;
    let cluster = Cluster::attach(&bed, &toolchain, cluster)?;
    runtime()?.block_on(import_into(&cluster, &archive))
}

async fn import_into(cluster: &Cluster, archive: &Path) -> Result<()> {
    let nodes = (1..=cluster.spec().nodes).map(|number| cluster.import(number, archive));
    futures::future::try_join_all(nodes).await.map(drop)
}

pub(crate) fn plug(bed: &str, cluster: &str, kind: &str) -> Result<()> {
    let bed = attach(bed)?;
    let toolchain = Toolchain::build(&mut say)?;
    let cluster = Cluster::attach(&bed, &toolchain, cluster)?;
    bed.enter_network()?;
    runtime()?.block_on(cluster.equip(1, kind))?;
    say(&format!("{} has the devices of {kind}", cluster.node_name(1)));
    Ok(())
}

pub(crate) fn run_in(bed: &str, cluster: &str, command: &[String]) -> ExitCode {
    let (program, args) = command.split_first().expect("clap demands a program");
    let prepared = attach(bed).and_then(|bed| visitor(&bed, cluster, program));
    let error = match prepared {
        // Replaces this process: the terminal, signals and exit code are the program's.
        Ok(mut command) => command.args(args).exec().into(),
        Err(error) => error,
    };
    eprintln!("lab: {error:#}");
    ExitCode::FAILURE
}

fn attach(bed: &str) -> Result<Testbed> {
    Testbed::attach(bed).with_context(|| missing(bed))
}

/// A program on the first machine of a cluster; its arguments are to come.
fn visitor(bed: &Testbed, cluster: &str, program: &str) -> Result<Command> {
    let toolchain = Toolchain::build(&mut say)?;
    let cluster = Cluster::attach(bed, &toolchain, cluster)?;
    let mut command = cluster.visitor(program)?;
    // It ends with the bed.
    command.env("MERCATO_DATA_DIR", cluster.data().join("mercato"));
    Ok(command.into_std())
}

pub(crate) fn status(bed: &str) -> Result<()> {
    let bed = attach(bed)?;
    let toolchain = Toolchain::build(&mut say)?;
    let programs = bed.supervisor().list()?;
    for cluster in Cluster::all(&bed, &toolchain)? {
        let spec = cluster.spec();
        let (real, simulated) = (spec.nodes, spec.simulated_nodes());
        print(format!("{}: {real} real and {simulated} simulated nodes", spec.name));
        for program in &programs {
            let Some((of, part)) = program.name.split_once('/') else { continue };
            if of == spec.name {
                let state = match program.exit {
                    None => format!("running as {} in the bed", program.pid),
                    Some(code) if code < 0 => format!("ended by signal {}", -code),
                    Some(code) => format!("ended with code {code}"),
                };
                print(format!("  {part:<26} {state}"));
            }
        }
        print(format!("  {:<26} {}", "files", cluster.data_outside().display()));
    }
    Ok(())
}

pub(crate) fn dump(bed: &str, to: &Path) -> Result<()> {
    let bed = attach(bed)?;
    let toolchain = Toolchain::build(&mut say)?;
    bed.enter_network()?;
    let runtime = runtime()?;
    for cluster in Cluster::all(&bed, &toolchain)? {
        runtime.block_on(cluster.dump(to))?;
        detached::dump(&bed, cluster.name(), &to.join(cluster.name()))?;
        print(to.join(cluster.name()).display());
    }
    Ok(())
}

pub(crate) fn down(bed: &str) -> Result<()> {
    ensure!(nix::unistd::geteuid().is_root(), "beds belong to root: run it as root");
    match Testbed::attach(bed) {
        Ok(bed) => {
            let ended = mercato_tests::visitors::end(&bed)?;
            if ended > 0 {
                say(&format!("ended {ended} program(s) that ran in it"));
            }
            bed.end()?;
        }
        Err(_) => say(&format!("no bed {bed} is up")),
    }
    let swept = mercato_tests::leftovers::sweep()?;
    if swept > 0 {
        say(&format!("removed what {swept} killed run(s) left"));
    }
    Ok(())
}

fn missing(bed: &str) -> String {
    format!("no bed {bed} is up; bring one up with: lab up rome turin")
}

/// Prints a line of the result. Who reads no more of it, as `head`, ends the program.
fn print(line: impl Display) {
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}

fn say(line: &str) {
    // Who closed the terminal does not want to read it.
    let _ = writeln!(std::io::stderr(), "{line}");
}
