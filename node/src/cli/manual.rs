//! `mercato manual`: the manual page of the program or of one command, for packages.

use clap::Args;
use clap_mangen::Man;

use super::args;
use crate::admin::{Class, Problem};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato manual > mercato.1
  mercato manual contracts extend | man --local-file -

The pages are made of what --help says.")]
pub(crate) struct Manual {
    /// The command whose page it is; none: the program
    #[arg(value_name = "COMMAND")]
    path: Vec<String>,
}

impl Manual {
    pub(crate) fn perform(&self) -> Result<String, Problem> {
        let mut command = args::command();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str) -> Result<String, Problem> {
        Manual { path: path.split_whitespace().map(str::to_owned).collect() }.perform()
    }

    #[test]
    fn each_command_has_a_page_of_its_own_name() {
        fn all(command: &clap::Command, path: &str) {
            let said = page(path).unwrap();
            let name = format!("mercato {path}").trim().replace(' ', "\\-");
            assert!(said.contains(&format!(".TH {} 1", name.replace('\\', ""))), "{path}: {said}");
            assert!(said.contains("Examples") || path.contains("help"), "{path}");
            for command in command.get_subcommands().filter(|each| each.get_name() != "help") {
                all(command, format!("{path} {}", command.get_name()).trim());
            }
        }
        all(&args::command(), "");
        assert_eq!(page("contracts extent").unwrap_err().class, Class::Usage);
    }
}
