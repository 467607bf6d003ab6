//! Which clusters there are, and what they have. Which links there are follows: everybody
//! on one LAN sees everybody.

use std::fmt;
use std::str::FromStr;

use mercato_cluster_model::Script;
use serde_json::json;

use crate::site::{Site, cluster_now};

/// A named set of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topology {
    /// One that buys and one that sells.
    Pair,
    /// Five on one network, of which two sell.
    Lan,
}

impl Topology {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Pair, Self::Lan];

    /// For people.
    pub fn description(self) -> &'static str {
        match self {
            Self::Pair => "two clusters: rome buys, turin sells",
            Self::Lan => {
                "five clusters on one network: rome, siena and pisa buy, turin and milan sell"
            }
        }
    }

    /// Their names; a place is an index of this.
    pub(crate) fn clusters(self) -> &'static [&'static str] {
        match self {
            Self::Pair => &["rome", "turin"],
            Self::Lan => &["rome", "turin", "siena", "milan", "pisa"],
        }
    }

    /// Whether the cluster at a place sells; it buys otherwise.
    pub(crate) fn sells(self, at: usize) -> bool {
        matches!(self.clusters()[at], "turin" | "milan")
    }

    /// Gives a cluster its nodes and its namespaces.
    pub(crate) fn furnish(self, site: &mut Site) {
        let now = cluster_now(0);
        let room = [("cpu", "16"), ("memory", "64Gi"), ("pods", "110")];
        site.kube.add_node(now, "node-1", &room, &json!({}));
        let shop = json!({ "kind": "Namespace", "metadata": { "name": "shop" } });
        site.kube.create(now, shop).expect("the cluster is empty");
        let job = Script { ends: Some((4_000, 3)), ..Script::default() };
        site.kube.script("job:1", job);
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pair => "pair",
            Self::Lan => "lan",
        })
    }
}

impl FromStr for Topology {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|topology| topology.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no topology: pair or lan"))
    }
}
