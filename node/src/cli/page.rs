//! `mercato page`: shows the market and the leases in a browser on this machine.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use clap::Args;
use mercato_config::Seconds;
use tempfile::NamedTempFile;
use tokio::signal::unix::{SignalKind, signal};

use super::global::Global;
use super::screen::{Screen, print};
use crate::admin::{Class, Problem};
use crate::page::Page;
use crate::present::text::text;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato page --open
  mercato page --context rome --port 8088

It listens on this machine's loopback alone, asks the daemon by your rights, and changes
nothing. Whoever has the address sees what you see, until the program ends.")]
pub(crate) struct ShowPage {
    /// The port to listen at [default: one that is free]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// Show nothing more after so long without a look
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = text::<Seconds>)]
    idle: Seconds,
}

impl ShowPage {
    pub(crate) async fn perform(self, global: &Global, screen: &Screen) -> Result<String, Problem> {
        let Seconds(idle) = self.idle;
        let api = Arc::from(global.api());
        let page = Page::listen(api, self.port, std::time::Duration::from_secs(idle)).await;
        let page = page.map_err(|error| {
            Problem::failed(format!("port {} cannot be listened at: {error}", self.port))
                .todo("leave out --port to take one that is free")
        })?;
        let mut ended = Ended::new()?;
        print(&announced(&page, screen))?;
        if self.open {
            page.lead(open(&page.address())?);
        }
        tokio::select! {
            served = page.serve() => served.map(|()| String::new()).map_err(|error| {
                Problem::failed(format!("the page cannot be served any more: {error}"))
            }),
            () = ended.any() => Ok(String::new()),
        }
    }
}

/// Where the page is, and how to come there from another machine.
fn announced(page: &Page, screen: &Screen) -> String {
    let mut text = format!("{}\n", page.address());
    if std::env::var_os("SSH_CONNECTION").is_some() {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let (port, host) = (page.port(), name.trim());
        text += "this is another machine's terminal; on your own, first:\n";
        text += &format!("  ssh -N -L {port}:127.0.0.1:{port} {host}\n");
    }
    text + &screen.fold("whoever has this address sees what you see; to end: Ctrl-C", 2) + "\n"
}

/// Has a browser open the address. It is given the name of a file: arguments of programs can be read
/// by everybody on the machine.
fn open(address: &str) -> Result<NamedTempFile, Problem> {
    let failed = |error: &std::io::Error| {
        Problem::failed(format!("the page cannot be opened: {error}"))
            .todo("leave out --open, and open the address yourself")
    };
    let mut file = tempfile::Builder::new().prefix("mercato-page-").suffix(".html").tempfile();
    if let Ok(file) = &mut file {
        let text = format!(
            "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer>\
             <title>Mercato</title><meta http-equiv=refresh content=\"0;url={address}\">\n"
        );
        file.write_all(text.as_bytes()).map_err(|error| failed(&error))?;
    }
    let file = file.map_err(|error| failed(&error))?;
    start(opener(), file.path()).map_err(|error| failed(&error))?;
    Ok(file)
}

/// The program that opens a file as the person would.
fn opener() -> &'static str {
    if cfg!(target_os = "macos") { "open" } else { "xdg-open" }
}

fn start(program: &str, file: &Path) -> std::io::Result<()> {
    let mut command = Command::new(program);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// By which a person ends the program.
struct Ended([tokio::signal::unix::Signal; 2]);

impl Ended {
    fn new() -> Result<Self, Problem> {
        let of = |kind| {
            signal(kind).map_err(|error| {
                Problem::new(Class::Failed, "signals cannot be caught").because(&error)
            })
        };
        Ok(Self([of(SignalKind::interrupt())?, of(SignalKind::terminate())?]))
    }

    async fn any(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
    }
}
