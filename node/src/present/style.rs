//! Colour, which never carries a meaning alone.

use std::io::IsTerminal as _;

/// Whether text is printed with colour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// Colour on a terminal, unless it is unwanted (<https://no-color.org>).
    pub(crate) fn detect(no_color: bool) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { colour: !no_color && !unwanted && !dumb && std::io::stdout().is_terminal() }
    }

    /// Whether there is any colour.
    pub(crate) fn is_on(self) -> bool {
        self.colour
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
