//! The world beyond clusters, as far as guests may go there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

/// Where one guest may go beyond clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Egress {
    /// It reaches nobody there at all.
    #[default]
    None,
    /// It reaches these networks and no other.
    Named(BTreeSet<IpNet>),
    /// It reaches whoever is on the Internet.
    Internet,
}

/// What the guests of a node reach beyond clusters, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outward {
    /// Networks that no guest reaches so, whatever it has bought: what is nobody's on the Internet, and what
    /// is this cluster's own.
    pub never: BTreeSet<IpNet>,
    /// Guests with [`Egress::Internet`], by their own addresses of the pod network.
    pub internet: BTreeSet<IpAddr>,
    /// Guests with [`Egress::Named`], by the same addresses.
    pub named: BTreeSet<IpAddr>,
    /// Networks that any of the latter reaches: each one's own rules say which of them are its own.
    pub to: BTreeSet<IpNet>,
}

impl Outward {
    /// By where each of these guests may go, by their own addresses, and the networks that none of them reaches.
    pub fn of(guests: &BTreeMap<IpAddr, Egress>, never: &BTreeSet<IpNet>) -> Self {
        let mut this = Self::default();
        for (guest, egress) in guests {
            match egress {
                Egress::None => {}
                Egress::Named(nets) => {
                    this.named.insert(*guest);
                    this.to.extend(nets);
                }
                Egress::Internet => drop(this.internet.insert(*guest)),
            }
        }
        if this.guests().next().is_some() {
            this.never.clone_from(never);
        }
        this
    }

    /// The guests that reach anybody so.
    pub fn guests(&self) -> impl Iterator<Item = IpAddr> {
        self.internet.iter().chain(&self.named).copied()
    }
}
