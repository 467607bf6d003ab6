//! `mercato gateway`: what the tunnel's gateway has set up on this machine.

use clap::Subcommand;
use mercato_host::HostError;
use mercato_machine::Marks;

use super::screen::Screen;
use crate::admin::Problem;

/// What can be done about it, with the daemon or without.
#[derive(Debug, Subcommand)]
pub(crate) enum Gateway {
    /// Remove what a killed daemon, or mercato node, has left of the tunnel: routes,
    /// rules, packet filter, and the device to other nodes
    #[command(after_help = "Examples:
  mercato gateway clean
  mercato gateway clean -o json

A daemon with a gateway does the same as it starts, unless a contract needs it.
One that runs and has a contract sets all of it up again within seconds, and so
does mercato node: on the other nodes, end that first.")]
    Clean,
}

impl Gateway {
    pub(crate) fn perform(&self, screen: &Screen) -> Result<String, Problem> {
        match self {
            Self::Clean => clean(&Marks::default()).map(|done| screen.done(done)),
        }
    }
}

fn clean(marks: &Marks) -> Result<&'static str, Problem> {
    let failed = |error: HostError| {
        Problem::failed(format!("what the tunnel has set up cannot be removed: {error}"))
            .todo("run it as root, or with CAP_NET_ADMIN")
            .because(&error)
    };
    let found = mercato_host::read(marks).map_err(failed)?;
    let steps = mercato_machine::clean_plan(&found, marks);
    if steps.is_empty() {
        return Ok("nothing of the tunnel is set up on this machine");
    }
    mercato_host::apply(&steps).map_err(failed)?;
    Ok("removed what the tunnel had set up on this machine")
}
