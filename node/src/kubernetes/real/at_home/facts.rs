//! What the provider says of its nodes, and says again now and then: by which resources pods at home ask
//! for the GPUs that were bought, and by which labels they choose.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_agent::LeaseDesire;
use mercato_kubelet::guest::stream::PeerStreams;
use mercato_kubelet::kubelet_api::node_facts;
use mercato_offload::placement::{self, NodeLabels, Shown, allocatable};
use mercato_protocol::kubelet_stream::{NodeFacts, RefusedReason};
use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::limits;

/// What is known of the nodes of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing was said yet: pods that ask for devices do not come, and labels are as they were.
    Nothing(NodeLabels),
    /// The provider is of a release that knows whole GPUs of NVIDIA's alone, and says no labels.
    Usual,
    /// As it said last time.
    Said(Box<NodeFacts>),
}

/// What the provider says of its nodes; asked for as long as this is kept.
pub(super) struct Facts {
    known: watch::Receiver<Known>,
    asking: JoinHandle<()>,
}

/// A lease's virtual node, as far as it is what the provider says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// What it has to give.
    pub(super) capacity: BTreeMap<String, String>,
    /// The labels that it shows.
    pub(super) labels: NodeLabels,
    /// What a person is told of it.
    pub(super) lacks: Lacks,
}

/// What of the provider's nodes the virtual node does not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacks {
    /// Models that were bought and of which the provider has said that there is no node now.
    pub(super) gone: BTreeSet<GpuModel>,
    /// The zone, where nodes of home are in one of that name.
    pub(super) zone: Option<String>,
}

impl Facts {
    /// Begins to ask; until something is said the labels are those that the node has.
    pub(super) fn of(
        desire: watch::Receiver<LeaseDesire>,
        peer: Arc<dyn PeerStreams>,
        labels: NodeLabels,
    ) -> Self {
        let (tell, known) = watch::channel(Known::Nothing(labels));
        Self { known, asking: tokio::spawn(ask(desire, peer, tell)) }
    }

    /// The virtual node of what was bought; `zones` are those of home's own nodes, once they are known.
    pub(super) fn told(&mut self, bought: &Resources, zones: Option<&BTreeSet<String>>) -> Told {
        let none = BTreeMap::new();
        match &*self.known.borrow_and_update() {
            Known::Usual => {
                let capacity = allocatable(bought, &none);
                Told { capacity, ..Told::default() }
            }
            Known::Nothing(labels) => {
                let capacity = placement::shown(bought, &none);
                Told { capacity, labels: labels.clone(), ..Told::default() }
            }
            Known::Said(said) => {
                let capacity = placement::shown(bought, &said.resources);
                let Shown { labels, hidden_zone } = NodeLabels::shown(said, &capacity, zones);
                let models = bought.gpus.keys();
                let gone = models.filter(|model| !said.resources.contains_key(*model)).cloned();
                let lacks = Lacks { gone: gone.collect(), zone: hidden_zone };
                Told { capacity, labels, lacks }
            }
        }
    }

    /// Waits until it is something else.
    pub(super) async fn changed(&mut self) {
        if self.known.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Facts {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

async fn ask(
    mut desire: watch::Receiver<LeaseDesire>,
    peer: Arc<dyn PeerStreams>,
    tell: watch::Sender<Known>,
) {
    loop {
        let Ok(contract) =
            desire.wait_for(|desire| desire.reachable).await.map(|desire| desire.contract.id)
        else {
            return;
        };
        let said = match node_facts::ask(&*peer, contract).await {
            Ok(facts) => Some(Known::Said(Box::new(facts))),
            Err(refused) if refused.reason == RefusedReason::BadRequest => Some(Known::Usual),
            // Its cluster does not answer, or the link has broken: what it said last holds.
            Err(_) => None,
        };
        let pause = if said.is_some() { limits::FACTS_LOOK } else { limits::FACTS_RETRY };
        if let Some(said) = said {
            tell.send_if_modified(|known| {
                let differs = *known != said;
                *known = said;
                differs
            });
        }
        sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(known: Known) -> Facts {
        let (_, known) = watch::channel(known);
        Facts { known, asking: tokio::spawn(async {}) }
    }

    fn bought() -> Resources {
        let gpus = [("l4".parse().unwrap(), 2)].into();
        Resources { cpu_millis: 1_000, gpus, ..Resources::default() }
    }

    /// Sixty-four labels by which operators' programs come, beside one that is shown.
    fn forged() -> NodeFacts {
        let words = ["present", "deploy.driver", "deploy.device-plugin", "count"];
        let keys = words.map(|word| format!("nvidia.com/gpu.{word}")).into_iter();
        let others = (0..59).map(|n| format!("feature.node.kubernetes.io/pci-{n}.present"));
        let labels = keys.chain(others).map(|key| (key, "true".to_owned()));
        let product = ("nvidia.com/gpu.product".to_owned(), "NVIDIA-L4".to_owned());
        NodeFacts {
            resources: [("l4".parse().unwrap(), "nvidia.com/gpu".to_owned())].into(),
            labels: labels.chain([product]).collect(),
            region: Some("eu-south-1".to_owned()),
            zone: Some("a".to_owned()),
        }
    }

    #[tokio::test]
    async fn a_hostile_provider_labels_the_node_by_homes_list_alone() {
        let said = forged();
        assert_eq!(said.labels.len(), 64);
        let mut facts = facts(Known::Said(Box::new(said)));
        let zones = ["a".to_owned()].into();
        let Told { labels, lacks, .. } = facts.told(&bought(), Some(&zones));
        let shown: Vec<_> = labels.others.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(shown, ["nvidia.com/gpu.count=2", "nvidia.com/gpu.product=NVIDIA-L4"]);
        assert_eq!((labels.region.as_deref(), labels.zone), (Some("eu-south-1"), None));
        assert_eq!((lacks.zone.as_deref(), lacks.gone.len()), (Some("a"), 0));
    }

    #[tokio::test]
    async fn labels_stay_until_something_is_said_and_an_older_provider_has_none() {
        let before = NodeLabels { region: Some("r".to_owned()), ..NodeLabels::default() };
        let mut starting = facts(Known::Nothing(before.clone()));
        let told = starting.told(&bought(), None);
        assert_eq!((told.labels, told.capacity.get("nvidia.com/gpu")), (before, None));
        let told = facts(Known::Usual).told(&bought(), None);
        assert_eq!((told.labels, told.lacks), (NodeLabels::default(), Lacks::default()));
        assert_eq!(told.capacity["nvidia.com/gpu"], "2");
    }
}
