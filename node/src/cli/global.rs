//! What every command understands, and what time it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use mercato_config::Seconds;

use crate::admin::{self, OperatorApi};
use crate::desk::{self, Place};
pub(super) use crate::present::text::now_ms;
use crate::present::text::text;

/// The options that every command understands.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Where the daemon keeps identity and records [default: $MERCATO_DATA_DIR, or else
    /// /var/lib/mercato as root, otherwise $XDG_STATE_HOME/mercato]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The daemon's admin socket [default: admin.sock in the data folder]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Ask the daemon in the pod of this cluster, by your rights there [default: the
    /// daemon of this machine, or else $KUBECONFIG, ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "socket")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The same, by the name of a context
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "socket")]
    pub(crate) context: Option<String>,
    /// How to print: table fits 80 columns, wide shows more of them, json and yaml all;
    /// csv is for offers and statements, name for offers
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
    /// Show the causes of an error
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Answer every question with yes
    #[arg(long, global = true)]
    pub(crate) yes: bool,
    /// No colour, as with NO_COLOR
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
    /// How long to wait [default: 30s for an answer, no limit with --wait
    /// and --watch]
    #[arg(long, global = true, value_name = "DURATION", value_parser = text::<Seconds>)]
    timeout: Option<Seconds>,
}

/// How the daemon is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At its socket, on this machine.
    Socket(PathBuf),
    /// In its pod, of that cluster.
    Cluster {
        place: Place,
        /// The socket that is not there, where nobody has named the cluster.
        instead_of: Option<PathBuf>,
    },
}

/// Whether kubectl would know which cluster is meant.
fn has_kubeconfig() -> bool {
    let named = std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".kube/config"));
    named.is_some() || home().is_some_and(|file| file.exists())
}

/// The form in which to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Csv,
    Name,
}

impl Global {
    /// For one answer of the daemon.
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.limit().unwrap_or(Duration::from_secs(30))
    }

    /// For what may take as long as it takes; none: no limit.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.timeout.map(|Seconds(seconds)| Duration::from_secs(seconds))
    }

    /// Where the daemon keeps identity and records.
    pub(crate) fn data_dir(&self) -> PathBuf {
        let own = || {
            let state = std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty());
            let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
            state.map(PathBuf::from).or_else(home).map(|state| state.join("mercato"))
        };
        let root = nix::unistd::geteuid().is_root();
        let default = if root { None } else { own() };
        let default = || default.unwrap_or_else(|| PathBuf::from(SYSTEM));
        self.data_dir.clone().unwrap_or_else(default)
    }

    /// The daemon that is asked: of this machine, or in a pod of a cluster.
    pub(crate) fn api(&self) -> Box<dyn OperatorApi> {
        let timeout = self.answer_timeout();
        match self.way() {
            Way::Socket(socket) => Box::new(admin::Client::new(socket, timeout)),
            Way::Cluster { place, instead_of } => {
                Box::new(desk::Client::new(place, instead_of, timeout))
            }
        }
    }

    /// Which daemon is asked. One that is named is asked, and no other; then the one of this
    /// machine, if it has a socket; then that of the cluster which kubectl would ask.
    pub(crate) fn way(&self) -> Way {
        self.way_where(self.socket().exists(), has_kubeconfig())
    }

    fn way_where(&self, has_socket: bool, has_kubeconfig: bool) -> Way {
        let place = Place { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        if place != Place::default() {
            return Way::Cluster { place, instead_of: None };
        }
        let socket = self.socket();
        let is_named = self.socket.is_some() || self.data_dir.is_some();
        if is_named || has_socket || !has_kubeconfig {
            return Way::Socket(socket);
        }
        Way::Cluster { place, instead_of: Some(socket) }
    }

    /// Where a daemon of this machine may listen: where one is named, there alone; otherwise one of
    /// the system as well as one of this user.
    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        let is_named = self.socket.is_some() || self.data_dir.is_some();
        let system = Path::new(SYSTEM).join("admin.sock");
        let system = Some(system).filter(|path| !is_named && *path != self.socket());
        [Some(self.socket()), system].into_iter().flatten().collect()
    }

    /// The path of the daemon's admin socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.data_dir().join("admin.sock"))
    }
}

/// The data folder of a daemon that is the system's.
const SYSTEM: &str = "/var/lib/mercato";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::args::{Cli, Command};
    use super::*;

    fn typed(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn who_is_named_is_asked_then_this_machine_then_the_cluster() {
        let way = |line: &str, has_socket, has_kubeconfig| {
            typed(line).global.way_where(has_socket, has_kubeconfig)
        };
        let socket = |path: &str| Way::Socket(path.into());
        let cluster = |file: Option<&str>, context: Option<&str>| Way::Cluster {
            place: Place { kubeconfig: file.map(Into::into), context: context.map(str::to_owned) },
            instead_of: None,
        };
        for has_socket in [false, true] {
            let named = way("mercato status --socket /a", has_socket, true);
            assert_eq!(named, socket("/a"));
            let named = way("mercato --data-dir /b status", has_socket, true);
            assert_eq!(named, socket("/b/admin.sock"));
            let rome = way("mercato status --context rome", has_socket, true);
            assert_eq!(rome, cluster(None, Some("rome")));
            let file = way("mercato --kubeconfig /k --context rome peers", has_socket, false);
            assert_eq!(file, cluster(Some("/k"), Some("rome")));
        }
        let usual = typed("mercato status").global.socket();
        let here = Way::Socket(usual.clone());
        assert_eq!(way("mercato status", true, true), here);
        assert_eq!(way("mercato status", false, false), here);
        let there = Way::Cluster { place: Place::default(), instead_of: Some(usual) };
        assert_eq!(way("mercato status", false, true), there);
        let both = Cli::try_parse_from(["mercato", "status", "--socket", "/a", "--context", "b"]);
        assert_eq!(both.unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_daemon_that_is_not_named_may_be_the_systems_or_the_users() {
        let sockets = |line: &str| typed(line).global.sockets();
        for named in ["mercato status --socket /a", "mercato --data-dir / status --socket /a"] {
            assert_eq!(sockets(named), [Path::new("/a")]);
        }
        assert_eq!(sockets("mercato --data-dir /b status"), [Path::new("/b/admin.sock")]);
        let all = sockets("mercato status");
        assert!(all.contains(&typed("mercato status").global.socket()), "{all:?}");
        assert!(all.contains(&Path::new(SYSTEM).join("admin.sock")), "{all:?}");
    }

    #[test]
    fn a_daemon_has_a_cluster_of_its_own() {
        for line in ["mercato run --kubeconfig /k", "mercato --kubeconfig /k run"] {
            let Command::Run(run) = typed(line).command else { panic!("another command") };
            assert!(format!("{run:?}").contains("kubeconfig: Some(\"/k\")"), "{run:?}");
        }
        let Command::Demo(demo) = typed("mercato demo --kubeconfig a --kubeconfig b").command
        else {
            panic!("another command")
        };
        assert!(format!("{demo:?}").contains("[\"a\", \"b\"]"), "{demo:?}");
    }
}
