//! Keeps the numbers of nodes and pods current.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use mercato_offload::placement::Binding;
use mercato_protocol::id::ContractId;
use mercato_protocol::text::PoolId;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::{NAMESPACE, NODE, POD, STORAGE_CLASS};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits::DRA_LOOK;
use crate::names::CONTRACT;

use super::storage::{self, ClassView};
use super::{
    Inventory, NodeView, OwnersWord, PodView, SharedStorage, TAKES, UnsoldDevices, bindings, dra,
    sum,
};

/// Changes that come together, as a rollout's do, are summed together: those of so long after the
/// first, since in a busy cluster they never end.
const SETTLE: Duration = Duration::from_millis(500);

/// The cluster's inventory, first when all nodes and pods are known, then
/// whenever it differs. Ends never; an API server out of reach yields nothing.
///
/// Guests are the pods in namespaces that carry the label of one of `contracts`, which are
/// those that the daemon knows: anybody can write such a label on a pod. `word` is what the owner
/// says of devices and of storage; whenever it changes all is read again. Classes of storage are read
/// where some is shared, and never waited for.
pub fn watch(
    cluster: &Cluster,
    contracts: watch::Receiver<BTreeSet<ContractId>>,
    word: watch::Receiver<OwnersWord>,
) -> BoxStream<'static, Inventory> {
    let cluster = cluster.clone();
    let first = stream::pending().boxed();
    stream::unfold((word, first, true), move |(mut word, mut read, mut anew)| {
        let (cluster, contracts) = (cluster.clone(), contracts.clone());
        async move {
            loop {
                if anew {
                    let said = word.borrow_and_update().clone();
                    read = read_with(&cluster, contracts.clone(), said);
                }
                tokio::select! {
                    changed = word.changed() => changed.ok()?,
                    inventory = read.next() => return Some((inventory?, (word, read, false))),
                }
                anew = true;
            }
        }
    })
    .boxed()
}

fn read_with(
    cluster: &Cluster,
    contracts: watch::Receiver<BTreeSet<ContractId>>,
    word: OwnersWord,
) -> BoxStream<'static, Inventory> {
    let (runtime_class, shared) = (word.runtime_class.clone(), word.storage.clone());
    let classes = match &shared {
        SharedStorage::Nothing => stream::pending().boxed(),
        SharedStorage::DefaultClass | SharedStorage::Class(_) => {
            let all = changes(cluster, STORAGE_CLASS, Selection::default(), |class| {
                (key(&class, "name"), ClassView::read(&class).map(Box::new))
            });
            all.map(Seen::StorageClass).boxed()
        }
    };
    let nodes = changes(cluster, NODE, Selection::default(), move |node| {
        (key(&node, "name"), NodeView::read(&node, &word).map(Box::new))
    });
    let pods = changes(cluster, POD, Selection::default().fields(TAKES.to_owned()), |pod| {
        (key(&pod, "uid"), PodView::read(&pod).map(Box::new))
    });
    let namespaces =
        changes(cluster, NAMESPACE, Selection::default().labels(CONTRACT.into()), |one| {
            let contract = one["metadata"]["labels"][CONTRACT].as_str().map(str::to_owned);
            (key(&one, "name"), contract.map(Box::new))
        });
    let contracts = stream::unfold((contracts, true), |(mut contracts, first)| async move {
        if !first {
            contracts.changed().await.ok()?;
        }
        let now = contracts.borrow_and_update().iter().map(ContractId::to_string).collect();
        Some((Seen::Contracts(now), (contracts, false)))
    });
    let (nodes, pods) = (nodes.map(Seen::Node), pods.map(Seen::Pod));
    let guests = stream::select(namespaces.map(Seen::Namespace), contracts);
    let others = stream::select(guests, classes);
    let others = stream::select(others, devices_of_dra(cluster.clone()).map(Seen::OfDra));
    let seen = stream::select(stream::select(nodes, pods), others).ready_chunks(1024);
    let state = (seen.boxed(), State { runtime_class, shared, ..State::default() });
    stream::unfold(state, |(mut seen, mut state)| async move {
        loop {
            together(&mut seen).await?.into_iter().for_each(|one| state.take(one));
            if let Some(inventory) = state.changed() {
                return Some((inventory, (seen, state)));
            }
        }
    })
    .boxed()
}

/// The devices of DRA, first and then each [`DRA_LOOK`]; what cannot be told stays as it was.
fn devices_of_dra(cluster: Cluster) -> BoxStream<'static, Vec<UnsoldDevices>> {
    let looks = stream::unfold((cluster, true), |(cluster, is_first)| async move {
        if !is_first {
            tokio::time::sleep(DRA_LOOK).await;
        }
        Some((dra::devices(&cluster).await.ok(), (cluster, false)))
    });
    looks.filter_map(ready).boxed()
}

/// What comes first, and what comes within [`SETTLE`] of it; none: nothing comes any more.
async fn together<T>(seen: &mut BoxStream<'_, Vec<T>>) -> Option<Vec<T>> {
    let mut all = seen.next().await?;
    let until = Instant::now() + SETTLE;
    while let Ok(Some(more)) = tokio::time::timeout_at(until, seen.next()).await {
        all.extend(more);
    }
    Some(all)
}

enum Seen {
    Node(Change<View<NodeView>>),
    Pod(Change<View<PodView>>),
    /// With the contract that is on its label.
    Namespace(Change<View<String>>),
    Contracts(BTreeSet<String>),
    OfDra(Vec<UnsoldDevices>),
    StorageClass(Change<View<ClassView>>),
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
    namespaces: Option<BTreeMap<String, String>>,
    contracts: BTreeSet<String>,
    runtime_class: Option<String>,
    /// Devices that nobody can buy, whatever their nodes are.
    of_dra: Vec<UnsoldDevices>,
    shared: SharedStorage,
    classes: Option<BTreeMap<String, ClassView>>,
    /// Of the nodes as they are; none: they have changed since.
    bindings: Option<BTreeMap<PoolId, Binding>>,
    last: Option<Inventory>,
}

impl State {
    fn take(&mut self, seen: Seen) {
        match seen {
            Seen::Node(view) => {
                self.bindings = None;
                apply(&mut self.nodes, view);
            }
            Seen::Pod(view) => apply(&mut self.pods, view),
            Seen::Namespace(view) => apply(&mut self.namespaces, view),
            Seen::Contracts(all) => self.contracts = all,
            Seen::OfDra(all) => self.of_dra = all,
            Seen::StorageClass(view) => apply(&mut self.classes, view),
        }
    }

    fn changed(&mut self) -> Option<Inventory> {
        let guests = self.namespaces.as_ref()?.iter();
        let guests = guests.filter(|(_, contract)| self.contracts.contains(*contract));
        let guests = guests.map(|(name, _)| name.clone()).collect();
        let nodes = self.nodes.as_ref()?;
        let class = self.runtime_class.as_deref();
        let bindings = self.bindings.get_or_insert_with(|| bindings(nodes, class));
        let mut inventory = sum(nodes, self.pods.as_ref()?, &guests, bindings);
        inventory.unsold.extend_from_slice(&self.of_dra);
        if let Some(classes) = &self.classes {
            inventory.storage = storage::state(&self.shared, classes);
        }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inventory::gpus;
    use crate::inventory::node::tests::{node, read};

    /// In a busy cluster another pod changes before the last has settled, for ever.
    #[tokio::test(start_paused = true)]
    async fn changes_without_end_are_summed_all_the_same() {
        let pause = SETTLE / 5;
        let changes = stream::unfold((), |()| async move {
            tokio::time::sleep(pause).await;
            Some((vec![()], ()))
        });
        let first = tokio::time::timeout(10 * SETTLE, together(&mut changes.boxed())).await;
        assert!((4..=6).contains(&first.unwrap().unwrap().len()));
    }

    /// They are told once nodes are known, and as long as there are any.
    #[test]
    fn devices_of_dra_are_told_beside_those_of_nodes() {
        let mut state = State::default();
        let of = gpus::Unsold {
            resource: "gpu.nvidia.com".to_owned(),
            count: 2,
            reason: "claims".to_owned(),
            line: None,
        };
        state.take(Seen::OfDra(vec![UnsoldDevices { nodes: 1, of: of.clone() }]));
        assert_eq!(state.changed(), None);
        state.take(Seen::Node(Change::Synced(vec![("n".to_owned(), read(&node()).map(Box::new))])));
        state.take(Seen::Pod(Change::Synced(Vec::new())));
        state.take(Seen::Namespace(Change::Synced(Vec::new())));
        let inventory = state.changed().unwrap();
        assert_eq!(
            (inventory.unsold.last().map(|it| &it.of), inventory.pools.len()),
            (Some(&of), 1)
        );
        state.take(Seen::OfDra(Vec::new()));
        assert_eq!(state.changed().unwrap().unsold, []);
    }

    #[test]
    fn a_node_that_is_left_out_is_named_and_sells_nothing() {
        let mut state = State::default();
        let of = |gateway: &str| {
            let mut node = node();
            node["metadata"]["labels"]["mercato.dev/gateway"] = gateway.into();
            (gateway.to_owned(), read(&node).map(Box::new))
        };
        state.take(Seen::Node(Change::Synced(vec![of("on"), of("off")])));
        state.take(Seen::Pod(Change::Synced(Vec::new())));
        state.take(Seen::Namespace(Change::Synced(Vec::new())));
        let Inventory { pools, left_out, .. } = state.changed().unwrap();
        assert_eq!((left_out, pools[0].nodes), (["off".to_owned()].into(), 1));
        state.take(Seen::Node(Change::Changed(("off".to_owned(), of("").1))));
        assert_eq!(state.changed().unwrap().left_out, BTreeSet::new());
    }

    #[test]
    fn a_label_on_a_pod_hides_nothing() {
        let pod = |namespace: &str| {
            let pod = json!({
                "metadata": { "name": "p", "namespace": namespace, "labels": { CONTRACT: "c1" } },
                "spec": { "nodeName": "n", "containers": [
                    { "resources": { "requests": { "cpu": "1" } } }] },
            });
            (namespace.to_owned(), PodView::read(&pod).map(Box::new))
        };
        let label =
            |name: &str, contract: &str| (name.to_owned(), Some(Box::new(contract.to_owned())));
        let mut state = State::default();
        let view = read(&node()).map(Box::new);
        state.take(Seen::Node(Change::Synced(vec![("n".to_owned(), view)])));
        let pods = ["shop", "shop-rome", "forged"].map(pod).into();
        state.take(Seen::Pod(Change::Synced(pods)));
        assert_eq!(state.changed(), None, "no guest is known before namespaces are");
        let namespaces = vec![label("shop-rome", "c1"), label("forged", "c9")];
        state.take(Seen::Namespace(Change::Synced(namespaces)));
        assert_eq!(state.changed().unwrap().pools[0].requested.cpu_millis, 3_000);
        state.take(Seen::Contracts(["c1".to_owned()].into()));
        // Only the one whose contract is known is left out.
        assert_eq!(state.changed().unwrap().pools[0].requested.cpu_millis, 2_000);
    }
}
