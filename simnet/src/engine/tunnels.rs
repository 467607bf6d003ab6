//! When gateways do what agents ask of them, and when they tell them what: of the tunnel of each
//! lease, and by which addresses the other cluster's pods are known. All of it takes a while.

use mercato_agent::{OwnRanges, TunnelNews};
use mercato_broker::Side;
use mercato_offload::address::GuestAddress;
use mercato_protocol::contract::Contract;
use mercato_protocol::id::ContractId;

use crate::engine::agenda::Agenda;
use crate::engine::event::Event;
use crate::engine::gateway::{Gateway, Step};
use crate::engine::network::Network;
use crate::engine::rng::Rng;
use crate::engine::sites::Sites;
use crate::verify::Violation;

/// What a gateway does or learns takes up to so many ms; of tunnels that come up, so many of a
/// thousand take longer. Guesses.
const USUAL_MS: u64 = 300;
const SLOW: u32 = 200;
const SLOW_MS: u64 = 10_000;

/// The gateways of all clusters, as far as they have to do with each other.
pub(crate) struct Tunnels {
    rng: Rng,
}

/// The clusters that gateways belong to, and what connects them.
pub(crate) struct Ground<'a> {
    pub(crate) sites: &'a mut Sites,
    pub(crate) network: &'a Network,
    pub(crate) agenda: &'a mut Agenda,
}

impl Tunnels {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed, "tunnels") }
    }

    /// Packets for a guest are to be brought to it.
    pub(crate) fn on_map(
        &mut self,
        ground: &mut Ground<'_>,
        at: usize,
        contract: ContractId,
        of: GuestAddress,
    ) -> Result<(), Violation> {
        let step = match &mut ground.sites[at].gateway {
            Some(gateway) => {
                gateway.ask(contract, of.clone());
                Step::Map(contract, of)
            }
            None => Step::Refuse(contract, of),
        };
        self.later(ground, at, step)
    }

    /// The agent has said by which addresses its own pods are known: those that know it hear of it.
    pub(crate) fn on_own_ranges(
        &mut self,
        ground: &mut Ground<'_>,
        at: usize,
        own: &OwnRanges,
    ) -> Result<(), Violation> {
        let Some(gateway) = &mut ground.sites[at].gateway else { return Ok(()) };
        gateway.name_own(own);
        self.meet(ground, at, None)
    }

    /// A lease is new to this start of the daemon.
    pub(crate) fn on_new_lease(
        &mut self,
        ground: &mut Ground<'_>,
        at: usize,
        contract: ContractId,
    ) -> Result<(), Violation> {
        let site = &ground.sites[at];
        let first = if site.gateway.is_some() { TunnelNews::Awaited } else { TunnelNews::Off };
        let lease = site.leases.get(&contract);
        if lease.is_some_and(|lease| lease.desire().side == Side::Consumer) {
            let (run, step) = (site.run, Box::new(Step::News(contract, first)));
            ground.agenda.plan(1, Event::Gateway { at, run, step })?;
        }
        self.meet_for(ground, at, contract)
    }

    /// Clusters that are connected exchange what their gateways need to know, for all leases of one
    /// of them, or for those with this other one.
    pub(crate) fn meet(
        &mut self,
        ground: &mut Ground<'_>,
        at: usize,
        peer: Option<usize>,
    ) -> Result<(), Violation> {
        let peer = peer.map(|peer| ground.sites[peer].id());
        let leases = ground.sites[at].leases.iter().filter(|(_, lease)| {
            let Contract { consumer, provider, .. } = &lease.desire().contract;
            peer.is_none_or(|peer| [consumer.cluster, provider.cluster].contains(&peer))
        });
        let all: Vec<ContractId> = leases.map(|(contract, _)| *contract).collect();
        all.into_iter().try_for_each(|contract| self.meet_for(ground, at, contract))
    }

    fn meet_for(
        &mut self,
        ground: &mut Ground<'_>,
        at: usize,
        contract: ContractId,
    ) -> Result<(), Violation> {
        let sites = &ground.sites;
        let Some(lease) = sites[at].leases.get(&contract) else { return Ok(()) };
        let Contract { consumer, provider, .. } = &lease.desire().contract;
        let places = [consumer.cluster, provider.cluster].map(|cluster| sites.place_of(cluster));
        let [Some(home), Some(provider)] = places else { return Ok(()) };
        if !ground.network.is_connected(home, provider) {
            return Ok(());
        }
        let own = sites[home].gateway.as_ref().map(Gateway::own);
        let step = match (own, &sites[provider].gateway) {
            (None, _) => return Ok(()), // its agent knows
            (Some(_), None) => Step::News(contract, TunnelNews::Off),
            (Some(None), Some(_)) => return Ok(()), // it will be said soon
            (Some(Some(own)), Some(_)) => {
                let ranges = Step::Ranges(sites[home].id(), own.clone());
                self.later(ground, provider, ranges)?;
                Step::News(contract, TunnelNews::Carries)
            }
        };
        self.later(ground, home, step)
    }

    /// It is so, or done, once some time has passed.
    pub(crate) fn later(
        &mut self,
        ground: &mut Ground<'_>,
        at: usize,
        step: Step,
    ) -> Result<(), Violation> {
        let is_slow = matches!(step, Step::News(..)) && self.rng.chance(SLOW);
        let most_ms = if is_slow { SLOW_MS } else { USUAL_MS };
        let (delay_ms, run) = (self.rng.within(5..=most_ms), ground.sites[at].run);
        ground.agenda.plan(delay_ms, Event::Gateway { at, run, step: Box::new(step) })
    }
}
