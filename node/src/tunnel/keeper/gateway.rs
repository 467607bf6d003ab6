//! Whether there is a gateway: it runs from the first lease to the end of the last, if one can.

use std::sync::Arc;

use mercato_agent::{Input, TunnelInput};
use tokio::sync::mpsc;

use super::{Keeper, Said};
use crate::kubernetes::Kubernetes;
use crate::limits;
use crate::tunnel::event::{Event, tell_each};

impl Keeper {
    /// A gateway may be able to run that could not before, or the other way round.
    pub(super) async fn mind_ground(&mut self, said: &Said) {
        if self.ground.look_again() {
            self.ask_network();
        }
        let pool = self.ground.pool();
        if pool == self.pool {
            return;
        }
        self.pool = pool;
        if pool.is_some() {
            self.watch_pods();
            self.watch_machines();
            if said.leases.is_empty() {
                self.end.clean();
            }
        } else {
            self.finish();
        }
        self.driver.tell(Input::Tunnel(TunnelInput::Pool(pool))).await;
    }

    /// It runs as long as there is a lease.
    pub(super) fn mind_gateway(&mut self, said: &Said) {
        let Ok(settings) = self.ground.gateway() else { return };
        if said.leases.is_empty() {
            self.finish();
        } else {
            self.end.begin(settings.port, &self.secrets);
        }
    }

    fn finish(&mut self) {
        if self.end.key().is_some() {
            self.end.finish();
            self.mapped.clear();
        }
    }

    /// Where the cluster's pods are is told from now on, and what of it is open to other clusters.
    pub(super) fn watch_pods(&mut self) {
        if std::mem::replace(&mut self.watches_pods, true) {
            return;
        }
        tell_each(self.kubernetes.pods(), self.tell.clone(), Event::Pods);
        tell_each(self.kubernetes.consent(), self.tell.clone(), Event::Consent);
    }

    /// What the cluster says of its network is told once it answers: a node that comes has pods of its own.
    pub(super) fn ask_network(&mut self) {
        if std::mem::replace(&mut self.asks_network, true) {
            return;
        }
        ask_network(self.kubernetes.clone(), self.tell.clone());
    }
}

/// Asks until the cluster answers, and tells what it says.
fn ask_network(kubernetes: Arc<dyn Kubernetes>, tell: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        loop {
            match kubernetes.network().await {
                // An error says that the daemon is stopping.
                Ok(network) => return drop(tell.send(Event::Network(network)).await),
                Err(error) => tracing::debug!(error, "the cluster's network is not known"),
            }
            if tell.is_closed() {
                return;
            }
            tokio::time::sleep(limits::TUNNEL_PROBE).await;
        }
    });
}
