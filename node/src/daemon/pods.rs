//! Which of this machine's addresses its pod network has given it: each cluster numbers those alike, and
//! nobody is told of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use mercato_kubelet::inventory::RangeUse;

use crate::driver::Handle;
use crate::driver::peers::inbound::tell_addresses;
use crate::kubernetes::Kubernetes;
use crate::limits;

/// Asks the cluster for the ranges of its nodes' pods once this machine has addresses, and again once it
/// has got another, for ever.
pub(super) async fn hide(driver: Handle, cluster: Arc<dyn Kubernetes>) {
    let mut known = BTreeSet::new();
    loop {
        let now: BTreeSet<_> = driver.net().local_addresses().into_iter().collect();
        if !now.is_subset(&known) {
            match cluster.network().await {
                Ok(network) => {
                    let of_pods = network.ranges.into_iter().filter_map(|range| match range.by {
                        RangeUse::Node(_) => Some(range.net),
                        RangeUse::Services => None,
                    });
                    driver.net().hide(of_pods.collect()).await;
                    tell_addresses(&driver).await;
                    known = now;
                }
                Err(error) => tracing::debug!(error, "the ranges of pods are not known"),
            }
        }
        tokio::time::sleep(limits::CLUSTER_LOOK).await;
    }
}
