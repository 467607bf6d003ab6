//! `mercato manual`: the manual page of the program or of one command, for packages.

use clap::Args;
use clap_mangen::Man;

use crate::admin::{Class, Problem};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato manual > mercato.1
  mercato manual contracts extend | man --local-file -

The pages are made of what --help says.")]
pub(crate) struct Manual {
    /// The command whose page it is; none: the program
    #[arg(value_name = "COMMAND")]
    pub(super) path: Vec<String>,
}

impl Manual {
    /// Of the program with these commands.
    pub(crate) fn perform(&self, mut command: clap::Command) -> Result<String, Problem> {
        // Each command is called by its whole path from here on.
        command.build();
        let mut found = &command;
        for word in &self.path {
            found = found.find_subcommand(word).ok_or_else(|| {
                Problem::new(Class::Usage, format!("there is no command {}", self.path.join(" ")))
                    .todo("see which there are: mercato --help")
            })?;
        }
        let mut page = Vec::new();
        let unwritten =
            |error: std::io::Error| Problem::failed("the page cannot be made").because(&error);
        Man::new(found.clone()).render(&mut page).map_err(unwritten)?;
        Ok(String::from_utf8_lossy(&page).into_owned())
    }
}
