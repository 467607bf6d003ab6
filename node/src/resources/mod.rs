//! The custom resources, served: what is written with kubectl becomes what the command line
//! would ask for, and what comes of it is said in statuses and events.
//!
//! Everything is level-triggered: each kind is looked at as a whole whenever an object or
//! a deal changes. Without the definitions of the kinds there is nothing to serve; once
//! they are there, that is noticed.

mod contested;
mod contracts;
mod offloads;
mod orders;
mod policy;
mod ruling;
mod service;
#[cfg(test)]
mod tests;
mod wanted;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::join4;
use mercato_kubelet::{Repeated, RepeatedEach};
use tokio::sync::watch;

use crate::admin::OperatorApi;
use crate::driver::Handle;
use crate::kubernetes::Kubernetes;
use crate::limits;
use contested::Contested;
use service::Service;

pub(crate) use contested::told as contested;
pub(crate) use ruling::{Lacking, Ruled, Ruling};
pub(crate) use service::{ABSENT, Defaults, INSTALL};

/// Serves for as long as the daemon runs, if the cluster may have them.
pub(crate) async fn serve(
    kubernetes: Arc<dyn Kubernetes>,
    driver: Handle,
    api: Arc<dyn OperatorApi>,
    defaults: Defaults,
    ruling: Arc<watch::Sender<Ruling>>,
) {
    let Some(cluster) = kubernetes.resources().await else { return };
    let offloads_all = kubernetes.offloads_all();
    let orders = Arc::default();
    let service = Service { cluster, offloads_all, driver, api, defaults, ruling, orders };
    run(&service).await;
}

/// Serves for ever, whenever the cluster has the kinds.
async fn run(service: &Service) {
    loop {
        while !service.look().await {
            tokio::time::sleep(limits::INSTALLED_LOOK).await;
        }
        tracing::info!("custom resources are served");
        tokio::select! {
            () = serve_all(service) => return,
            // Once for each time that they go.
            () = service.gone() => tracing::warn!("the custom resources are gone"),
        }
    }
}

/// Serves each of the kinds, for ever.
async fn serve_all(service: &Service) {
    let (ruled, rules) = watch::channel(false);
    let policy = policy::Policy { service: service.clone(), ruled, failing: Repeated::default() };
    let orders = orders::Orders {
        service: service.clone(),
        rules,
        waiting: Repeated::default(),
        failing: RepeatedEach::default(),
    };
    let contracts = contracts::Contracts {
        service: service.clone(),
        contested: Contested::default(),
        asked: Default::default(),
        failing: Repeated::default(),
    };
    let offloads =
        offloads::Offloads { service: service.clone(), failing: RepeatedEach::default() };
    let all = join4(
        service.follow(policy),
        service.follow(orders),
        service.follow(contracts),
        service.follow(offloads),
    );
    all.map(drop).await;
}
