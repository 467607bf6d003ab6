//! What agents want done, performed: the second place, beside the daemon's driver, that
//! matches on [`Effect`] without a wildcard.

use mercato_agent::{
    Effect, GuestWork, HomeWork, Input, LeaseDesire, LeaseInput, LeaseNews, Phase,
};
use mercato_broker as broker;
use mercato_cluster_model::ApiError;
use mercato_cluster_model::sides::{
    Bodies as _, Client, GuestSide, HomeSide, NodeState, Outcome, Source,
};
use mercato_offload::placement::export::Scope;
use mercato_offload::{guest, home};
use mercato_protocol::id::ContractId;

use super::World;
use crate::engine::event::{Dial, Event, Work};
use crate::engine::packet::{Packet, carried};
use crate::engine::site::{Lease, Side, Site, Told, cluster_now};
use crate::engine::trace::note;
use crate::explore::sabotage::Sabotage;
use crate::verify::{Violation, ensure};

impl World {
    /// Does one thing that is free to be done.
    pub(crate) fn perform(&mut self, at: usize, effect: Effect) -> Result<(), Violation> {
        match effect {
            // The gate writes these, and never lets go of them.
            Effect::Persist(_) => Ok(()),
            Effect::Dial { attempt, peer, addresses: to } => {
                let (delay_ms, run) = (self.network.dial_ms(), self.sites[at].run);
                self.agenda.plan(delay_ms, Event::Dialled(Dial { at, run, attempt, peer, to }))
            }
            // What refuses connections is the daemons' network, which has its own tests.
            Effect::Ranks(_) | Effect::Rank(..) => Ok(()),
            Effect::HangUp(peer) | Effect::Refuse(peer, _) => {
                match self.sites.place_of_key(&peer) {
                    Some(peer) => self.network.disconnect(&mut self.agenda, at, peer),
                    None => Ok(()),
                }
            }
            Effect::Block(peer, blocked) => {
                match self.sites.place_of_key(&peer).filter(|_| blocked) {
                    Some(peer) => self.network.disconnect(&mut self.agenda, at, peer),
                    None => Ok(()),
                }
            }
            Effect::Gossip { peer, message } => self.send(at, peer, Packet::Gossip(message.into())),
            Effect::Negotiation { peer, message, once } => {
                self.send(at, peer, Packet::Negotiation(message, once))
            }
            Effect::Workload { peer, contract, frame } => {
                let kept = &self.sites[at].bodies;
                let named = carried(&frame).into_iter();
                let bodies = named.filter_map(|digest| kept.get(&digest)).collect();
                self.send(at, peer, Packet::Workload { contract, frame, bodies })
            }
            Effect::Lease(desire) => self.on_desire(at, *desire),
            Effect::Forget(contract) => {
                note!(self, at, "forgets lease {contract:.8}");
                self.sites[at].leases.remove(&contract);
                Ok(())
            }
            // Lines here are of peers: a lease has none of its own.
            Effect::CloseStreams(_) => Ok(()),
            Effect::Home(contract, work) => self.on_home_work(at, contract, work),
            Effect::Guest(contract, work) => self.ask(at, contract, Work::Guest(work)),
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

    fn on_home_work(
        &mut self,
        at: usize,
        contract: ContractId,
        work: HomeWork,
    ) -> Result<(), Violation> {
        let lease = self.sites[at].leases.get_mut(&contract);
        let side = lease.and_then(|lease| match &mut lease.side {
            Side::Home(side) => Some(side),
            Side::Guest(_) => None,
        });
        match (work, side) {
            (HomeWork::Watch(key), Some(side)) => side.watch(key),
            (HomeWork::Unwatch(key), Some(side)) => side.unwatch(&key),
            (HomeWork::ObjectRefused(key, refusal), _) => {
                note!(self, at, "{key} is refused: {refusal:?}");
                return Ok(());
            }
            (HomeWork::Event(pod, event), _) => {
                note!(self, at, "{}: {event:?}", pod.key());
                return Ok(());
            }
            (work, _) => return self.ask(at, contract, Work::Home(work)),
        }
        self.kube_changed(at)
    }

    /// A request on its way to the API server.
    fn ask(&mut self, at: usize, contract: ContractId, work: Work) -> Result<(), Violation> {
        match &work {
            Work::Home(work) => note!(self, at, "asks the API server: {work:?}"),
            Work::Guest(work) => note!(self, at, "asks the API server: {work:?}"),
        }
        let (delay_ms, run) = (self.dice.kube.within(2..=60), self.sites[at].run);
        self.agenda.plan(delay_ms, Event::Work { at, run, contract, work })
    }

    /// The request arrives; its answer is on its way. If the daemon dies meanwhile, what was
    /// asked for is done, and nobody hears of it.
    pub(crate) fn on_work(
        &mut self,
        at: usize,
        run: u32,
        contract: ContractId,
        work: Work,
    ) -> Result<(), Violation> {
        let (outcome, now) = (self.write_outcome(), cluster_now(self.agenda.at_ms()));
        let site = &mut self.sites[at];
        if site.run != run || site.agent.is_none() {
            return Ok(());
        }
        let Some(lease) = site.leases.get_mut(&contract) else { return Ok(()) };
        let (cluster, bodies) = (&mut site.kube, &mut site.bodies);
        let mut client = Client { cluster, bodies, now, outcome };
        let input = match (work, &mut lease.side) {
            (Work::Home(HomeWork::Confirm(pod)), Side::Home(side)) => {
                Input::Lease(contract, LeaseInput::Home(side.confirm(&mut client, &pod)))
            }
            (Work::Home(HomeWork::Write(pod, write)), Side::Home(_)) => {
                Input::Lease(contract, LeaseInput::Home(HomeSide::write(&mut client, &pod, &write)))
            }
            (Work::Guest(work), Side::Guest(side)) => {
                Input::Lease(contract, LeaseInput::Guest(at_provider(side, &mut client, work)))
            }
            (Work::Home(_), _) | (Work::Guest(_), Side::Home(_)) => return Ok(()),
        };
        note!(self, at, "API server answers: {}", brief(&input));
        self.kube_changed(at)?;
        let delay_ms = self.dice.kube.within(1..=30);
        self.agenda.plan(delay_ms, Event::Answer { at, run, input: Box::new(input) })
    }

    fn on_desire(&mut self, at: usize, desire: LeaseDesire) -> Result<(), Violation> {
        let contract = desire.contract.id;
        note!(self, at, "lease {contract:.8} is to be {:?}", desire.phase);
        let leases = &mut self.sites[at].leases;
        if let Some(lease) = leases.get_mut(&contract) {
            let (was, is) = (lease.desire.phase, desire.phase);
            ensure(was != Phase::Ended || is == Phase::Ended, || {
                format!("lease {contract:.8} was to be {was:?} and is to be {is:?} again")
            })?;
            lease.desire = desire;
        } else {
            let lie = self.sabotage.as_ref().and_then(Sabotage::lie);
            let side = match desire.side {
                broker::Side::Consumer => {
                    let mut side = HomeSide::new(&desire.contract, Scope::Labelled);
                    side.lie = lie;
                    Side::Home(Box::new(side))
                }
                broker::Side::Provider => {
                    let mut side = GuestSide::new(&desire.contract);
                    side.lie = lie;
                    Side::Guest(Box::new(side))
                }
            };
            leases.insert(contract, Lease { desire, side, told: None });
        }
        self.tend(at, contract)?;
        self.kube_changed(at)
    }

    /// The watches tell what they have to tell, and leases come closer to what is wanted.
    pub(crate) fn on_watch(&mut self, at: usize) -> Result<(), Violation> {
        self.sites[at].watch_planned = false;
        let contracts: Vec<ContractId> = self.sites[at].leases.keys().copied().collect();
        for contract in contracts {
            self.tend(at, contract)?;
            let breaks = self.faults.relists();
            let now = cluster_now(self.agenda.at_ms());
            let Site { kube, bodies, leases, run, .. } = &mut self.sites[at];
            let Some(lease) = leases.get_mut(&contract) else { continue };
            let mut client = Client { cluster: kube, bodies, now, outcome: Outcome::Answered };
            let news: Vec<Input> = match &mut lease.side {
                Side::Home(side) => {
                    if breaks {
                        side.relist();
                    }
                    let news = side.news(&mut client);
                    news.into_iter()
                        .map(|input| Input::Lease(contract, LeaseInput::Home(input)))
                        .collect()
                }
                Side::Guest(side) => {
                    if breaks {
                        side.relist();
                    }
                    let news = side.news(&mut client);
                    news.into_iter()
                        .map(|input| Input::Lease(contract, LeaseInput::Guest(input)))
                        .collect()
                }
            };
            let run = *run;
            for input in news {
                if self.sites[at].run == run && self.sites[at].agent.is_some() {
                    note!(self, at, "watch tells: {}", brief(&input));
                    self.tell(at, input)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the cluster's part of a lease as it is to be.
    fn tend(&mut self, at: usize, contract: ContractId) -> Result<(), Violation> {
        let (now, at_ms) = (cluster_now(self.agenda.at_ms()), self.agenda.at_ms());
        let site = &mut self.sites[at];
        let wall_ms = site.now(at_ms).wall_ms;
        let Some(lease) = site.leases.get_mut(&contract) else { return Ok(()) };
        let (cluster, bodies) = (&mut site.kube, &mut site.bodies);
        let mut client = Client { cluster, bodies, now, outcome: Outcome::Answered };
        let before = lease.told;
        // What fails now is tried again when the watches tell the next time.
        let told = tend(&mut client, lease, wall_ms).unwrap_or_default().or(before);
        lease.told = told;
        if self.people.are_watched() {
            self.sites[at].spread_mesh(at_ms);
        }
        match told.filter(|_| told != before) {
            None => Ok(()),
            Some(Told::Ready) => {
                self.tell(at, Input::Lease(contract, LeaseInput::News(LeaseNews::Ready)))
            }
            Some(Told::Removed) => {
                self.tell(at, Input::Lease(contract, LeaseInput::News(LeaseNews::Removed)))
            }
        }
    }
}

/// The part of a lease in its cluster, as it is to be; what can be told of it.
fn tend(
    client: &mut Client<'_>,
    lease: &mut Lease,
    wall_ms: u64,
) -> Result<Option<Told>, ApiError> {
    let LeaseDesire { contract, phase, peer_name, reachable, namespaces, .. } = &lease.desire;
    let is_over = *phase >= Phase::Draining;
    let admits = matches!(phase, Phase::Open { admit_until_ms } if wall_ms < *admit_until_ms);
    let peer_name = peer_name.as_deref();
    let node = NodeState { contract, peer_name, admits, reachable: *reachable };
    match &mut lease.side {
        Side::Home(side) if is_over => {
            side.drain(client, node).map(|gone| gone.then_some(Told::Removed))
        }
        Side::Home(side) => side.keep_node(client, node).map(|()| Some(Told::Ready)),
        Side::Guest(side) if *phase == Phase::Ended => {
            side.close(client).map(|gone| gone.then_some(Told::Removed))
        }
        Side::Guest(side) => side.open(client, contract, namespaces).map(|()| None),
    }
}

fn at_provider(side: &mut GuestSide, client: &mut Client<'_>, work: GuestWork) -> guest::Input {
    match work {
        GuestWork::Apply(item, digest, route) => {
            side.apply(client, item, Source { digest, route: &route })
        }
        GuestWork::Update(pod, digest, route) => {
            side.update(client, pod, Source { digest, route: &route })
        }
        GuestWork::Delete(item, grace_s) => side.delete(client, item, grace_s),
        GuestWork::Release(pod) => side.release(client, pod),
        GuestWork::Confirm(item) => side.confirm(client, &item),
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
