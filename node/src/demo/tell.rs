//! How the story is told: with a spinner on a terminal, in plain lines in a pipe, or as
//! one document.

use std::future::Future;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::present::style::Style;

/// The form in which the story is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// Lines of text for people.
    Text {
        /// Whether the current step has a spinner.
        spins: bool,
        style: Style,
    },
    /// One JSON document at the end.
    Json,
}

/// The column at which the times stand.
const TITLE_WIDTH: usize = 66;

/// What a step of the story comes to: a value, and the lines that are told of it.
pub(super) type Told<T> = anyhow::Result<(T, Vec<String>)>;

pub(super) struct Tell {
    form: Form,
    clusters: &'static str,
    started: Instant,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Step {
    step: String,
    ms: u128,
    details: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Tell {
    pub(super) fn new(form: Form, clusters: &'static str) -> Self {
        Self { form, clusters, started: Instant::now(), steps: Vec::new() }
    }

    pub(super) fn title(&self, text: &str) {
        self.say(&format!("{text}\n"));
    }

    /// One step of the story: its time, and what came of it.
    pub(super) async fn step<T>(
        &mut self,
        title: &str,
        act: impl Future<Output = Told<T>>,
    ) -> anyhow::Result<T> {
        let began = Instant::now();
        let spinner = self.spinner(title);
        let done = act.await;
        spinner.finish_and_clear();
        let took = began.elapsed();
        let (details, error) = match &done {
            Ok((_, details)) => (details.clone(), None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        self.told(title, took, &details, error.is_none());
        self.steps.push(Step { step: title.to_owned(), ms: took.as_millis(), details, error });
        done.map(|(value, _)| value)
    }

    fn spinner(&self, title: &str) -> ProgressBar {
        match self.form {
            Form::Text { spins: true, .. } => {
                let style = ProgressStyle::with_template(" {spinner} {msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner());
                let bar =
                    ProgressBar::new_spinner().with_style(style).with_message(title.to_owned());
                bar.enable_steady_tick(Duration::from_millis(80));
                bar
            }
            Form::Text { .. } | Form::Json => {
                ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
            }
        }
    }

    fn told(&self, title: &str, took: Duration, details: &[String], good: bool) {
        let Form::Text { style, .. } = self.form else { return };
        let mark = if good { style.good("✓") } else { style.bad("✗") };
        let time = style.faint(&format!("{:>6.2}s", took.as_secs_f64()));
        self.say(&format!(" {mark} {title:<TITLE_WIDTH$} {time}"));
        for line in details {
            self.say(&style.faint(&format!("   {line:.77}")));
        }
    }

    /// The daemons of these data folders stay until Ctrl-C, to be looked at.
    pub(super) fn keep(&self, data_dirs: [String; 2]) {
        self.say("\n The daemons stay until Ctrl-C. In another terminal:");
        for data_dir in data_dirs {
            self.say(&format!("   mercato --data-dir {data_dir} status"));
        }
        self.say("");
    }

    pub(super) fn end(&self) {
        let ms = self.started.elapsed().as_millis();
        match self.form {
            Form::Text { .. } => self.say(&format!("\n {:.1}s in all", ms as f64 / 1_000.0)),
            Form::Json => {
                let story = serde_json::json!({
                    "clusters": self.clusters, "steps": self.steps, "totalMs": ms });
                write_line(&story.to_string());
            }
        }
    }

    fn say(&self, line: &str) {
        if let Form::Text { .. } = self.form {
            write_line(line);
        }
    }
}

/// A reader that has gone wants to hear no more.
fn write_line(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
