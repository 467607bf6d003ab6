//! A network namespace of one thread: whatever is done in it is done there. It has no name, so
//! that it ends with its last thread and socket, however the process ends.

use std::process::Command;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Pid, gettid};

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace, and the thread that lives in it.
pub(super) struct Namespace {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    id: Pid,
}

impl Namespace {
    /// Makes an empty network namespace.
    pub(super) fn new() -> Result<Self> {
        let (jobs, taken) = sync_channel::<Job>(1);
        let (tell, told) = sync_channel(1);
        let thread = std::thread::Builder::new().name("namespace".to_owned()).spawn(move || {
            let made = unshare(CloneFlags::CLONE_NEWNET).map(|()| gettid());
            // Whoever asked waits for it.
            let _ = tell.send(made);
            taken.iter().for_each(|job| job());
        })?;
        let id = told.recv().map_err(|_| anyhow!("the thread of a namespace ended"))?;
        let id = id.context("cannot make a network namespace: this needs CAP_SYS_ADMIN (root)")?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), id })
    }

    /// By which `ip link set ... netns` knows it.
    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Does something in it, and waits for that. Threads that it starts are in it, too.
    pub(super) fn within<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (tell, told) = sync_channel(1);
        let job: Job = Box::new(move || drop(tell.send(job())));
        let jobs = self.jobs.as_ref().context("the namespace is closed")?;
        jobs.send(job).map_err(|_| anyhow!("the thread of a namespace ended"))?;
        told.recv().map_err(|_| anyhow!("a thread in a namespace panicked"))
    }

    /// Runs the program `ip` in it.
    pub(super) fn ip(&self, arguments: &str) -> Result<()> {
        let words: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        self.run("ip", words)
    }

    /// Runs a program in it.
    pub(super) fn run(&self, program: &'static str, words: Vec<String>) -> Result<()> {
        let shown = format!("{program} {}", words.join(" "));
        let output = self.within(move || Command::new(program).args(&words).output())?;
        let output = output.with_context(|| format!("cannot run {program}: is it installed?"))?;
        let why = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{shown}: {}", why.trim());
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // It panicked: that was said already.
            let _ = thread.join();
        }
    }
}
