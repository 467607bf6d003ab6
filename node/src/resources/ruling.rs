//! What the custom resources decide, and which requests of the command line one of them would undo:
//! each request is in one table. What an object says is not changed behind its back; whoever asks is
//! told how to change it there.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_config::{Seconds, Show as _, Text, quantity};
use mercato_kubelet::crd::{
    Contract, ContractSpec, NamespaceOffload, NamespaceOffloadSpec, is_deleted,
};
use mercato_offload::placement::export::OptIn;
use mercato_protocol::contract::Terms;
use mercato_protocol::id::ContractId;
use mercato_protocol::resources::{Resource, Resources};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::wanted;
use crate::admin::{Answer, Deal, Offload, OperatorApi, Problem, Request};

/// What the custom resources decide at the moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ruling {
    /// The cluster could have them, and does not.
    pub(crate) absent: bool,
    /// A MarketPolicy says what is shared.
    pub(crate) share: bool,
    /// Some of the Contracts that somebody else makes and removes, by name; none: nobody does.
    pub(crate) contested: Vec<String>,
    /// What the NamespaceOffload of a namespace says, by the name of the namespace.
    offloads: BTreeMap<String, NamespaceOffloadSpec>,
    /// What of them does not hold, by the name of the namespace.
    lacking: BTreeMap<String, Lacking>,
    /// Contracts whose spec says an amount or a term: by their ids, as they are called.
    contracts: BTreeMap<ContractId, (String, ContractSpec)>,
}

/// That what a NamespaceOffload says does not hold, or names what is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lacking {
    /// New pods go where they may all the same.
    pub(crate) is_ready: bool,
    /// What is lacking, and what to do.
    pub(crate) message: String,
}

/// What a request changes that a custom resource may say as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Changes<'a> {
    /// Nothing at all: it only looks.
    Nothing,
    /// What no object says, or what is done once and then over, whatever an object says.
    OtherThings,
    /// What is shared: `spec.share` of the MarketPolicy.
    Share,
    /// Whether and how pods may leave: the NamespaceOffload.
    Offload(&'a Offload),
    /// That they may leave: the NamespaceOffload.
    Unoffload(&'a str),
    /// How much a contract is, and for how long: `spec` of the Contract.
    Terms(ContractId, Option<&'a Resources>, Option<u64>),
    /// That another amount or term is wanted: `spec` of the Contract.
    Wish(ContractId),
}

/// The table: what each request changes. A new one has to say so.
pub(super) fn changes(request: &Request) -> Changes<'_> {
    match request {
        Request::Status
        | Request::Peers
        | Request::Ping(_)
        | Request::Browse { .. }
        | Request::Providers
        | Request::Share
        | Request::Deals
        | Request::Statement(_)
        | Request::Federations
        | Request::Lookup(_)
        | Request::Members(_)
        | Request::Doctor
        | Request::Export
        | Request::Events(_) => Changes::Nothing,
        // Whom a MarketPolicy trusts is trusted as well, unless the owner blocks it.
        Request::Judge(..) | Request::Place(..) => Changes::OtherThings,
        Request::AddPeer(_)
        | Request::RemovePeer(_)
        | Request::Enter(_)
        | Request::Join(_)
        | Request::Leave(_)
        | Request::Token { .. }
        | Request::Revoke(..)
        | Request::Publish(..)
        | Request::RotateKey => Changes::OtherThings,
        // A purchase of its own, within the budgets of the MarketPolicy.
        Request::Order { .. } | Request::Rfq { .. } | Request::Take(_) => Changes::OtherThings,
        // An answer is given once; an Order whose contract is ended does not buy another.
        Request::Accept(_)
        | Request::Deny(..)
        | Request::Counter { .. }
        | Request::Cancel(..)
        | Request::Reclaim { .. } => Changes::OtherThings,
        Request::SetShare(_) => Changes::Share,
        Request::Amend { contract, quantity, term_s } => {
            Changes::Terms(*contract, quantity.as_ref(), *term_s)
        }
        Request::Withdraw(contract) => Changes::Wish(*contract),
        Request::Offload(offload) => Changes::Offload(offload),
        Request::Unoffload(namespace) => Changes::Unoffload(namespace),
    }
}

impl Ruling {
    /// The kinds are gone, and with them what their objects have said.
    pub(super) fn forget(&mut self) {
        *self = Self { absent: self.absent, ..Self::default() };
    }

    /// These NamespaceOffloads are there; true if they say something else than before.
    pub(super) fn take_offloads(&mut self, objects: &[NamespaceOffload]) -> bool {
        let there = objects.iter().filter(|object| !is_deleted(*object));
        let said = |object: &NamespaceOffload| {
            (object.metadata.namespace.clone().unwrap_or_default(), object.spec.clone())
        };
        let differs = replace(&mut self.offloads, there.map(said).collect());
        self.lacking.retain(|namespace, _| self.offloads.contains_key(namespace));
        differs
    }

    /// What of the NamespaceOffload of this namespace does not hold; true if that is new.
    pub(super) fn lacks(&mut self, namespace: &str, lacking: Option<Lacking>) -> bool {
        let before = match lacking.clone() {
            Some(lacking) => self.lacking.insert(namespace.to_owned(), lacking),
            None => self.lacking.remove(namespace),
        };
        before != lacking
    }

    /// What of NamespaceOffloads does not hold, by the names of their namespaces.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = (&String, &Lacking)> {
        self.lacking.iter()
    }

    /// These Contracts are there; true if they ask for something else than before.
    pub(super) fn take_contracts(&mut self, objects: &[Contract]) -> bool {
        let asks =
            |spec: &ContractSpec| ContractSpec { desired: None, reason: None, ..spec.clone() };
        let asking = objects.iter().filter_map(|object| {
            let (spec, name) = (asks(&object.spec), object.metadata.name.clone()?);
            let id = object.status.as_ref()?.id.parse().ok()?;
            (spec != ContractSpec::default()).then_some((id, (name, spec)))
        });
        replace(&mut self.contracts, asking.collect())
    }

    /// A request that is permitted, with what an object says beside it.
    fn whole(&self, request: Request) -> Request {
        let Changes::Offload(Offload { namespace, .. }) = changes(&request) else { return request };
        let Some(said) = self.offloads.get(namespace) else { return request };
        let (namespace, how) = (namespace.clone(), said.opt_in());
        Request::Offload(Offload { namespace, how, further: false })
    }

    /// Whether what a contract is now has to be known to judge this request.
    fn needs_terms(&self, changes: &Changes<'_>) -> Option<ContractId> {
        let (Changes::Terms(contract, ..) | Changes::Wish(contract)) = changes else { return None };
        self.contracts.contains_key(contract).then_some(*contract)
    }

    /// Whether an object would undo this, and how it is done there. `terms` are those of the
    /// contract that is meant, as they are now.
    ///
    /// # Errors
    /// When one would.
    pub(super) fn permits(
        &self,
        changes: &Changes<'_>,
        terms: Option<&Terms>,
    ) -> Result<(), Problem> {
        match changes {
            Changes::Nothing | Changes::OtherThings => Ok(()),
            Changes::Share if self.share => {
                Err(Problem::failed("a MarketPolicy says what is shared")
                    .todo("change it there: kubectl edit marketpolicy default"))
            }
            Changes::Share => Ok(()),
            Changes::Unoffload(namespace) => match self.offloads.get(*namespace) {
                Some(_) => Err(Problem::failed(format!(
                    "the NamespaceOffload of {namespace} lets its pods leave, and stays"
                ))
                .todo(format!(
                    "delete it: kubectl -n {namespace} delete namespaceoffload default"
                ))),
                None => Ok(()),
            },
            Changes::Offload(offload) => match self.offloads.get(&offload.namespace) {
                Some(said) => offloads(offload, said),
                None => Ok(()),
            },
            Changes::Terms(contract, quantity, term_s) => {
                let Some(((name, spec), terms)) = self.contracts.get(contract).zip(terms) else {
                    return Ok(());
                };
                let quantity = quantity.map_or_else(|| terms.quantity.clone(), Resources::clone);
                let term_s = term_s.unwrap_or(terms.term_s);
                amends(name, spec, terms, &Terms { quantity, term_s, ..terms.clone() })
            }
            Changes::Wish(contract) => {
                let Some(((name, spec), terms)) = self.contracts.get(contract).zip(terms) else {
                    return Ok(());
                };
                if !asks(spec, terms) {
                    return Ok(());
                }
                let what = format!("the Contract {name} asks for this change, and goes on to");
                let patch = json!({ "spec": { "desired": "Withdrawn" } });
                Err(Problem::failed(what)
                    .todo(format!("withdraw it there: {}", line(name, &patch))))
            }
        }
    }
}

/// Whether a Contract would ask for a change of these terms.
fn asks(spec: &ContractSpec, terms: &Terms) -> bool {
    !matches!(wanted::change(spec, terms), Ok((None, None)))
}

fn offloads(asked: &Offload, said: &NamespaceOffloadSpec) -> Result<(), Problem> {
    let (before, namespace) = (said.opt_in(), &asked.namespace);
    let wanted = asked_of(asked, &before);
    if wanted == before {
        return Ok(());
    }
    let after = NamespaceOffloadSpec {
        unreachable_after_seconds: said.unreachable_after_seconds,
        leaving: said.leaving,
        burst: said.burst,
        ..NamespaceOffloadSpec::from(&wanted)
    };
    let patch = json!({ "spec": difference(&json!(said), &json!(after)) });
    let what =
        format!("the NamespaceOffload of {namespace} says where its pods may run, and stays");
    Err(Problem::failed(what).todo(format!(
        "change it there: kubectl -n {namespace} patch namespaceoffload default --type merge -p '{patch}'"
    )))
}

/// What a request comes to where this is said already. For how long a provider may be silent, and
/// what becomes of pods before an end, is the object's alone to say.
fn asked_of(asked: &Offload, before: &OptIn) -> OptIn {
    if asked.further {
        return asked.how.clone().further(Some(before.clone()));
    }
    let OptIn { patience, when_leaving, burst, .. } = *before;
    OptIn { patience, when_leaving, burst, ..asked.how.clone() }
}

fn amends(name: &str, spec: &ContractSpec, before: &Terms, after: &Terms) -> Result<(), Problem> {
    if !asks(spec, after) {
        return Ok(());
    }
    let (was, is) = (&before.quantity, &after.quantity);
    let amount = |said: &Option<Text>, resource: Resource| {
        let (was, is) = (was.quantity(&resource), is.quantity(&resource));
        let says = said.is_some() || was != is;
        says.then(|| Text(quantity::show(&resource, is)))
    };
    let gpus = || is.gpus.iter().map(|(model, count)| format!("{model}={count}"));
    let wish = ContractSpec {
        cpu: amount(&spec.cpu, Resource::Cpu),
        memory: amount(&spec.memory, Resource::Memory),
        storage: amount(&spec.storage, Resource::Storage),
        gpu: (spec.gpu.is_some() || was.gpus != is.gpus)
            .then(|| gpus().collect::<Vec<_>>().join(",")),
        pods: (spec.pods.is_some() || was.pods != is.pods)
            .then(|| is.pods.try_into().unwrap_or(u32::MAX)),
        term: (spec.term.is_some() || before.term_s != after.term_s)
            .then(|| Seconds(after.term_s).show()),
        ..ContractSpec::default()
    };
    let patch = json!({ "spec": difference(&json!(spec), &json!(wish)) });
    let what = format!("the Contract {name} says what it is to be, and would ask for that again");
    Err(Problem::failed(what).todo(format!("change it there: {}", line(name, &patch))))
}

fn line(contract: &str, patch: &Value) -> String {
    format!("kubectl patch contract {contract} --type merge -p '{patch}'")
}

/// The JSON merge patch that makes one object of another.
fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(was), Value::Object(is)) = (before, after) else { return after.clone() };
    let gone =
        was.keys().filter(|key| !is.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let other = is.iter().filter(|(key, value)| was.get(*key) != Some(*value));
    let other = other.map(|(key, value)| {
        (key.clone(), was.get(key).map_or_else(|| value.clone(), |was| difference(was, value)))
    });
    Value::Object(gone.chain(other).collect::<Map<_, _>>())
}

fn replace<T: PartialEq>(now: &mut T, next: T) -> bool {
    let differs = *now != next;
    *now = next;
    differs
}

/// Answers a person, and does nothing that a custom resource would undo.
pub(crate) struct Ruled {
    api: Arc<dyn OperatorApi>,
    ruling: watch::Receiver<Ruling>,
}

impl Ruled {
    /// Whoever does everything, for what the objects say themselves, and the same for a person.
    pub(crate) fn over(
        api: impl OperatorApi + 'static,
        ruling: watch::Receiver<Ruling>,
    ) -> (Arc<dyn OperatorApi>, Arc<dyn OperatorApi>) {
        let api: Arc<dyn OperatorApi> = Arc::new(api);
        (api.clone(), Arc::new(Self { api, ruling }))
    }
}

impl OperatorApi for Ruled {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        async move {
            let changes = changes(&request);
            let meant = self.ruling.borrow().needs_terms(&changes);
            let deal: Option<Deal> = match meant {
                Some(id) => self.api.deals().await?.into_iter().find(|deal| deal.contract() == id),
                None => None,
            };
            let asked = {
                let ruling = self.ruling.borrow();
                ruling.permits(&changes, deal.as_ref().map(|deal| &deal.terms))?;
                ruling.whole(request)
            };
            self.api.ask(asked).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
