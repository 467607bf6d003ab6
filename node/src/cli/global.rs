//! What every command understands, and what time it is.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use mercato_config::Seconds;

use crate::present::text::text;

/// The options that every command understands.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Where the daemon keeps identity and records [default: /var/lib/mercato as root,
    /// otherwise $XDG_STATE_HOME/mercato]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The daemon's admin socket [default: admin.sock in the data folder]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
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
        let default = || default.unwrap_or_else(|| PathBuf::from("/var/lib/mercato"));
        self.data_dir.clone().unwrap_or_else(default)
    }

    /// The path of the daemon's admin socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.data_dir().join("admin.sock"))
    }
}

/// The wall clock, in milliseconds since 1970-01-01 UTC.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
