//! Which virtual nodes somebody has changed or deleted: one watch for all of them, while there are any.
//! Whether a node is as it should be, its keeper looks.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::StreamExt;
use mercato_offload::put_back::Meddling;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::task::AbortOnDropHandle;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::events::About;
use crate::apiserver::kind::NODE;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits;
use crate::names::CONTRACT;
use crate::upkeep::{FOR_PODS, Upkeep};

/// The virtual nodes of a cluster, followed while somebody listens.
pub struct NodeNews {
    following: Mutex<Weak<Following>>,
    /// By whom people are told of those that are put back.
    kept: Upkeep,
}

struct Following {
    told: broadcast::Sender<String>,
    _watch: AbortOnDropHandle<()>,
}

/// Hears of the virtual nodes for as long as it lives.
pub(super) struct NodeEar {
    names: broadcast::Receiver<String>,
    kept: Upkeep,
    _following: Option<Arc<Following>>,
}

impl NodeNews {
    /// Nothing is followed before somebody listens; what is put back is told by `kept`.
    pub fn new(kept: Upkeep) -> Self {
        Self { following: Mutex::default(), kept }
    }

    /// Begins to follow, if nobody does yet.
    pub(super) fn listen(&self, cluster: &Cluster) -> NodeEar {
        let mut known = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let following = known.upgrade().unwrap_or_else(|| {
            let following = Arc::new(Following::start(cluster));
            *known = Arc::downgrade(&following);
            following
        });
        let (names, kept) = (following.told.subscribe(), self.kept.clone());
        NodeEar { names, kept, _following: Some(following) }
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
    /// Tells people of a virtual node that was put back; `uid` is that of the node as it is now.
    pub(super) async fn tell(&self, name: &str, uid: Option<String>, change: Meddling) {
        let about = About {
            api_version: NODE.api_version(),
            kind: NODE.kind.to_owned(),
            namespace: None,
            name: name.to_owned(),
            uid,
        };
        self.kept.tell(NODE, about, change, FOR_PODS).await;
    }

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
    use crate::testing::{scripted, status};

    #[tokio::test]
    async fn a_keeper_hears_of_its_own_node_and_of_too_much() {
        let (told, names) = broadcast::channel(2);
        let kept = Upkeep::start(scripted(|_, _, _| status(503, "not in this test")));
        let mut ear = NodeEar { names, kept, _following: None };
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
