//! IPv6 in tunnels: whether it passes, and for which pods.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv6Net};
use mercato_agent::{Input, LeaseInput};
use mercato_broker::Side;
use mercato_host::WantedError;
use mercato_offload::{guest, home};
use mercato_protocol::id::ContractId;
use mercato_protocol::node::LEAST_MTU_V6;
use mercato_protocol::tunnel::{SECOND_POOL, second, second_range};

use super::{Keeper, Said};
use crate::tunnel::nodes::Place;
use crate::tunnel::second::with_second;
use crate::tunnel::table::Row;
use crate::tunnel::words::{SaidLease, SaidPod};

impl Keeper {
    /// It passes where the owner wants it, the cluster and this machine have it, and the network of
    /// the nodes takes packets of its size. Otherwise all is as if there were none.
    pub(super) fn mind_second(&mut self) {
        let (now, why) = match self.second_now() {
            Ok(pool) => (pool, None),
            Err(why) => (None, Some(why)),
        };
        if why.is_some() && self.second_off != why {
            let why = why.as_ref();
            tracing::warn!(why, "pods of other clusters are reached by IPv4 alone");
        }
        (self.second, self.second_off) = (now, why);
    }

    fn second_now(&self) -> Result<Option<Ipv6Net>, String> {
        // What an earlier run has set up stays until it is known which pods there are.
        let had = !self.knows_pods && self.had_second;
        let has = had || !self.seconds.is_empty() || self.ground.has_second();
        let Some(common) = self.common().filter(|_| has) else { return Ok(None) };
        let mtu = self.nodes.mtu(&common);
        let Some(pool) = self.ground.second()? else { return Ok(None) };
        if mtu < LEAST_MTU_V6 {
            return Err(WantedError::Small { mtu, least: LEAST_MTU_V6 }.to_string());
        }
        Ok(Some(pool))
    }

    /// Why nothing passes by IPv6, though the cluster has it and the owner wants it.
    pub(super) fn second_trouble(&self) -> Option<&str> {
        self.second_off.as_deref().or_else(|| self.end.second_trouble())
    }

    /// Behind which range pods are known by IPv6, while it passes.
    pub(super) fn second_pool(&self) -> Option<IpNet> {
        self.second.filter(|_| self.end.second_trouble().is_none()).map(IpNet::V6)
    }

    /// What is known of a lease, with what is of IPv6.
    pub(super) fn with_second(&self, row: Row, said: &Said, id: &ContractId) -> Row {
        let (Some(pool), Some(first)) = (self.second, self.ground.pool()) else { return row };
        let pods = said.pods.get(id).into_iter().flat_map(|pods| pods.values());
        let guests: BTreeSet<IpAddr> =
            pods.filter(|pod| pod.second).map(|pod| pod.of.address).collect();
        with_second(row, (first, pool), &self.seconds, &guests)
    }

    /// The ranges, with those in which the same addresses are known by IPv6.
    pub(super) fn ranges_of_both(&self, mut first: BTreeSet<IpNet>) -> BTreeSet<IpNet> {
        let pool = self.second.into_iter();
        let known =
            pool.flat_map(|pool| first.iter().filter_map(move |it| second_range(pool, *it)));
        let known: Vec<_> = known.collect();
        first.extend(known);
        first
    }

    /// By which address of IPv6 packets are carried for a pod, or brought to it; none: by none, or
    /// not yet.
    pub(super) fn second_of(
        &self,
        id: &ContractId,
        lease: &SaidLease,
        pod: &SaidPod,
    ) -> Option<IpAddr> {
        let pool = self.second.filter(|_| self.end.has_second())?;
        let row = self.end.row(id)?;
        let (local, of, by_nodes) = match lease.side {
            Side::Provider => {
                let local = self.seconds.get(&pod.of.guest, pool)?;
                let place = self.nodes.place(local, &self.pod_nodes);
                (local, &row.locals, matches!(place, Place::Here | Place::There))
            }
            Side::Consumer => {
                let mut ranges = lease.ranges.iter().map(|range| range.local);
                let range = ranges.find(|range| range.contains(&pod.of.address));
                let range = range.and_then(|range| second_range(pool, range))?;
                let is_reached = self.nodes.reach(&range) == Some(true);
                (second(pool, pod.of.address)?, &row.guests, is_reached)
            }
        };
        let is_known = of.get(&local).copied() == second(SECOND_POOL, pod.of.address);
        (is_known && by_nodes && !self.end.refuses(*id, local)).then_some(local)
    }
}

/// By which address of IPv6 packets are carried for a pod, or brought to it.
pub(super) fn second_answer(
    id: ContractId,
    side: Side,
    pod: &SaidPod,
    second: Option<IpAddr>,
) -> Input {
    let of = pod.of.clone();
    let input = match side {
        Side::Provider => LeaseInput::Guest(guest::Input::SecondMapped(of, second.is_some())),
        Side::Consumer => LeaseInput::Home(home::Input::SecondCarried(of.pod, of.address, second)),
    };
    Input::Lease(id, input)
}
