//! Where results, questions and errors go: results to standard output in the form that was
//! asked for, the rest to standard error.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use mercato_broker::Unknown;
use mercato_protocol::text::{is_plain, shown, shown_lines};
use serde::Serialize;

use super::global::{Format, Global};
use super::table::folded;
use crate::admin::{Class, Problem};
use crate::present::style::Style;

/// The terminal, the pipe, or the file that is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) format: Format,
    pub(crate) style: Style,
    yes: bool,
    verbose: bool,
    /// Whether sentences are broken to fit; in a pipe they stay in a line, for other programs.
    folds: bool,
}

/// Whether a person reads along: on a terminal, or where the shell says how wide it is.
pub(super) fn folds() -> bool {
    let terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
    terminal || std::env::var_os("COLUMNS").is_some_and(|columns| !columns.is_empty())
}

impl Screen {
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            format: global.output,
            style: Style::detect(global.no_color),
            yes: global.yes,
            verbose: global.verbose,
            folds: folds(),
        }
    }

    /// Sentences as they are shown: what follows the first line of one is indented.
    pub(crate) fn fold(&self, sentences: &str, indent: usize) -> String {
        if self.folds { folded(sentences, indent) } else { sentences.to_owned() }
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    /// The text for a value, as a whole or as a table of what matters most.
    pub(crate) fn render<T: Serialize>(
        &self,
        value: &T,
        table: impl FnOnce() -> String,
    ) -> Result<String, Problem> {
        let odd = |error: &dyn std::error::Error| {
            Problem::failed("the answer cannot be written in this form").because(error)
        };
        let only =
            |what| Problem::new(Class::Usage, what).todo("json and yaml say everything: -o json");
        match self.format {
            Format::Table | Format::Wide => Ok(table()),
            Format::Json => json(value, true).map_err(|error| odd(&error)),
            Format::Yaml => {
                let yaml = serde_saphyr::to_string(value).map_err(|error| odd(&error))?;
                let seen = yaml.chars().all(|c| c == '\n' || is_plain(c));
                // JSON is YAML, and can write each character escaped.
                if seen { Ok(yaml) } else { json(value, true).map_err(|error| odd(&error)) }
            }
            Format::Csv => Err(only("only offers and statements are written as csv")),
            Format::Name => Err(only("only offers are written by name")),
        }
    }

    /// A sentence about what was done; nothing for programs, which have the exit code.
    pub(crate) fn done(&self, sentence: impl Into<String>) -> String {
        match self.format {
            Format::Table | Format::Wide => self.fold(&shown_lines(&sentence.into()), 2) + "\n",
            Format::Json | Format::Yaml | Format::Csv | Format::Name => String::new(),
        }
    }

    /// A word to the person, beside the result.
    pub(crate) fn note(&self, sentence: impl Into<String>) {
        eprint!("{}", self.done(sentence));
    }

    /// What may be a slip, beside the result; programs find it in there.
    pub(crate) fn warn(&self, unknown: &[Unknown]) {
        unknown.iter().for_each(|name| self.note(format!("warning: {name}")));
    }

    /// Asks on the terminal, after what is said first.
    pub(crate) fn confirm(&self, said: &str, question: &str) -> Result<(), Problem> {
        if self.yes {
            eprintln!("{}", self.fold(&shown_lines(said), 2));
        }
        self.ask(said, question)
    }

    /// The same, but says nothing to whom it does not ask.
    pub(crate) fn ask(&self, said: &str, question: &str) -> Result<(), Problem> {
        if self.yes {
            return Ok(());
        }
        eprintln!("{}", self.fold(&shown_lines(said), 2));
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(Problem::new(Class::Usage, "nothing was done: this is not a terminal")
                .todo("to confirm without a question: add --yes"));
        }
        eprint!("{} [y/N] ", shown(question));
        let mut line = String::new();
        // Who cannot be heard has not agreed.
        let _ = io::stdin().lock().read_line(&mut line);
        match line.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Problem::failed("nothing was done")),
        }
    }

    /// Prints what went wrong, and what to do.
    pub(crate) fn complain(&self, problem: &Problem) {
        let text = self.fold(&format!("error: {problem}"), 4);
        eprintln!("{}", text.replacen("error:", &self.style.bad("error:").to_string(), 1));
        if self.verbose {
            problem.causes.iter().for_each(|cause| eprintln!("  because: {}", shown_lines(cause)));
        }
    }
}

/// A line, or several for people. What is not seen stands there escaped: the same to a program.
pub(super) fn json(value: &impl Serialize, pretty: bool) -> serde_json::Result<String> {
    let to_text = if pretty { serde_json::to_string_pretty } else { serde_json::to_string };
    let mut json = String::new();
    for c in to_text(value)?.chars() {
        if c == '\n' || is_plain(c) {
            json.push(c);
        } else {
            let mut units = [0; 2];
            json.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    json.push('\n');
    Ok(json)
}

/// Writes to standard output. A reader that has gone wants no more.
pub(crate) fn print(text: &str) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Problem::failed(format!("standard output cannot be written: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
