//! `mercato run` and `mercato demo`: what is typed, on top of the configuration file, as
//! the settings of a daemon. Nothing is bound or written here.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use mercato_broker::Amount;
use mercato_config::Settings;
use mercato_config::Switch;
use mercato_config::{FromText as _, SyntaxError, amount};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::{ParseTextError, check_name};
use tracing_subscriber::EnvFilter;

use super::global::{Format, Global};
use super::screen::Screen;
use crate::admin::{Class, Invitation, Problem};
use crate::present::style::Style;
use crate::store::file::read_text;
use crate::{daemon, demo, limits};

#[derive(Args, Debug, Default)]
#[command(after_help = "Examples:
  mercato run --share 30%
  mercato run --name turin --simulated-cluster cpu=8,memory=32Gi,gpu.h100=4

A second daemon on this machine needs a data folder of its own: add --data-dir DIR
here, and to each command that asks it. Daemons on one network find each other.
Then: mercato share set on one, mercato browse and mercato order on the other.")]
pub(crate) struct Run {
    /// The configuration file; none is needed
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What this cluster is called; taken at the first start [default: the machine's name]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// Share this much CPU and memory, unless mercato share has been used before: 30%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    share: Option<Amount>,
    /// The cluster to share from and to buy for [default: $KUBECONFIG, ~/.kube/config, or
    /// the pod's own cluster]
    #[arg(long, value_name = "FILE", conflicts_with = "no_kubernetes")]
    kubeconfig: Option<PathBuf>,
    /// Use no Kubernetes cluster, even if there is one
    #[arg(long)]
    no_kubernetes: bool,
    /// Simulate a cluster of this size instead of using a real one:
    /// cpu=8,memory=32Gi,gpu.h100=4; nothing runs on it
    #[arg(long, value_name = "QUANTITIES", value_parser = simulated)]
    #[arg(conflicts_with_all = ["kubeconfig", "no_kubernetes"])]
    simulated_cluster: Option<Resources>,
    /// Let pods of both clusters call each other, by a tunnel (UDP port 7475); this needs root
    #[arg(long)]
    gateway: bool,
    /// Do not search the local network
    #[arg(long)]
    no_lan: bool,
    /// Ask this name server for federations and for the hosts of peers: IP:PORT
    /// [default: the system's]
    #[arg(long, value_name = "ADDR")]
    dns: Option<SocketAddr>,
    /// Join this federation at startup if not already a member: a registrar's token, or a
    /// DNS name with the fingerprint that its operator publishes. Without the fingerprint
    /// --yes takes what is announced at the first start; later another one is refused
    #[arg(long, value_name = "NAME[@FINGERPRINT]|TOKEN")]
    join: Option<Invitation>,
    /// Connect to this cluster: HOST:PORT, or a multiaddr
    #[arg(long, value_name = "ADDR")]
    peer: Vec<String>,
    /// Listen for peers here: IP:PORT [default: port 7474 on all interfaces]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Tell others to connect here: offers, join tokens and DNS records name it
    /// [default: where it listens, except loopback and link-local addresses]
    #[arg(long, value_name = "HOST[:PORT]")]
    public_address: Vec<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato demo
  mercato demo --kubeconfig rome.yaml --kubeconfig turin.yaml

On real clusters it needs rights like those of an administrator, and names those
that lack. All that it makes is removed, also after Ctrl-C or an error.")]
pub(crate) struct Demo {
    /// Leave the daemons running before the end, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Real clusters, with this kubeconfig's rights: given twice, that of the buyer first
    #[arg(long, value_name = "FILE")]
    kubeconfig: Vec<PathBuf>,
    /// What the pod runs on real clusters; it needs a shell
    #[arg(long, requires = "kubeconfig", default_value = demo::IMAGE)]
    image: String,
}

impl Run {
    pub(crate) async fn perform(self, global: &Global) -> Result<String, Problem> {
        let simulated = self.simulated_cluster.clone();
        let join = self.join.clone().map(|invitation| (invitation, global.yes));
        let (settings, data_dir) = self.settings(global)?;
        logs(global, if global.verbose { "info,mercato=debug" } else { "warn,mercato=info" });
        daemon::run(settings, daemon::Options { data_dir, simulated, join }).await?;
        Ok(String::new())
    }

    /// The configuration file's settings under what was typed, and the data folder.
    fn settings(self, global: &Global) -> Result<(Settings, PathBuf), Problem> {
        let mut settings = match &self.config {
            Some(file) => {
                let name = file.display().to_string();
                let unreadable = |error: io::Error| {
                    Problem::failed(format!("{name} cannot be read: {error}"))
                        .todo("give the configuration's file, or none: mercato run needs none")
                        .because(&error)
                };
                let text = read_text(file, limits::CONFIG_BYTES).map_err(unreadable)?;
                Settings::parse(&name, &text)
                    .map_err(|error| Problem::new(Class::Usage, error.to_string()))?
            }
            None => Settings::default(),
        };
        if let Some(amount) = self.share {
            let share = settings.share.get_or_insert_default();
            (share.cpu, share.memory) = (Some(amount), Some(amount));
        }
        settings.name = self.name.or(settings.name);
        if self.gateway {
            settings.gateway.enabled = Switch::On;
        }
        if self.no_lan {
            settings.lan = Switch::Off;
        }
        if self.no_kubernetes {
            settings.kubernetes.enabled = Switch::Off;
        }
        let kubeconfig = self.kubeconfig.or(settings.kubernetes.kubeconfig.take());
        settings.kubernetes.kubeconfig = kubeconfig;
        let context = global.context.clone();
        settings.kubernetes.context = context.or(settings.kubernetes.context.take());
        settings.dns = self.dns.or(settings.dns);
        settings.peers.extend(self.peer);
        if !self.listen.is_empty() {
            settings.listen = self.listen;
        }
        if !self.public_address.is_empty() {
            settings.public_addresses = self.public_address;
        }
        let mut global = global.clone();
        global.data_dir = global.data_dir.or(settings.data_dir.take());
        Ok((settings, global.data_dir()))
    }
}

impl Demo {
    pub(crate) async fn perform(self, global: &Global, screen: &Screen) -> Result<String, Problem> {
        logs(global, "error");
        let form = match global.output {
            Format::Json => demo::Form::Json,
            Format::Table | Format::Wide | Format::Yaml | Format::Csv | Format::Name => {
                demo::Form::Text { spins: io::stdout().is_terminal(), style: screen.style }
            }
        };
        let files = match <[PathBuf; 2]>::try_from(self.kubeconfig) {
            Ok(both) => Some(both),
            Err(none) if none.is_empty() => None,
            Err(_) => {
                let what = "a demo takes two clusters, or simulates them";
                return Err(Problem::new(Class::Usage, what)
                    .todo("mercato demo --kubeconfig A --kubeconfig B"));
            }
        };
        let real = files.map(|files| (files, self.image));
        demo::play(demo::Play { form, keep: self.keep, real }).await?;
        Ok(String::new())
    }
}

/// The client of Kubernetes calls each failed connection an error; it is tried again, and
/// what comes of that is said by whoever asked.
const QUIET: &str = "kube_client::client::builder=off";

/// One line an event: human on a terminal, JSON otherwise. `MERCATO_LOG` may say more.
pub(super) fn logs(global: &Global, level: &str) {
    let filter = |level: &str| EnvFilter::try_new(format!("{QUIET},{level}"));
    let said = std::env::var("MERCATO_LOG").ok().and_then(|said| filter(&said).ok());
    let filter = said.or_else(|| filter(level).ok()).unwrap_or_default();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Lossy);
    let log = log.log_internal_errors(false);
    let log = log.with_target(global.verbose);
    if io::stderr().is_terminal() {
        log.with_ansi(Style::detect(global.no_color).is_on()).init();
    } else {
        log.json().flatten_event(true).with_current_span(false).init();
    }
}

/// Standard error. What cannot be written there is lost, and nothing else: a full disk under the
/// log ends no daemon.
struct Lossy;

impl io::Write for Lossy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = io::stderr().flush();
        Ok(())
    }
}

/// The name of a cluster.
fn name(text: &str) -> Result<String, ParseTextError> {
    check_name(text).map(|()| text.to_owned())
}

/// The size of a simulated cluster, on which pods have room.
fn simulated(text: &str) -> Result<Resources, String> {
    let mut size = Resources::from_text(text).map_err(|error| error.to_string())?;
    if size.cpu_millis == 0 || size.memory_bytes == 0 {
        return Err("pods need CPU and memory: say how much of both, for example \
                    cpu=8,memory=32Gi,gpu.h100=4"
            .to_owned());
    }
    if size.storage_bytes > 0 {
        return Err(
            "a simulated cluster has as much storage as its owner says: mercato share set \
                    --storage 100Gi"
                .to_owned(),
        );
    }
    if size.pods == 0 {
        size.pods = PODS;
    }
    Ok(size)
}

/// Of a simulated cluster, if nothing else is said: as many as a node of Kubernetes takes.
const PODS: u64 = 110;

/// A share of processors and memory alike, with its sign or without.
fn percent(text: &str) -> Result<Amount, SyntaxError> {
    amount::of(&Resource::Cpu, &format!("{}%", text.strip_suffix('%').unwrap_or(text)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::args::{Cli, Command};
    use super::*;
    use clap::Parser as _;

    fn settings(args: &[&str]) -> Result<(Settings, PathBuf), Problem> {
        let cli = Cli::try_parse_from(["mercato", "run"].iter().chain(args)).unwrap();
        let Command::Run(run) = cli.command else { panic!("another command") };
        run.settings(&cli.global)
    }

    #[test]
    fn what_is_typed_lies_over_what_is_written() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "dataDir: /a\npeers: [one:1]\nlisten: ['0.0.0.0:1']\nshare: {{cpu: 10%}}")
            .unwrap();
        let file = file.path().to_str().unwrap();
        assert_eq!(settings(&["--config", file]).unwrap().1, PathBuf::from("/a"));
        let typed = ["--config", file, "--data-dir", "/b", "--peer", "two:2", "--share", "30"];
        let (typed, data_dir) = settings(&typed).unwrap();
        assert_eq!(data_dir, PathBuf::from("/b"));
        assert_eq!(
            (typed.peers, typed.listen),
            (vec!["one:1".to_owned(), "two:2".to_owned()], vec!["0.0.0.0:1".to_owned()],)
        );
        let share = typed.share.unwrap();
        assert_eq!((share.cpu, share.memory), (Some(Amount::Percent(30)), share.cpu));
        let (listen, _) = settings(&["--config", file, "--listen", "127.0.0.1:2"]).unwrap();
        assert_eq!(listen.listen, ["127.0.0.1:2"]);
    }

    #[test]
    fn a_configuration_that_is_wrong_stops_the_start() {
        let missing = settings(&["--config", "/nowhere/mercato.yaml"]).unwrap_err();
        assert_eq!(missing.class, Class::Failed);
        assert!(missing.what.starts_with("/nowhere/mercato.yaml cannot be read"), "{missing}");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "shares: {{}}").unwrap();
        let wrong = settings(&["--config", file.path().to_str().unwrap()]).unwrap_err();
        assert_eq!(wrong.class, Class::Usage);
    }
}
