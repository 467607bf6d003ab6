//! What happened lately, for `mercato events`: a journal of bounded length in the data
//! folder, which the next start goes on with.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;
use tokio::task::AbortHandle;

use crate::admin::{Event, EventKind};
use crate::driver::clock::wall_ms;
use crate::limits;
use crate::store::file;

const FILE: &str = "events.jsonl";

/// The latest events, numbered; takes more for as long as it lives.
pub(in crate::driver) struct Events {
    journal: Arc<Mutex<Journal>>,
    following: AbortHandle,
}

impl Events {
    pub(in crate::driver) fn follow(dir: &Path, mut told: broadcast::Receiver<Event>) -> Self {
        let journal = Arc::new(Mutex::new(Journal::open(dir.join(FILE))));
        let keep = journal.clone();
        let following = tokio::spawn(async move {
            loop {
                let event = match told.recv().await {
                    Ok(event) => event,
                    Err(broadcast::error::RecvError::Lagged(n)) => {
                        Event::of(EventKind::EventsLost, format!("{n} more happened"))
                    }
                    Err(broadcast::error::RecvError::Closed) => return,
                };
                keep.lock().unwrap_or_else(PoisonError::into_inner).add(event);
            }
        });
        Self { journal, following: following.abort_handle() }
    }

    pub(in crate::driver) fn after(&self, number: u64) -> Vec<Event> {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.kept.iter().filter(|event| event.number > number).cloned().collect()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// Events, and the file with them. What cannot be written is remembered all the same, until
/// the daemon ends.
struct Journal {
    path: PathBuf,
    kept: VecDeque<Event>,
    /// Lines in the file, and the file; none: it is to be written anew.
    file: Option<(usize, File)>,
}

impl Journal {
    fn open(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap_or_default();
        // A line that a death cut short is none.
        let events = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let mut kept: VecDeque<Event> = events.collect();
        kept.drain(..kept.len().saturating_sub(limits::EVENTS));
        Self { path, kept, file: None }
    }

    fn add(&mut self, event: Event) {
        let number = self.kept.back().map_or(0, |event| event.number) + 1;
        self.kept.push_back(Event { number, at_ms: wall_ms(), ..event });
        if self.kept.len() > limits::EVENTS {
            self.kept.pop_front();
        }
        if let Err(error) = self.write() {
            tracing::debug!(path = %self.path.display(), %error, "an event is not written");
            self.file = None;
        }
    }

    /// Adds the last event to the file, which is written anew once it is twice as long as
    /// what is kept.
    fn write(&mut self) -> io::Result<()> {
        if let Some((lines, file)) = &mut self.file
            && *lines < 2 * limits::EVENTS
            && let Some(event) = self.kept.back()
        {
            *lines += 1;
            return file.write_all(line(event).as_bytes());
        }
        let all: String = self.kept.iter().map(line).collect();
        file::replace(&self.path, all.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&self.path)?;
        self.file = Some((self.kept.len(), file));
        Ok(())
    }
}

fn line(event: &Event) -> String {
    serde_json::to_string(event).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(n: usize) -> Event {
        Event::of(EventKind::DaemonStarted, format!("event {n}"))
    }

    fn numbers(journal: &Journal) -> (usize, u64, u64) {
        let number = |event: Option<&Event>| event.map_or(0, |event| event.number);
        (journal.kept.len(), number(journal.kept.front()), number(journal.kept.back()))
    }

    #[test]
    fn the_journal_goes_on_after_a_restart_and_stays_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let mut journal = Journal::open(path.clone());
        (0..5).for_each(|n| journal.add(started(n)));
        // A death in mid-line.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"num").unwrap();
        let mut journal = Journal::open(path.clone());
        assert_eq!(numbers(&journal), (5, 1, 5));
        let most = limits::EVENTS;
        (0..3 * most).for_each(|n| journal.add(started(n)));
        let last = 5 + 3 * most as u64;
        assert_eq!(numbers(&journal), (most, last - most as u64 + 1, last));
        assert_eq!(numbers(&Journal::open(path.clone())), numbers(&journal));
        assert!(fs::read_to_string(&path).unwrap().lines().count() <= 2 * most);
    }

    #[test]
    fn what_cannot_be_written_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        let mut journal = Journal::open(gone.join(FILE));
        journal.add(started(1));
        assert_eq!(numbers(&journal), (1, 1, 1));
        fs::create_dir(&gone).unwrap();
        journal.add(started(2));
        assert_eq!(numbers(&Journal::open(gone.join(FILE))), (2, 1, 2));
    }
}
