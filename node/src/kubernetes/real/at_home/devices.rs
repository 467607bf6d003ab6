//! By which resources pods at home ask for the GPUs that were bought: the provider says it, and says it
//! again now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_agent::LeaseDesire;
use mercato_kubelet::guest::stream::PeerStreams;
use mercato_kubelet::kubelet_api::node_facts;
use mercato_offload::placement::{self, allocatable};
use mercato_protocol::kubelet_stream::RefusedReason;
use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::limits;

/// What is known of the devices of a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Nothing was said yet: pods that ask for some do not come.
    #[default]
    Nothing,
    /// The provider is of a release that knows whole ones of NVIDIA's alone.
    Usual,
    /// The resource of each model that there is.
    Said(BTreeMap<GpuModel, String>),
}

/// What the provider says of the devices; asked for as long as this is kept.
pub(super) struct Devices {
    known: watch::Receiver<Known>,
    asking: JoinHandle<()>,
}

impl Devices {
    /// Begins to ask, if any were bought.
    pub(super) fn of(desire: watch::Receiver<LeaseDesire>, peer: Arc<dyn PeerStreams>) -> Self {
        let (tell, known) = watch::channel(Known::Nothing);
        Self { known, asking: tokio::spawn(ask(desire, peer, tell)) }
    }

    /// What the virtual node has to give.
    pub(super) fn capacity(&mut self, bought: &Resources) -> BTreeMap<String, String> {
        match &*self.known.borrow_and_update() {
            Known::Usual => allocatable(bought, &BTreeMap::new()),
            Known::Nothing => placement::shown(bought, &BTreeMap::new()),
            Known::Said(resources) => placement::shown(bought, resources),
        }
    }

    /// Of which models that were bought the provider has said that there is no node now.
    pub(super) fn gone(&self, bought: &Resources) -> BTreeSet<GpuModel> {
        match &*self.known.borrow() {
            Known::Nothing | Known::Usual => BTreeSet::new(),
            Known::Said(resources) => {
                let models = bought.gpus.keys();
                models.filter(|model| !resources.contains_key(*model)).cloned().collect()
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

impl Drop for Devices {
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
        let asks = |desire: &LeaseDesire| {
            desire.reachable && !desire.contract.terms.quantity.gpus.is_empty()
        };
        let Ok(contract) = desire.wait_for(asks).await.map(|desire| desire.contract.id) else {
            return;
        };
        let said = match node_facts::ask(&*peer, contract).await {
            Ok(facts) => Some(Known::Said(facts.resources)),
            Err(refused) if refused.reason == RefusedReason::BadRequest => Some(Known::Usual),
            // Its cluster does not answer, or the link has broken: what it said last holds.
            Err(_) => None,
        };
        let pause = if said.is_some() { limits::DEVICES_LOOK } else { limits::DEVICES_RETRY };
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
