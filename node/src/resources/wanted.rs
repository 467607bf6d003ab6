//! From the text of a manifest to what the daemon understands. An error says in which
//! field, at which character, and what would be right.

use std::collections::BTreeSet;

use mercato_broker::{BuyPolicy, Demand, SharePolicy, Standing, size};
use mercato_config::{Buy, FromText, Gpus, Seconds, Share, SyntaxError, Text, Written, quantity};
use mercato_kubelet::crd::{ContractSpec, OrderSpec, ProviderClass, Sort};
use mercato_protocol::contract::Terms;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ClusterId;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::Class;
use serde::de::DeserializeOwned;

use crate::admin::Provider;

/// What is wrong with a spec, for a condition.
pub(super) type Wrong = String;

/// What is shared: as in the configuration file.
pub(super) fn share(spec: &Written<Share>) -> Result<SharePolicy, Wrong> {
    Ok(read("spec.share", spec)?.policy())
}

/// What may be bought: as in the configuration file.
pub(super) fn buy(spec: &Written<Buy>) -> Result<BuyPolicy, Wrong> {
    Ok(read("spec.buy", spec)?.policy())
}

fn read<T: DeserializeOwned>(part: &str, spec: &Written<T>) -> Result<T, Wrong> {
    serde_path_to_error::deserialize(spec.texts()).map_err(|error| {
        let (path, why) = (error.path().to_string(), error.inner());
        if path == "." { format!("{part}: {why}") } else { format!("{part}.{path}: {why}") }
    })
}

/// What an Order of a namespace wants; `providers` are those who offer something.
pub(super) fn demand(
    namespace: &str,
    spec: &OrderSpec,
    providers: &[Provider],
) -> Result<Demand, Wrong> {
    let gpus: Option<Gpus> = text("gpu", spec.gpu.as_deref())?;
    let Seconds(term_s) = at("for", Seconds::from_text(&spec.term))?;
    let quantity = Resources {
        cpu_millis: at("cpu", quantity::of(&Resource::Cpu, &spec.cpu.0))?,
        memory_bytes: at("memory", quantity::of(&Resource::Memory, &spec.memory.0))?,
        pods: spec.pods.into(),
        storage_bytes: match &spec.storage {
            Some(Text(text)) => at("storage", quantity::of(&Resource::Storage, text))?,
            None => 0,
        },
        gpus: gpus.unwrap_or_default().0,
    };
    size::check(&quantity).map_err(|error| format!("spec: {error}"))?;
    Ok(Demand {
        selector: text("selector", spec.selector.as_deref())?.unwrap_or_default(),
        quantity,
        term_s,
        class: spec.class.map(|class| match class {
            ProviderClass::Reserved => Class::Reserved,
            ProviderClass::Spot => Class::Spot,
        }),
        max_price: text("maxPrice", spec.max_price.as_deref())?,
        from: spec.from.as_deref().map(|from| provider(from, providers)).transpose()?,
        namespaces: BTreeSet::from([namespace.to_owned()]),
        egress: match &spec.egress[..] {
            [] => Egress::None,
            words => mercato_config::egress(&words.join(","))
                .map_err(|why| format!("spec.egress: {why}"))?,
        },
        sort: spec.sort.map_or_else(mercato_broker::Sort::default, |sort| match sort {
            Sort::Price => mercato_broker::Sort::Price,
            Sort::Rtt => mercato_broker::Sort::Rtt,
            Sort::Carbon => mercato_broker::Sort::Carbon,
            Sort::Score => mercato_broker::Sort::Score,
        }),
    })
}

/// What a Contract is to be where that is not what it says now: so much, so long in all.
pub(super) fn change(
    spec: &ContractSpec,
    terms: &Terms,
) -> Result<(Option<Resources>, Option<u64>), Wrong> {
    let amount = |field, resource: Resource, text: &Option<Text>| match text {
        Some(Text(text)) => at(field, quantity::of(&resource, text)),
        None => Ok(terms.quantity.quantity(&resource)),
    };
    let gpus: Option<Gpus> = text("gpu", spec.gpu.as_deref())?;
    let quantity = Resources {
        cpu_millis: amount("cpu", Resource::Cpu, &spec.cpu)?,
        memory_bytes: amount("memory", Resource::Memory, &spec.memory)?,
        pods: spec.pods.map_or(terms.quantity.pods, u64::from),
        storage_bytes: amount("storage", Resource::Storage, &spec.storage)?,
        gpus: gpus.map_or_else(|| terms.quantity.gpus.clone(), |Gpus(gpus)| gpus),
    };
    size::check(&quantity).map_err(|error| format!("spec: {error}"))?;
    let quantity = quantity.of_models(terms.quantity.gpus.keys());
    let term: Option<Seconds> = text("for", spec.term.as_deref())?;
    let term_s = term.map(|Seconds(term_s)| term_s).filter(|term_s| *term_s != terms.term_s);
    Ok(((quantity != terms.quantity).then_some(quantity), term_s))
}

fn text<T: FromText>(field: &str, text: Option<&str>) -> Result<Option<T>, Wrong> {
    text.map(|text| at(field, T::from_text(text))).transpose()
}

fn at<T>(field: &str, read: Result<T, SyntaxError>) -> Result<T, Wrong> {
    read.map_err(|error| format!("spec.{field}: {}", error.line()))
}

/// By fingerprint, or by a name that one provider has; of several of that name the one
/// that is trusted is meant.
fn provider(from: &str, providers: &[Provider]) -> Result<ClusterId, Wrong> {
    if let Ok(cluster) = from.parse() {
        return Ok(cluster);
    }
    let named: Vec<_> = providers.iter().filter(|provider| provider.name == from).collect();
    let trusted = named.iter().filter(|provider| provider.standing == Standing::Trusted);
    match (&named[..], &trusted.collect::<Vec<_>>()[..]) {
        ([one], _) => Ok(one.cluster),
        (_, [one]) => Ok(one.cluster),
        ([], _) => Err(format!("spec.from: nobody called {from:?} offers anything")),
        _ => Err(format!(
            "spec.from: {} providers are called {from:?}: say the fingerprint of one",
            named.len()
        )),
    }
}
