//! What agents want done, performed: the second place, beside the daemon's driver, that
//! matches on [`Effect`] without a wildcard.

use mercato_agent::{BrokerInput, Effect, HomeWork, Input, LeaseDesire, LeaseInput, Work, demand};
use mercato_broker::{Refusal, Reply};
use mercato_cluster_model::sides::{Bodies as _, Outcome};
use mercato_offload::address::GuestAddress;
use mercato_offload::key::{ObjectKind, PodId};
use mercato_offload::placement::export::Scope;
use mercato_offload::{guest, home};
use mercato_protocol::id::ContractId;

use super::World;
use crate::engine::event::{Dial, Event};
use crate::engine::gateway::Step;
use crate::engine::lease::Lease;
use crate::engine::packet::{Packet, carried};
use crate::engine::site::cluster_now;
use crate::engine::trace::note;
use crate::explore::sabotage::Sabotage;
use crate::verify::Violation;
use crate::workload::Trading;

impl World {
    /// Does one thing that is free to be done.
    pub(super) fn perform(&mut self, at: usize, effect: Effect) -> Result<(), Violation> {
        match effect {
            // The gate writes these, and never lets go of them.
            Effect::Persist(_) => Ok(()),
            Effect::Dial { attempt, peer, addresses: to } => {
                let (delay_ms, run) = (self.network.dial_ms(), self.sites[at].run);
                self.agenda.plan(delay_ms, Event::Dialled(Dial { at, run, attempt, peer, to }))
            }
            // What refuses connections is the daemons' network, which has its own tests.
            Effect::Ranks(_) | Effect::Rank(..) => Ok(()),
            Effect::HangUp(peer) | Effect::Refuse(peer, _) | Effect::Block(peer, true) => {
                match self.sites.place_of_key(&peer) {
                    Some(peer) => self.network.hang_up(&mut self.agenda, at, peer),
                    None => Ok(()),
                }
            }
            Effect::Block(_, false) => Ok(()),
            Effect::Gossip { peer, message } => self.send(at, peer, Packet::Gossip(message.into())),
            Effect::Negotiation { peer, message, once } => {
                self.send(at, peer, Packet::Negotiation(message, once))
            }
            Effect::Workload { peer, contract, frame } => {
                let kept = &self.sites[at].bodies;
                let named = carried(&frame).into_keys();
                let bodies = named.filter_map(|digest| kept.get(&digest).here()).collect();
                self.send(at, peer, Packet::Workload { contract, frame, bodies })
            }
            Effect::Lease(desire) => self.on_desire(at, *desire),
            Effect::Forget(contract) => {
                note!(self, at, "forgets lease {contract:.8}");
                self.sites[at].forget(contract)
            }
            // Lines here are of peers: a lease has none of its own.
            Effect::CloseStreams(_) => Ok(()),
            Effect::Work(contract, Work::Home(work)) => on_home_work(self, at, contract, work),
            Effect::Work(contract, work @ Work::Guest(_)) => self.ask(at, contract, work),
            Effect::Carry(contract, pod, address) => {
                self.later(at, Step::Carry(contract, pod, address))
            }
            Effect::CarrySecond(contract, pod, address, there) => {
                self.later(at, Step::CarrySecond(contract, pod, address, there))
            }
            Effect::Map(contract, of) => map(self, at, contract, of),
            Effect::Unmap(contract, pod) => {
                unmap(self, at, contract, &pod);
                Ok(())
            }
            Effect::OwnRanges(own) => {
                let (tunnels, mut ground) = self.tunnels();
                tunnels.on_own_ranges(&mut ground, at, &own)
            }
            Effect::Reply(number, reply) => {
                note!(self, at, "reply {number}: {reply:?}");
                self.on_reply(at, number, &reply);
                Ok(())
            }
            Effect::Federation(number, answer) => {
                note!(self, at, "federation {number}: {answer:?}");
                Ok(())
            }
            // Owners here join no federation: strangers and those whom they trust are enough.
            Effect::Join { .. } | Effect::Introduce => Ok(()),
            Effect::Notice(notice) => {
                note!(self, at, "notice: {notice:?}");
                self.measures.on_notice(self.agenda.at_ms(), &notice);
                Ok(())
            }
        }
    }

    /// The gateway does so once some time has passed.
    fn later(&mut self, at: usize, step: Step) -> Result<(), Violation> {
        note!(self, at, "asks the gateway: {step:?}");
        let (tunnels, mut ground) = self.tunnels();
        tunnels.later(&mut ground, at, step)
    }

    /// A request on its way to the API server.
    fn ask(&mut self, at: usize, contract: ContractId, work: Work) -> Result<(), Violation> {
        match &work {
            Work::Home(work) => note!(self, at, "asks the API server: {work:?}"),
            Work::Guest(work) => note!(self, at, "asks the API server: {work:?}"),
        }
        let (delay_ms, run) = (self.rng.kube.within(2..=60), self.sites[at].run);
        self.agenda.plan(delay_ms, Event::Work { at, run, contract, work })
    }

    /// The request arrives; its answer is on its way. If the daemon dies meanwhile, what was
    /// asked for is done, and nobody hears of it.
    pub(in crate::engine) fn on_work(
        &mut self,
        at: usize,
        run: u32,
        contract: ContractId,
        work: Work,
    ) -> Result<(), Violation> {
        let outcome = self.faults.write_outcome(&mut self.rng.kube);
        let (now, site) = (cluster_now(self.agenda.at_ms()), &mut self.sites[at]);
        if !site.runs(run) {
            return Ok(());
        }
        let asked = site.at_lease(contract, now, outcome);
        let answer = asked.and_then(|(lease, mut client)| lease.work(&mut client, work));
        let Some(answer) = answer else { return self.kube_changed(at) };
        let input = Input::Lease(contract, answer);
        note!(self, at, "API server answers: {}", brief(&input));
        self.kube_changed(at)?;
        let delay_ms = self.rng.kube.within(1..=30);
        self.agenda.plan(delay_ms, Event::Answer { at, run, input: Box::new(input) })
    }

    fn on_desire(&mut self, at: usize, desire: LeaseDesire) -> Result<(), Violation> {
        let contract = desire.contract.id;
        note!(self, at, "lease {contract:.8} is to be {:?}", desire.phase);
        let leases = &mut self.sites[at].leases;
        if let Some(lease) = leases.get_mut(&contract) {
            lease.change(desire)?;
        } else {
            let lie = self.sabotage.as_ref().and_then(Sabotage::lie);
            leases.insert(contract, Lease::new(desire, lie));
            let (tunnels, mut ground) = self.tunnels();
            tunnels.on_new_lease(&mut ground, at, contract)?;
        }
        self.tend(at, contract)?;
        self.kube_changed(at)
    }

    /// The watches tell what they have to tell, and leases come closer to what is wanted.
    pub(in crate::engine) fn on_watch(&mut self, at: usize) -> Result<(), Violation> {
        for contract in self.sites[at].on_watch() {
            self.tend(at, contract)?;
            let breaks = self.faults.relists();
            let (now, site) = (cluster_now(self.agenda.at_ms()), &mut self.sites[at]);
            let run = site.run;
            let watched = site.at_lease(contract, now, Outcome::Answered);
            let news = watched.map(|(lease, mut client)| lease.news(&mut client, breaks));
            for input in news.into_iter().flatten() {
                if self.sites[at].runs(run) {
                    note!(self, at, "watch tells: {}", brief(&input));
                    self.tell(at, input)?;
                }
            }
        }
        self.tell_pending(at)
    }

    /// Tells an agent of the pods that find no room, if they are others than before.
    pub(in crate::engine) fn tell_pending(&mut self, at: usize) -> Result<(), Violation> {
        let site = &mut self.sites[at];
        if !self.workload.owners.overflows() || site.agent.is_none() {
            return Ok(());
        }
        let Some(pods) = site.pending.news(&site.kube, Scope::Labelled) else { return Ok(()) };
        let demand = Box::new(demand(pods));
        note!(self, at, "pods without room: {demand:?}");
        self.checks.bursts.on_told(at, self.agenda.at_ms(), &demand);
        self.tell(at, Input::Broker(BrokerInput::Pending(demand)))
    }

    /// Makes the cluster's part of a lease as it is to be.
    pub(in crate::engine) fn tend(
        &mut self,
        at: usize,
        contract: ContractId,
    ) -> Result<(), Violation> {
        let (at_ms, site) = (self.agenda.at_ms(), &mut self.sites[at]);
        let wall_ms = site.now(at_ms).wall_ms;
        let kept = site.at_lease(contract, cluster_now(at_ms), Outcome::Answered);
        let Some((lease, mut client)) = kept else { return Ok(()) };
        let news = lease.tend(&mut client, wall_ms);
        if self.workload.is_checked() {
            site.spread_mesh(at_ms);
        }
        news.map_or(Ok(()), |input| self.tell(at, input))
    }

    /// An agent answers its owner.
    fn on_reply(&mut self, at: usize, number: u64, reply: &Result<Reply, Refusal>) {
        match self.trading(at) {
            Some(mut trading) => trading.on_order(number, reply),
            None => self.workload.owners.on_reply(at, reply),
        }
    }

    /// The people of a cluster at the market, if there is one.
    pub(in crate::engine) fn trading(&mut self, at: usize) -> Option<Trading<'_>> {
        let (at_ms, plan, sites) = (self.agenda.at_ms(), &self.plan, &self.sites);
        let (market, measures) = (self.workload.market.as_mut()?, &mut self.measures);
        Some(Trading { at_ms, at, plan, sites, market, measures })
    }
}

/// What is said of a lease; of a list only its length.
fn brief(input: &Input) -> String {
    if let Input::Lease(_, LeaseInput::Home(home::Input::Synced(pods))) = input {
        return format!("Synced {} pods", pods.len());
    }
    if let Input::Lease(_, LeaseInput::Guest(guest::Input::Synced(all))) = input {
        return format!("Synced {} guests", all.len());
    }
    format!("{input:?}")
}

fn map(
    world: &mut World,
    at: usize,
    contract: ContractId,
    of: GuestAddress,
) -> Result<(), Violation> {
    note!(world, at, "asks the gateway: {of:?}");
    let (tunnels, mut ground) = world.tunnels();
    tunnels.on_map(&mut ground, at, contract, of)
}

fn unmap(world: &mut World, at: usize, contract: ContractId, pod: &PodId) {
    note!(world, at, "asks the gateway to forget {}", pod.key());
    world.sites[at].unmap(contract, pod);
}

fn on_home_work(
    world: &mut World,
    at: usize,
    contract: ContractId,
    work: HomeWork,
) -> Result<(), Violation> {
    if let HomeWork::ObjectRefused(key, refusal) = &work {
        note!(world, at, "{key} is refused: {refusal:?}");
    }
    let lease = world.sites[at].leases.get_mut(&contract);
    match (work, lease.and_then(Lease::home)) {
        (HomeWork::Watch(key), Some(side)) => side.watch(key),
        (HomeWork::Unwatch(key), Some(side)) => side.unwatch(&key),
        (HomeWork::ObjectRefused(key, _), Some(side)) if key.kind == ObjectKind::Claim => {
            side.claim_refused(key);
        }
        (HomeWork::ObjectRefused(..), _) => return Ok(()),
        (HomeWork::Event(pod, event), _) => {
            note!(world, at, "{}: {event:?}", pod.key());
            return Ok(());
        }
        (work, _) => return world.ask(at, contract, Work::Home(work)),
    }
    world.kube_changed(at)
}
