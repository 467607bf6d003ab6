//! Keeps the numbers of nodes and pods current.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::kind::{NODE, POD};
use crate::watch::{Change, Selection, changes};

use super::{Inventory, NodeView, PodView, sum};

/// Changes that come together, as a rollout's do, are summed together.
const SETTLE: Duration = Duration::from_millis(500);

/// Pods that take something of a node: the others need not be sent.
const TAKES: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// The cluster's inventory, first when all nodes and pods are known, then
/// whenever it differs. Ends never; an API server out of reach yields nothing.
pub fn watch(cluster: &Cluster) -> BoxStream<'static, Inventory> {
    let nodes = changes(cluster, NODE, Selection::default(), |node| {
        (key(&node, "name"), NodeView::read(&node).map(Box::new))
    });
    let pods = changes(cluster, POD, Selection::default().fields(TAKES.to_owned()), |pod| {
        (key(&pod, "uid"), PodView::read(&pod).map(Box::new))
    });
    let (nodes, pods) = (nodes.map(Seen::Node), pods.map(Seen::Pod));
    let seen = stream::select(nodes, pods).ready_chunks(1024);
    let state = (seen.boxed(), State::default());
    stream::unfold(state, |(mut seen, mut state)| async move {
        loop {
            let mut chunk = seen.next().await?;
            while !chunk.is_empty() {
                chunk.into_iter().for_each(|one| state.take(one));
                let more = tokio::time::timeout(SETTLE, seen.next()).await;
                chunk = more.ok().flatten().unwrap_or_default();
            }
            if let Some(inventory) = state.changed() {
                return Some((inventory, (seen, state)));
            }
        }
    })
    .boxed()
}

enum Seen {
    Node(Change<View<NodeView>>),
    Pod(Change<View<PodView>>),
}

/// What is kept of an object, by its key; none if it counts for nothing.
type View<T> = (String, Option<Box<T>>);

fn key(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

#[derive(Default)]
struct State {
    nodes: Option<BTreeMap<String, NodeView>>,
    pods: Option<BTreeMap<String, PodView>>,
    last: Option<Inventory>,
}

impl State {
    fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Node(view) => apply(&mut self.nodes, view),
            Seen::Pod(view) => apply(&mut self.pods, view),
        }
    }

    fn changed(&mut self) -> Option<Inventory> {
        let inventory = sum(self.nodes.as_ref()?, self.pods.as_ref()?);
        if self.last.as_ref() == Some(&inventory) {
            return None;
        }
        self.last = Some(inventory.clone());
        Some(inventory)
    }
}

fn apply<T>(known: &mut Option<BTreeMap<String, T>>, change: Change<View<T>>) {
    match change {
        Change::Synced(all) => {
            *known = Some(all.into_iter().filter_map(|(key, view)| Some((key, *view?))).collect());
        }
        Change::Changed((key, Some(view))) => {
            known.get_or_insert_default().insert(key, *view);
        }
        Change::Changed((key, None)) | Change::Deleted((key, _)) => {
            known.get_or_insert_default().remove(&key);
        }
    }
}
