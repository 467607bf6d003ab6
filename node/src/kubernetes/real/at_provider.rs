//! A lease at the provider: its guest namespaces, with what is in them, from the first
//! desire until nothing is left. What the guests are is the session's to say.

mod login;
mod names;
mod namespace;
mod nodes;
mod removal;
mod services;
mod strays;

use std::collections::BTreeMap;
use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use mercato_agent::{GuestWork, Input, LeaseDesire, LeaseInput, LeaseNews, Phase, Work};
use mercato_kubelet::guest::GuestSide;
use mercato_kubelet::guest::namespace::{self as guest_namespace, Stored};
use mercato_kubelet::guest::stored::LeaseStored;
use mercato_kubelet::{Class, Failure};
use mercato_offload::forge::{GuestContext, Refusal};
use mercato_offload::guest;
use mercato_offload::placement::{self, ProviderTerms, spec::GuestNamespace};
use mercato_protocol::terms;
use tokio::task::{AbortHandle, JoinSet};
use tracing::Instrument as _;

use self::login::Logins;
use self::names::Patience;
use self::namespace::{Bounds, Namespace, State, is_of_pod, item, make};
use self::nodes::GuestNodes;
use super::{retry::Backoff, shared::Shared};
use crate::kubernetes::LeaseTask;
use crate::limits;

struct AtProvider {
    shared: Arc<Shared>,
    task: LeaseTask,
    /// Counted until nothing of it is left.
    stored: Arc<LeaseStored>,
    priority_class: Option<String>,
    /// All guests have users of their own.
    user_namespaces: bool,
    namespaces: BTreeMap<String, Namespace>,
    making: JoinSet<(GuestNamespace, Result<(), Failure>)>,
    /// Guest namespaces that are not wanted any more go; by their names here.
    leaving: BTreeMap<String, AbortHandle>,
    goers: JoinSet<()>,
    /// The nodes on which guests run.
    nodes: GuestNodes,
    /// What the objects in the namespaces say.
    bounds: Bounds,
    logins: Logins,
    /// Work in namespaces that are being made; bounded as the queue is.
    waiting: Vec<GuestWork>,
    /// With pods, until it is known where they are told names.
    patience: Patience,
}

/// Made for a lease as its guest namespaces are, and named unlike any.
const PRIORITY: &str = "a priority class";

/// Follows the lease until nothing of it is left.
pub(super) fn follow(shared: Arc<Shared>, task: LeaseTask) -> BoxFuture<'static, ()> {
    let mut end = task.desire.clone();
    let isolation = task.desire.borrow().contract.terms.network_isolation;
    let logins = Logins::of(&shared, isolation);
    let bounds = Bounds::of(&task.desire.borrow(), None, names::server(&task), logins.now());
    let stored = Arc::new(shared.count(&task.desire.borrow().contract));
    let mut this = AtProvider {
        shared,
        task,
        stored,
        priority_class: None,
        user_namespaces: false,
        namespaces: BTreeMap::new(),
        making: JoinSet::new(),
        leaving: BTreeMap::new(),
        goers: JoinSet::new(),
        nodes: GuestNodes::default(),
        bounds,
        logins,
        waiting: Vec::new(),
        patience: Patience::begin(),
    };
    async move {
        let (sold, contract) = (this.shared.sold.clone(), this.task.contract);
        sold.send_modify(|sold| {
            sold.insert(contract);
        });
        let ended = tokio::select! {
            ended = end.wait_for(|desire| desire.phase == Phase::Ended) => ended.is_ok(),
            () = this.serve() => false,
        };
        if ended {
            this.making.shutdown().await;
            this.shared.unmade().retain(|(contract, _), _| *contract != this.task.contract);
            removal::remove(&this.shared, &this.task).await;
            this.task.news(LeaseNews::Removed).await;
        }
        sold.send_modify(|sold| {
            sold.remove(&contract);
        });
    }
    .boxed()
}

impl AtProvider {
    /// Keeps the lease as it is wanted, for ever.
    async fn serve(&mut self) {
        self.ensure_priority().await;
        self.user_namespaces = nodes::have_user_namespaces(&self.shared, &self.task).await;
        self.logins.look().await;
        self.nodes.look(&self.shared, &self.task);
        self.make_missing();
        // What is there already is all told at once, so that nothing of it seems to be gone.
        while self.namespaces.values().any(|namespace| namespace.state == State::BeingMade) {
            if let Some(Ok((of, made))) = self.making.join_next().await {
                self.on_made(of, made).await;
            }
        }
        let (cluster, kept) = (self.shared.cluster.clone(), self.shared.kept.clone());
        let (bodies, stored) = (self.task.bodies.clone(), self.stored.clone());
        let (side, mut inputs) = GuestSide::start(cluster, kept, self.context(), bodies, stored);
        let (report, contract) = (self.task.report.clone(), self.task.contract);
        let telling = async move {
            while let Some(input) = inputs.recv().await {
                report(Input::Lease(contract, LeaseInput::Guest(input))).await;
            }
            pending::<()>().await;
        };
        let services = services::tell(side.service_addresses(), self.task.services.clone());
        let names = names::tell(side.names(), self.task.names.clone());
        // They go on together, so that none can keep another waiting.
        tokio::select! {
            () = telling => {} () = services => {} () = names => {}
            () = self.perform_all(&side) => {}
        }
    }

    async fn perform_all(&mut self, side: &GuestSide) {
        let mut namespaces = guest_namespace::follow(&self.shared.cluster, &self.task.contract);
        let mut bindings = self.shared.bindings.subscribe();
        let mut left_out = self.shared.left_out.subscribe();
        let mut storage_class = self.shared.storage_class.subscribe();
        loop {
            self.keep_up(side);
            tokio::select! {
                changed = self.task.desire.changed() => if changed.is_err() { return },
                Some(made) = self.making.join_next() => {
                    let Ok((of, made)) = made else { continue };
                    self.on_made(of, made).await;
                    side.set_context(self.context());
                    self.take_up(side).await;
                }
                () = self.logins.change() => {}
                Ok(()) = bindings.changed() => {
                    self.keep_up(side);
                    self.take_up(side).await;
                }
                Some(Work::Guest(work)) = self.task.work.recv() => self.perform(side, work).await,
                Ok(()) = left_out.changed() => side.set_context(self.context()),
                Ok(()) = storage_class.changed() => {
                    side.set_context(self.context());
                    self.take_up(side).await;
                }
                () = self.patience.is_over(&mut self.task.name_server) => {
                    side.set_context(self.context());
                    self.take_up(side).await;
                }
                Some(seen) = namespaces.next() => {
                    self.make_again(&seen);
                    self.leave_strays(&seen);
                }
            }
        }
    }

    /// How the guest namespace of that name is.
    fn state(&self, home: &str, name: &str) -> Option<&State> {
        let known = self.namespaces.get(home).filter(|known| known.name == name);
        known.map(|known| &known.state)
    }

    /// Makes it, and removes one of another name, in which nothing is any more.
    fn make(&mut self, desire: &LeaseDesire, home: &str, name: &str, after: Duration) {
        let Shared { cluster, account, kept, name_servers, gate, .. } = &*self.shared;
        let isolation = desire.contract.terms.network_isolation;
        let gate_port = (isolation == terms::NetworkIsolation::Required).then_some(gate.port);
        let Bounds { ranges, name_server, login, resources, .. } =
            Bounds::of(desire, self.nodes.binding(), names::server(&self.task), self.logins.now());
        let name_servers: Vec<IpAddr> = name_servers.iter().copied().chain(name_server).collect();
        let wanted = GuestNamespace::of(&desire.contract, home, name, &name_servers);
        let wanted = GuestNamespace { ranges, gate_port, resources, ..wanted };
        let (cluster, account, kept) = (cluster.clone(), account.clone(), kept.clone());
        self.leaving.remove(name).iter().for_each(AbortHandle::abort);
        let before = self.namespaces.remove(home);
        before.iter().for_each(|before| before.making.abort());
        let same = match before {
            Some(before) if before.name == name => Some(before.state),
            Some(before) => {
                self.remove_one(before.name, Some(home.to_owned()));
                None
            }
            None => None,
        };
        let making = async move {
            tokio::time::sleep(after).await;
            make(cluster, account, kept, wanted, login).await
        };
        let making = self.making.spawn(making.in_current_span());
        let (name, state) = (name.to_owned(), same.unwrap_or(State::BeingMade));
        self.namespaces.insert(home.to_owned(), Namespace { name, state, making });
    }

    /// What waited may go on, or waits again.
    async fn take_up(&mut self, side: &GuestSide) {
        for work in std::mem::take(&mut self.waiting) {
            self.perform(side, work).await;
        }
    }

    async fn perform(&mut self, side: &GuestSide, work: GuestWork) {
        // The desire that came before this work may not have been looked at yet.
        self.keep_up(side);
        let state = self.namespaces.get(item(&work).namespace()).map(|known| &known.state);
        match state {
            Some(State::BeingMade) => self.waiting.push(work),
            // A pod is bound to its nodes, and has its name server, for life.
            _ if self.nodes.binding().is_none() && is_of_pod(&work) => self.waiting.push(work),
            _ if self.patience.holds(&work, &self.task) => self.waiting.push(work),
            Some(State::Refused(why)) => {
                let refusal = Refusal { path: "metadata.namespace".into(), reason: why.clone() };
                let refused =
                    guest::Input::NotWritten(item(&work), guest::Failure::Refused(refusal));
                self.task.guest(refused).await;
            }
            Some(State::There) | None => match work {
                GuestWork::Apply(item, content) => side.apply(item, content),
                GuestWork::Make(pod, content) => side.make(pod, content),
                GuestWork::Update(pod, content) => side.update(pod, content),
                GuestWork::Delete(item, grace_s) => side.delete(item, grace_s),
                GuestWork::Release(pod) => side.release(pod),
                GuestWork::Confirm(item, uid) => side.confirm(item, uid),
            },
        }
    }

    /// The class of a spot contract's guests.
    async fn ensure_priority(&mut self) {
        let class = self.task.desire.borrow().contract.terms.class;
        let mut backoff = Backoff::default();
        loop {
            let mut spot = self.shared.spot.lock().await;
            if class == terms::Class::Spot {
                spot.insert(self.task.contract);
            }
            match guest_namespace::ensure_priority(&self.shared.cluster, class).await {
                Ok(name) => {
                    self.shared.unmade().remove(&(self.task.contract, PRIORITY.to_owned()));
                    return self.priority_class = name;
                }
                Err(failure) => self.on_failure(PRIORITY, &failure).await,
            }
            drop(spot);
            backoff.wait().await;
        }
    }

    /// With what is desired. Nothing is looked for any more where a namespace had another name.
    fn keep_up(&mut self, side: &GuestSide) {
        let bound = self.nodes.look(&self.shared, &self.task);
        if self.make_missing() || bound {
            side.set_context(self.context());
        }
    }

    /// Makes the namespaces that are missing, or have got another name, and all of them right
    /// again within other bounds; those that are not desired any more go. Whether one has got
    /// another name, or goes, or the bounds are others.
    fn make_missing(&mut self) -> bool {
        let desire = self.task.desire.borrow_and_update().clone();
        self.stored.set_bought(&desire.contract.terms.quantity);
        let (server, login) = (names::server(&self.task), self.logins.now());
        let bounds = Bounds::of(&desire, self.nodes.binding(), server, login);
        let is_other = bounds != self.bounds;
        self.bounds = bounds;
        let mut moved = is_other;
        let is_left = |home: &&String| !desire.namespaces.contains_key(*home);
        for home in self.namespaces.keys().filter(is_left).cloned().collect::<Vec<_>>() {
            self.leave(home);
            moved = true;
        }
        for (home, name) in &desire.namespaces {
            let is_new = self.state(home, name).is_none();
            moved |= is_new && self.namespaces.contains_key(home);
            if is_other || is_new {
                self.make(&desire, home, name, Duration::ZERO);
            }
        }
        moved
    }

    /// Removes a guest namespace in which there is nothing any more.
    fn leave(&mut self, home: String) {
        let Some(left) = self.namespaces.remove(&home) else { return };
        left.making.abort();
        self.shared.unmade().remove(&(self.task.contract, home.clone()));
        self.remove_one(left.name, Some(home));
    }

    /// Removes the guest namespace of that name, however long it takes; of this home namespace
    /// only, if one is named.
    fn remove_one(&mut self, name: String, home: Option<String>) {
        self.shared.kept.forget(&name);
        let (cluster, contract) = (self.shared.cluster.clone(), self.task.contract);
        let has_storage = self.task.desire.borrow().contract.terms.quantity.storage_bytes > 0;
        let stored = if has_storage { Stored::Stays } else { Stored::Goes };
        let going = removal::remove_one(cluster, name.clone(), contract, home, stored);
        let going = self.goers.spawn(going.in_current_span());
        while self.goers.try_join_next().is_some() {}
        self.leaving.retain(|_, going| !going.is_finished());
        self.leaving.insert(name, going);
    }

    async fn on_made(&mut self, of: GuestNamespace, made: Result<(), Failure>) {
        let GuestNamespace { home, name, .. } = of;
        if self.state(&home, &name).is_none() {
            return; // it has got another name meanwhile
        }
        let state = match made {
            Ok(()) => {
                self.shared.unmade().remove(&(self.task.contract, home.clone()));
                State::There
            }
            Err(failure) => {
                self.on_failure(&home, &failure).await;
                let desire = self.task.desire.borrow().clone();
                self.make(&desire, &home, &name, limits::CLUSTER_RETRY_MAX);
                State::Refused(failure.message)
            }
        };
        if let Some(known) = self.namespaces.get_mut(&home) {
            known.state = state;
        }
    }

    /// A right that is missing ends the lease; anything else may pass.
    async fn on_failure(&self, what: &str, failure: &Failure) {
        self.shared.note_unmade(&self.task.contract, what, failure);
        if failure.class == Class::Refused {
            self.task.news(LeaseNews::Failed(failure.message.clone())).await;
        }
    }

    fn context(&self) -> GuestContext {
        let desire = self.task.desire.borrow().clone();
        let namespaces = desire.namespaces.iter();
        let namespaces =
            namespaces.filter(|(home, name)| self.state(home, name) == Some(&State::There));
        let namespaces = namespaces.map(|(home, name)| (home.clone(), name.clone())).collect();
        let provider = ProviderTerms {
            priority_class: self.priority_class.clone(),
            name_servers: &self.shared.name_servers,
            user_namespaces: self.user_namespaces,
            keeps_host_names: placement::keeps_host_names(&self.shared.version),
            gate: self.shared.gate.clone(),
            ranges: desire.ranges.clone(),
            name_server: names::server(&self.task),
            binding: self.nodes.binding().cloned().unwrap_or_default(),
            left_out: self.shared.left_out.borrow().clone().unwrap_or_default(),
            storage_class: self.shared.storage_class.borrow().clone().flatten(),
        };
        placement::guest_context(&desire.contract, namespaces, provider)
    }
}
