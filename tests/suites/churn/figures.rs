//! What a daemon has begun and not ended, as its metrics say.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::Daemon;

/// What one scrape says.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) tasks: u64,
    pub(crate) watches: u64,
    pub(crate) descriptors: u64,
    pub(crate) guest_namespaces: u64,
    /// Records by kind.
    pub(crate) records: BTreeMap<String, u64>,
    /// Answers that somebody waits for.
    pub(crate) waiting: u64,
    /// Work and messages in queues.
    pub(crate) queued: u64,
    pub(crate) rss_mib: u64,
    /// Requests to the API server until now, and those of them that were forbidden.
    pub(crate) requests: (u64, u64),
}

impl Figures {
    pub(crate) async fn of(daemon: &Daemon<'_>) -> Result<Self> {
        let get = ["wget", "-q", "-O", "-", "http://127.0.0.1:7476/metrics"];
        let text = daemon.cluster.run(Path::new("/bin/busybox"), &get, "").await?.ok()?;
        let requests = |code: &str| {
            let counted = samples(&text, "mercato_kubernetes_requests_total");
            counted.filter(|(labels, _)| labels.contains(code)).map(|(_, value)| value).sum()
        };
        let records = samples(&text, "mercato_store_records");
        Ok(Self {
            tasks: sum(&text, "mercato_tasks")?,
            watches: sum(&text, "mercato_kubernetes_watches")?,
            descriptors: sum(&text, "process_open_fds")?,
            guest_namespaces: sum(&text, "mercato_guest_namespaces")?,
            records: records.map(|(kind, number)| (kind.to_owned(), number)).collect(),
            waiting: sum(&text, "mercato_waiting")?,
            queued: sum(&text, "mercato_queue_depth")?,
            rss_mib: sum(&text, "process_resident_memory_bytes")? >> 20,
            requests: (requests(""), requests("code=\"403\"")),
        })
    }

    /// Whether all that was begun since `before` has ended, and so many leases with it: of each
    /// the contract is kept for its statement, and at the provider the number by which home can
    /// ask what became of it. A connection that is kept for the next request has a descriptor and
    /// a task or two.
    pub(crate) fn are_as(&self, before: &Self, ended: u64) -> Result<()> {
        ensure!(self.guest_namespaces == 0, "guest namespaces: {}", self.guest_namespaces);
        ensure!(self.watches <= before.watches, "watches: {} > {}", self.watches, before.watches);
        ensure!(self.tasks <= before.tasks + KEPT, "tasks: {} > {}", self.tasks, before.tasks);
        let (now, then) = (self.descriptors, before.descriptors);
        ensure!(now <= then + KEPT, "descriptors: {now} > {then}");
        ensure!((self.waiting, self.queued) == (0, 0), "what waits: {self:?}");
        for (kind, number) in &self.records {
            let then = before.records.get(kind).copied().unwrap_or(0);
            let kept = if LASTING.iter().any(|it| kind.contains(it)) { ended } else { 0 };
            ensure!(*number <= then + kept + RECORDS, "records {kind}: {number} > {then}");
        }
        let (now, then) = (self.rss_mib, before.rss_mib);
        ensure!(now <= then + RSS_MIB, "memory: {now} MiB > {then} MiB");
        Ok(())
    }
}

/// Connections that are kept open: to the API server, and from it to webhook and kubelet API.
const KEPT: u64 = 8;
/// One of a kind may be made once for a lease: the names of its guest namespaces, a receipt.
const RECORDS: u64 = 2;
/// The kinds of which one is kept of a lease that is over.
const LASTING: [&str; 2] = ["broker", "guest"];
/// What an allocator keeps of what was freed. A debug build with all its tables; a guess.
const RSS_MIB: u64 = 48;

/// The samples of a metric: labels and value.
fn samples<'a>(text: &'a str, metric: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(metric)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        let of_it = labels.is_empty() || labels.starts_with('{');
        of_it.then(|| Some((labels, value.parse().ok()?))).flatten()
    })
}

fn sum(text: &str, metric: &str) -> Result<u64> {
    let mut all = samples(text, metric).peekable();
    all.peek().with_context(|| format!("no {metric}"))?;
    Ok(all.map(|(_, value)| value).sum())
}
