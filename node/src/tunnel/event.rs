//! What happens to the task that keeps the tunnels.

use futures::StreamExt as _;
use futures::stream::BoxStream;
use mercato_offload::placement::export::Consent;
use mercato_protocol::id::ClusterId;
use mercato_tunnel::LinkEvent;
use tokio::sync::mpsc;

use super::exchange::said;
use crate::kubernetes::{ClusterNetwork, NodeMachine, PodPlace};

/// What happens to the task, besides what the driver says.
pub(super) enum Event {
    /// What came of a question to a peer.
    Answered {
        cluster: ClusterId,
        number: u64,
        answer: Outcome,
    },
    Link(LinkEvent),
    Pods(Vec<PodPlace>),
    Machines(Vec<NodeMachine>),
    /// The owners of this cluster's namespaces have opened so much.
    Consent(Consent),
    /// Another guest of this node is closed, or one no more.
    Guests,
    /// Nodes were told where the daemon is; or why they were not.
    Told(Result<(), String>),
    Network(ClusterNetwork),
}

/// Tells of each as long as there are more, and somebody listens.
pub(super) fn tell_each<T: Send + 'static>(
    mut all: BoxStream<'static, T>,
    tell: mpsc::Sender<Event>,
    event: fn(T) -> Event,
) {
    tokio::spawn(async move {
        while let Some(it) = all.next().await {
            if tell.send(event(it)).await.is_err() {
                return;
            }
        }
    });
}

/// What came of a question.
pub(super) enum Outcome {
    Answer(said::Heard),
    Failed(String),
    Unsupported,
}
