//! Long work, step by step: on a terminal the current step spins, in a pipe each is a
//! line. Goes to standard error.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use mercato_protocol::text::shown;

use crate::present::style::Style;

/// Steps of one piece of work.
pub(crate) struct Progress {
    begun: Instant,
    bar: Option<ProgressBar>,
    /// The current step, and since when.
    current: Option<(String, Instant)>,
    style: Style,
}

impl Progress {
    pub(crate) fn start(style: Style) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Self { begun: Instant::now(), bar, current: None, style }
    }

    /// The last step is done, this one begins.
    pub(crate) fn step(&mut self, text: &str) {
        let text = shown(text).into_owned();
        self.finish();
        match &self.bar {
            Some(bar) => {
                bar.reset_elapsed();
                bar.set_message(text.clone());
            }
            None => eprintln!("{:>6}  {text}", seconds(self.begun.elapsed())),
        }
        self.current = Some((text, Instant::now()));
    }

    /// Ends the display: all is done.
    pub(crate) fn done(mut self, text: &str) {
        self.finish();
        let line = format!("{:>6}  {}", seconds(self.begun.elapsed()), shown(text));
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        eprintln!("{line}");
    }

    fn finish(&mut self) {
        let Some((text, since)) = self.current.take() else { return };
        if let Some(bar) = &self.bar {
            let done = self.style.good("done");
            let took = seconds(since.elapsed());
            bar.suspend(|| eprintln!("{took:>6}  {done}  {text}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
}
