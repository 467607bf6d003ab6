//! What an operator watches: metrics, whether the daemon is well, and whose a line of the log is.
//!
//! Counters and histograms are counted where things happen, by way of [`Metrics`]; gauges
//! are looked up when they are asked for, in `scrape`. `health` decides what is well,
//! `server` answers over HTTP. docs/operations.md has the list, checked by a test.

mod counted;
mod health;
mod labels;
mod process;
mod requests;
mod scrape;
mod server;
pub(crate) mod spans;
#[cfg(test)]
mod tests;
mod tunnels;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mercato_protocol::envelope::EnvelopeError;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use labels::{Counters, Gauges, Labels, add, name, reason};

pub(crate) use counted::Counted;
pub(crate) use labels::{Queue, Way};
pub(crate) use requests::Requests;
pub(crate) use server::{At, Server};

/// What is counted. Clones are the same.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    /// Held while they are set and read.
    gauges: Mutex<scrape::Gauges>,
    handle: Histogram,
    commit: Histogram,
    commits: Counters<1>,
    requests: Counters<2>,
    messages: Counters<2>,
    bytes: Counters<2>,
    drops: Counters<1>,
    refused: Counters<1>,
    streams: Counters<2>,
    streams_open: Gauges<1>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let process = process::Process::register(&mut registry);
        let all = registry.sub_registry_with_prefix("mercato");
        let gauges = Mutex::new(scrape::Gauges::register(all, process));
        let handle = Histogram::new(exponential_buckets(0.000_01, 4.0, 9));
        let handle =
            add(all, "agent_handle_seconds", "Time for the agent to take in an input", handle);
        let commit = Histogram::new(exponential_buckets(0.000_5, 2.0, 14));
        let commit = add(all, "store_commit_seconds", "Time for a write of records", commit);
        let commits = add(all, "store_commits", "Writes of records by result", Counters::default());
        let requests = "Requests to the API server by verb and HTTP status, code none: no answer";
        let requests = add(all, "kubernetes_requests", requests, Counters::default());
        let messages = "Messages between peers by kind and direction";
        let messages = add(all, "peer_messages", messages, Counters::default());
        let bytes = "Their bytes, and those of kubelet streams";
        let bytes = add(all, "peer_bytes", bytes, Counters::default());
        let drops = add(all, "dropped", "Lost to a full queue, by queue", Counters::default());
        let refused = "Publications of peers that are not valid, by reason";
        let refused = add(all, "publications_refused", refused, Counters::default());
        let streams = "Logs, exec and the like asked of a peer (out) or for one (in), by result";
        let streams = add(all, "kubelet_streams", streams, Counters::default());
        let streams_open =
            add(all, "kubelet_streams_open", "Those that are open", Gauges::default());
        Self(Arc::new(Inner {
            registry,
            gauges,
            handle,
            commit,
            commits,
            requests,
            messages,
            bytes,
            drops,
            refused,
            streams,
            streams_open,
        }))
    }

    /// The agent took so long for one input.
    pub(crate) fn handled(&self, took: Duration) {
        self.0.handle.observe(took.as_secs_f64());
    }

    /// Records were written, or not.
    pub(crate) fn committed(&self, done: bool, took: Duration) {
        self.0.commit.observe(took.as_secs_f64());
        let result = if done { "ok" } else { "failed" };
        self.0.commits.get_or_create(&[("result", result.to_owned())]).inc();
    }

    /// The API server answered, or did not.
    fn requested(&self, verb: &str, code: String) {
        self.0.requests.get_or_create(&[("verb", verb.to_owned()), ("code", code)]).inc();
    }

    /// A message came from a peer, or went to one.
    pub(crate) fn message(&self, way: Way, kind: &'static str, bytes: usize) {
        self.0.messages.get_or_create(&kinds(way, kind)).inc();
        self.bytes(way, kind, bytes);
    }

    fn bytes(&self, way: Way, kind: &'static str, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.0.bytes.get_or_create(&kinds(way, kind)).inc_by(bytes);
    }

    /// A queue was full, and something is lost.
    pub(crate) fn dropped(&self, queue: Queue) {
        self.0.drops.get_or_create(&[("queue", queue.name().to_owned())]).inc();
    }

    /// A peer brought a publication that is not valid.
    pub(crate) fn refused(&self, error: &EnvelopeError) {
        self.0.refused.get_or_create(&[("reason", reason(error).to_owned())]).inc();
    }

    /// Somebody asked for logs, a shell or its like: of a peer (out), or for one (in).
    pub(crate) fn stream(&self, way: Way, opened: bool) {
        let result = if opened { "opened" } else { "refused" };
        let labels = [("direction", name(way)), ("result", result.to_owned())];
        self.0.streams.get_or_create(&labels).inc();
    }

    /// All of it, in the OpenMetrics text form.
    fn text(&self, facts: &scrape::Facts, others: &scrape::Others) -> Result<String, fmt::Error> {
        let mut gauges = self.0.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.set(facts, others);
        let mut text = String::new();
        encode(&mut text, &self.0.registry)?;
        Ok(text)
    }
}

fn kinds(way: Way, kind: &'static str) -> Labels<2> {
    [("kind", kind.to_owned()), ("direction", name(way))]
}
