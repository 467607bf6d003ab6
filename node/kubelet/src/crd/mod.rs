//! The four custom resources by which kubectl alone shares, browses, buys and uses:
//! their types, out of which the manifests of `config/deploy/crds.yaml` are made, and the
//! few requests that are made of them.
//!
//! What they mean is the daemon's. Amounts, times, prices and selectors are plain text
//! here, in the one syntax that command line and configuration have too: the schema keeps
//! out what is clearly none, the daemon says where the rest is wrong.

#![allow(clippy::duplicated_attributes, reason = "kube's derive takes one for each column")]
#![allow(unreachable_pub, reason = "kube's derive makes such types inside of its functions")]
#![allow(clippy::duplicated_attributes, reason = "printer columns of one type, or of one priority")]

mod condition;
mod contract;
mod market_policy;
mod namespace_offload;
mod objects;
mod order;
#[cfg(test)]
mod tests;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;
use kube::CustomResourceExt as _;

pub use condition::{Condition, READY};
pub use contract::{Contract, ContractSpec, ContractStatus, Desired};
pub use market_policy::{MarketPolicy, MarketPolicySpec, MarketPolicyStatus};
pub use namespace_offload::{
    ApiAccess, NamespaceOffload, NamespaceOffloadSpec, NamespaceOffloadStatus, Secrets, Strategy,
};
pub use objects::{EventType, Objects, Resource, installed, is_deleted, is_held};
pub use order::{Candidate, Order, OrderSpec, OrderStatus, ProviderClass, Sort};

/// What `kubectl get crds` lists.
pub fn definitions() -> Vec<extensions::CustomResourceDefinition> {
    vec![Contract::crd(), MarketPolicy::crd(), NamespaceOffload::crd(), Order::crd()]
}
