//! How metrics are told apart, and how they are registered.

use mercato_protocol::envelope::EnvelopeError;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

/// Which way something goes, seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a peer to us.
    In,
    /// From us to a peer.
    Out,
}

/// The queues of the daemon that can overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// What waits for the agent; whoever brings more waits.
    Inputs,
    /// What the cluster is to do for leases.
    LeaseWork,
    /// Workload frames to slow peers.
    Frames,
    /// Messages of peers that have not said who they are.
    Early,
}

impl Queue {
    /// The name of the queue in a label.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Inputs => "inputs",
            Self::LeaseWork => "lease_work",
            Self::Frames => "frames",
            Self::Early => "early",
        }
    }
}

pub(super) type Labels<const N: usize> = [(&'static str, String); N];
pub(super) type Counters<const N: usize> = Family<Labels<N>, Counter>;
pub(super) type Gauges<const N: usize> = Family<Labels<N>, Gauge>;

/// Why a publication was not taken in, in a label.
pub(super) fn reason(error: &EnvelopeError) -> &'static str {
    match error {
        EnvelopeError::Codec(_) | EnvelopeError::Header => "malformed",
        EnvelopeError::Signature => "signature",
        EnvelopeError::UnknownSigner(_) | EnvelopeError::WrongSigner(_) => "signer",
        EnvelopeError::NotYetValid => "not_yet_valid",
        EnvelopeError::Expired => "expired",
        EnvelopeError::NotFirst | EnvelopeError::NotNext => "identity",
        EnvelopeError::NotCountersigned => "not_countersigned",
        EnvelopeError::NoEquivocation => "no_equivocation",
    }
}

/// Registers a metric, and returns it.
pub(super) fn add<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// The value as it stands in a label.
pub(super) fn name(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}
