//! IPv6 in tunnels: whether it passes, and for which pods.

use std::net::IpAddr;

use ipnet::Ipv6Net;
use mercato_agent::{Input, LeaseInput};
use mercato_broker::Side;
use mercato_machine::WantedError;
use mercato_offload::{guest, home};
use mercato_protocol::id::ContractId;
use mercato_protocol::node::LEAST_MTU_V6;
use mercato_protocol::tunnel::{SECOND_POOL, second, second_range};

use super::Keeper;
use crate::tunnel::nodes::Place;
use crate::tunnel::words::{SaidLease, SaidPod};

impl Keeper {
    /// It passes where the owner wants it, the cluster and this machine have it, and the network of
    /// the nodes takes packets of its size. Otherwise all is as if there were none.
    pub(super) fn second_now(&self) -> Result<Option<Ipv6Net>, String> {
        let has = self.second.has_pods() || self.ground.has_second();
        let Some(common) = self.common().filter(|_| has) else { return Ok(None) };
        let mtu = self.nodes.mtu(&common);
        let Some(pool) = self.ground.second()? else { return Ok(None) };
        if mtu < LEAST_MTU_V6 {
            return Err(WantedError::Small { mtu, least: LEAST_MTU_V6 }.to_string());
        }
        Ok(Some(pool))
    }

    /// By which address of IPv6 packets are carried for a pod, or brought to it; none: by none, or
    /// not yet.
    pub(super) fn second_of(
        &self,
        id: &ContractId,
        lease: &SaidLease,
        pod: &SaidPod,
    ) -> Option<IpAddr> {
        let pool = self.second.pool().filter(|_| self.end.has_second())?;
        let row = self.end.row(id)?;
        let (local, of, by_nodes) = match lease.side {
            Side::Provider => {
                let local = self.second.of_pod(&pod.of.guest)?;
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
