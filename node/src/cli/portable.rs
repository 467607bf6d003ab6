//! `mercato export` and `import`: the whole state as a file.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;

use super::global::{Global, Way};
use super::screen::Screen;
use crate::admin::{Class, Client, OperatorApi, Problem, unexpected};
use crate::daemon::portable::{self, State};
use crate::store::file;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato export /srv/mercato-2026-11-20.state
  mercato export --data-dir /srv/mercato backup.state

The file holds the cluster's key, and only its user can read it. A running daemon
goes on; without one, the data folder is read.")]
pub(crate) struct Export {
    /// The file to write; it must not exist
    file: PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato import /srv/mercato-2026-11-20.state
  mercato import --data-dir /srv/mercato backup.state

The data folder must be empty or absent. Stop the daemon that the file came from
first: others take two daemons with one key for a fraud.")]
pub(crate) struct Import {
    /// The file that mercato export wrote
    file: PathBuf,
}

impl Export {
    pub(crate) async fn perform(self, global: &Global, screen: &Screen) -> Result<String, Problem> {
        let api = asked(global);
        let bytes = match api.export().await {
            Ok(text) => BASE64.decode(text).map(Into::into).map_err(|error| unexpected(&error))?,
            Err(problem) if problem.class == Class::Unreachable && is_here(global) => {
                State::read(&global.data_dir())
                    .map_err(failed("nothing is exported", WHERE))?
                    .to_bytes()
            }
            Err(problem) => return Err(problem),
        };
        file::create(&self.file, &bytes).map_err(|error| {
            let file = show(&self.file);
            let is_there = error.kind() == std::io::ErrorKind::AlreadyExists;
            let problem = match is_there {
                true => Problem::failed(format!("{file} is there already, and stays as it is"))
                    .todo("choose another name"),
                false => Problem::failed(format!("{file} cannot be written: {error}"))
                    .todo("choose a folder that exists, can be written, and has room"),
            };
            problem.because(&error)
        })?;
        let kib = bytes.len().div_ceil(1_024);
        Ok(screen.done(format!("{}: {kib} KiB; it contains your key", show(&self.file))))
    }
}

/// A data folder of this machine without a daemon is exported, and not what another cluster's daemon
/// has.
fn asked(global: &Global) -> Box<dyn OperatorApi> {
    match is_here(global) {
        true => Box::new(Client::new(global.socket(), global.answer_timeout())),
        false => global.api(),
    }
}

/// No other daemon was named than one of this machine, of which there is at least a folder.
fn is_here(global: &Global) -> bool {
    match global.way() {
        Way::Socket(_) => global.socket.is_none(),
        Way::Cluster { instead_of, .. } => instead_of.is_some() && global.data_dir().exists(),
    }
}

impl Import {
    pub(crate) fn perform(self, global: &Global, screen: &Screen) -> Result<String, Problem> {
        let file = show(&self.file);
        let unreadable = |error: std::io::Error| {
            Problem::failed(format!("{file} cannot be read: {error}")).todo(GIVE).because(&error)
        };
        let bytes = portable::read_file(&self.file).map_err(unreadable)?;
        let state =
            State::from_bytes(&bytes).map_err(failed(&format!("{file} is not imported"), GIVE))?;
        let data_dir = global.data_dir();
        let room = "give a folder that is empty or absent, and has room: --data-dir DIR";
        state.plant(&data_dir).map_err(failed("nothing is imported", room))?;
        let sentence =
            format!("imported to {}; now start the daemon: mercato run", show(&data_dir));
        Ok(screen.done(sentence))
    }
}

/// What to do where a file cannot be imported.
const GIVE: &str = "give the file that mercato export has written";
/// What to do where there is no state to export.
const WHERE: &str = "say where the daemon keeps its data: --data-dir DIR";

fn show(path: &Path) -> String {
    path.display().to_string()
}

fn failed(what: &str, todo: &str) -> impl Fn(anyhow::Error) -> Problem {
    move |error| match error.downcast::<Problem>() {
        // It knows better what to do.
        Ok(problem) => Problem { what: format!("{what}: {}", problem.what), ..problem },
        Err(error) => {
            let causes = error.chain().map(ToString::to_string).collect();
            Problem { causes, ..Problem::failed(format!("{what}: {error:#}")).todo(todo) }
        }
    }
}
