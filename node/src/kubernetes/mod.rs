//! The Kubernetes boundary: what a daemon needs of a cluster, be it a real one or the
//! model, which is labelled simulated wherever it shows.
//!
//! A lease's part in the cluster is a task of its own, which takes [`Order`]s in their
//! order and reports inputs. What is to be done is the agent's to say.

pub(crate) mod real;
pub(crate) mod simulated;
pub(crate) mod streams;

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use mercato_agent::{GuestWork, HomeWork, Input, LeaseDesire, LeaseNews};
use mercato_broker::{Inventory, Side};
use mercato_kubelet::Bodies;
use mercato_kubelet::stream::{Opened, Refused};
use mercato_offload::key::Item;
use mercato_offload::message::Route;
use mercato_offload::{guest, home};
use mercato_protocol::id::{ContractId, PublicKey};
use mercato_protocol::resources::Resources;
use mercato_protocol::stream::Request;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::admin::Offload;
use crate::driver::Handle;
use crate::limits;

/// A cluster.
pub(crate) trait Kubernetes: Send + Sync + 'static {
    /// What it is, for people: where its API server is, or that it is simulated.
    fn describe(&self) -> String;

    /// What it has, now and whenever that changes.
    fn inventory(&self) -> BoxStream<'static, Inventory>;

    /// Whether guests can be kept apart on its network.
    fn isolates(&self) -> bool;

    /// Takes a lease's orders until there are no more.
    fn follow(&self, task: LeaseTask) -> BoxFuture<'static, ()>;

    /// Lets a namespace's pods leave home.
    fn offload(&self, offload: Offload) -> BoxFuture<'static, Result<(), String>>;

    /// Keeps them at home.
    fn unoffload(&self, namespace: String) -> BoxFuture<'static, Result<(), String>>;

    /// Opens a stream into a guest pod, by its name here.
    fn open(
        &self,
        namespace: String,
        pod: String,
        request: Request,
    ) -> BoxFuture<'static, Result<Opened, Refused>>;
}

/// What a lease's task is to do.
pub(crate) enum Order {
    /// Be so from now on.
    Be(Box<LeaseDesire>),
    /// At home.
    Home(HomeWork),
    /// At the provider.
    Guest(GuestWork),
    /// How an item came; said before any work that concerns it.
    CameBy(Item, Route),
}

/// What a lease's task is given.
pub(crate) struct LeaseTask {
    /// How the lease is to be at first.
    pub(crate) desire: LeaseDesire,
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) driver: Handle,
    pub(crate) bodies: Bodies,
}

impl LeaseTask {
    /// Which lease.
    pub(crate) fn contract(&self) -> ContractId {
        self.desire.contract.id
    }

    /// Tells the agent how the lease's part in this cluster is.
    pub(crate) async fn news(&self, news: LeaseNews) {
        self.driver.tell(Input::Lease(self.contract(), news)).await;
    }

    /// Tells the session at home.
    pub(crate) async fn home(&self, input: home::Input) {
        self.driver.tell(Input::Home(self.contract(), input)).await;
    }

    /// Tells the session at the provider.
    pub(crate) async fn guest(&self, input: guest::Input) {
        self.driver.tell(Input::Guest(self.contract(), input)).await;
    }
}

/// The driver's end of a lease's task, which ends with it.
pub(crate) struct LeaseHandle {
    desire: LeaseDesire,
    orders: mpsc::Sender<Order>,
    task: AbortHandle,
}

impl LeaseHandle {
    /// Starts a lease's task in the cluster.
    pub(crate) fn start(
        cluster: &dyn Kubernetes,
        desire: LeaseDesire,
        driver: Handle,
        bodies: Bodies,
    ) -> Self {
        let (orders, received) = mpsc::channel(limits::ORDERS);
        let task = LeaseTask { desire: desire.clone(), orders: received, driver, bodies };
        let task = tokio::spawn(cluster.follow(task)).abort_handle();
        Self { desire, orders, task }
    }

    /// The lease is to be so from now on.
    pub(crate) fn be(&mut self, desire: LeaseDesire) {
        self.desire = desire.clone();
        self.order(Order::Be(Box::new(desire)));
    }

    /// Gives the task something to do.
    pub(crate) fn order(&mut self, order: Order) {
        if self.orders.try_send(order).is_err() {
            tracing::error!(contract = %self.desire.contract.id.short(), "a lease's work is lost");
        }
    }

    /// How the lease is to be.
    pub(crate) fn desire(&self) -> &LeaseDesire {
        &self.desire
    }

    /// The other side.
    pub(crate) fn peer(&self) -> PublicKey {
        match self.desire.side {
            Side::Provider => self.desire.contract.consumer.key,
            Side::Consumer => self.desire.contract.provider.key,
        }
    }
}

impl Drop for LeaseHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the virtual node of a lease is called where no other has that name.
pub(crate) fn node_name(desire: &LeaseDesire) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = desire.peer_name.iter().flat_map(|name| name.chars().map(plain)).collect();
    let name = name.trim_matches('-');
    if name.is_empty() {
        format!("mercato-{}", desire.contract.provider.cluster.short())
    } else {
        format!("mercato-{name:.40}")
    }
}

/// What a virtual node has to give, as Kubernetes quantities.
pub(crate) fn room(quantity: &Resources) -> BTreeMap<String, String> {
    [
        ("cpu", format!("{}m", quantity.cpu_millis)),
        ("memory", quantity.memory_bytes.to_string()),
        ("pods", quantity.pods.to_string()),
    ]
    .map(|(name, amount)| (name.to_owned(), amount))
    .into()
}
