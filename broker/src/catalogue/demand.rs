//! What a buyer wants, and why an offer does not suit. Which offers do is the order
//! book's to find.

use std::collections::BTreeSet;

use mercato_protocol::egress::{Egress, EgressLack};
use mercato_protocol::id::ClusterId;
use mercato_protocol::price::{Currency, Money};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::Class;
use mercato_protocol::text::GpuModel;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::rank::Sort;
use crate::selector::Selector;
use crate::syntax::{Rate, Seconds, Show as _, quantity};

/// What a buyer wants. By default anything, for no time in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Demand {
    /// Of which kind: terms that all must hold.
    pub selector: Selector,
    /// How much of each resource.
    pub quantity: Resources,
    /// How long, in seconds; zero: that is not said, and an order must.
    pub term_s: u64,
    /// How firmly; none: whichever is offered.
    pub class: Option<Class>,
    /// The most that is paid.
    pub max_price: Option<Rate>,
    /// From this provider and no other.
    pub from: Option<ClusterId>,
    /// On behalf of which namespaces; their budgets must have enough left.
    pub namespaces: BTreeSet<String>,
    /// Which of those that suit comes first.
    pub sort: Sort,
    /// Whom its pods are to reach on the Internet.
    pub egress: Egress,
}

/// Why an offer does not suit.
#[derive(Clone, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Exclusion {
    /// The owner blocked the provider.
    #[error("blocked")]
    Blocked,
    /// The owner has not accepted the provider.
    #[error("not trusted")]
    Untrusted,
    /// The provider would not sign what it offers, less than an hour ago.
    #[error("it lately would not sign what it offers")]
    NotAsOffered,
    /// The provider refused as much of this very offer, and has made no new one since.
    #[error("it has just refused as much, and offers nothing new since")]
    Refused,
    /// Another provider was asked for.
    #[error("another provider was asked for")]
    OtherProvider,
    /// It is not offered as this class.
    #[error("not offered as {}", match .0 { Class::Spot => "spot", Class::Reserved => "reserved" })]
    Class(Class),
    /// The term is too short for it.
    #[error("not for less than {}", Seconds(*.0).show())]
    TermTooShort(u64),
    /// The term is too long for it.
    #[error("not for more than {}", Seconds(*.0).show())]
    TermTooLong(u64),
    /// It does not offer such a way out to the Internet.
    #[error(transparent)]
    Egress(EgressLack),
    /// Too little of a resource is free.
    #[error("{} {resource} free", quantity::show(.resource, *.free))]
    Short {
        /// The resource that is short.
        resource: Resource,
        /// What is free, in the smallest unit.
        free: u64,
        /// What was asked for, in the smallest unit.
        asked: u64,
    },
    /// Above the most that is paid.
    #[error("{total} for the whole term, at most {limit} is paid")]
    TooDear {
        /// Its price for the whole term.
        total: Money,
        /// The most that is paid for it.
        limit: Money,
    },
    /// Another currency than that of the most that is paid.
    #[error("in {0}, and currencies do not compare")]
    Currency(Currency),
    /// It has no price that can be expressed.
    #[error("its price cannot be computed")]
    Price,
    /// More than is left of a budget, or in another currency.
    #[error("{total} for the whole term, {left} is left of the budget")]
    OverBudget {
        /// Its price for the whole term.
        total: Money,
        /// What is left of the budget.
        left: Money,
    },
    /// The owner's policy does not allow so long a term.
    #[error("no order may be so long")]
    TermNotAllowed,
    /// Kinds of GPUs that are cut out of the same devices do not fit them together.
    #[error("these GPUs are cut out of the same devices")]
    Devices,
    /// More than comes with the GPUs that are asked for with it.
    #[error("{} {resource} comes with these GPUs", quantity::show(.resource, *.most))]
    BeyondShare {
        /// The resource of which there is a share.
        resource: Resource,
        /// What comes with all GPUs, in the smallest unit.
        most: u64,
        /// What was asked for, in the smallest unit.
        asked: u64,
    },
    /// Processors and memory of nodes with GPUs, and no GPUs are asked for.
    #[error(
        "sold with GPUs alone: {} cpu and {} memory come with each {model}",
        quantity::show(&Resource::Cpu, *.cpu_millis),
        quantity::show(&Resource::Memory, *.memory_bytes)
    )]
    OnlyWithGpus {
        /// A model of the pool.
        model: GpuModel,
        /// What comes with one, in thousandths of a core.
        cpu_millis: u64,
        /// What comes with one, in bytes.
        memory_bytes: u64,
    },
    /// A term of the selector, or of the owner's policy, does not hold.
    #[error("{} is {}", .attribute, .said.as_deref().unwrap_or("not said"))]
    Term {
        /// What the term is about.
        attribute: String,
        /// What the offer says of it, in the selector's units; none: nothing.
        said: Option<String>,
    },
}
