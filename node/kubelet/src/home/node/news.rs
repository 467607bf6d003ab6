//! Which virtual nodes somebody has changed or deleted: one watch for all of them, while there are any.
//! Whether a node is as it should be, its keeper looks.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::StreamExt;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::task::AbortOnDropHandle;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::NODE;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits;
use crate::names::CONTRACT;

/// The virtual nodes of a cluster, followed while somebody listens.
#[derive(Default)]
pub struct NodeNews(Mutex<Weak<Following>>);

struct Following {
    told: broadcast::Sender<String>,
    _watch: AbortOnDropHandle<()>,
}

/// Hears of the virtual nodes for as long as it lives.
pub(super) struct NodeEar {
    names: broadcast::Receiver<String>,
    _following: Option<Arc<Following>>,
}

impl NodeNews {
    /// Begins to follow, if nobody does yet.
    pub(super) fn listen(&self, cluster: &Cluster) -> NodeEar {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let following = known.upgrade().unwrap_or_else(|| {
            let following = Arc::new(Following::start(cluster));
            *known = Arc::downgrade(&following);
            following
        });
        NodeEar { names: following.told.subscribe(), _following: Some(following) }
    }
}

impl Following {
    fn start(cluster: &Cluster) -> Self {
        let (told, _) = broadcast::channel(limits::NODE_NEWS);
        let tell = told.clone();
        let name = |node: Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let which = Selection::default().labels(CONTRACT.to_owned());
        let mut changes = changes(cluster, NODE, which, name);
        let watch = tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                let names = match change {
                    Change::Synced(all) => all,
                    Change::Changed(name) | Change::Deleted(name) => vec![name],
                };
                for name in names {
                    // An error means that nobody listens at this moment.
                    let _ = tell.send(name);
                }
            }
        });
        Self { told, _watch: AbortOnDropHandle::new(watch) }
    }
}

impl NodeEar {
    /// Waits until the node of this name has changed, or may have: too much was told at once.
    pub(super) async fn hears_of(&mut self, name: &str) {
        loop {
            match self.names.recv().await {
                Ok(changed) if changed == name => return,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_keeper_hears_of_its_own_node_and_of_too_much() {
        let (told, names) = broadcast::channel(2);
        let mut ear = NodeEar { names, _following: None };
        told.send("mercato-milan".to_owned()).unwrap();
        assert!(ear.hears_of("mercato-turin").now_or_never().is_none());
        told.send("mercato-turin".to_owned()).unwrap();
        assert!(ear.hears_of("mercato-turin").now_or_never().is_some());
        for _ in 0..3 {
            told.send("mercato-milan".to_owned()).unwrap();
        }
        assert!(ear.hears_of("mercato-turin").now_or_never().is_some(), "some were not heard");
    }
}
