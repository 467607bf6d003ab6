//! The owners of a run: who shares, trusts, orders and accepts, and what they do with
//! their pods. They look once a second, and do the next thing that makes sense.

use std::collections::BTreeMap;

use mercato_agent::Agent;
use mercato_broker::syntax::PriceChange;
use mercato_broker::{
    Broker, BuyPolicy, Command, Deal, Demand, Refusal, Reply, SharePolicy, Side, Standing,
};
use mercato_protocol::egress::Egress;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use mercato_protocol::resources::{Resource, Resources};

use super::objects::{is_leaving, pod_key, virtual_node};
use super::overflow;
use super::script::{Action, Script};
use super::shares::{euro, half, hourly, policy};
use super::stored::stored_key;
use crate::engine::rng::Rng;
use crate::engine::site::Site;
use crate::plan::Plan;
use crate::verify::settled::BUYERS_TEXT;

/// The owners of all clusters of a trial.
#[derive(Default)]
pub(crate) struct Owners {
    owners: Vec<Owner>,
    /// The number of the last command that was asked.
    asked: u64,
    /// They want no lease any more.
    pub(crate) leaving: bool,
}

/// The owner of one cluster, and its script.
struct Owner {
    script: Script,
    next_ms: u64,
    /// The answer is awaited since.
    waits_since_ms: Option<u64>,
    /// Which request it was to grant; one that cannot be granted is denied.
    asked: Option<NegotiationId>,
    denies: Option<NegotiationId>,
    role: Role,
}

/// What an owner does at the market.
enum Role {
    /// Sells half of what there is, or orders one lease after the other.
    Ordinary,
    /// It sells on these terms.
    Sells(Box<SharePolicy>),
    /// Orders nothing: it lets so much be bought by itself.
    Bursts(Box<BuyPolicy>),
}

/// How long an owner waits until a name is free, in ms.
const PATIENCE_MS: u64 = 60_000;

/// For how long leases are bought, in seconds: longer than a trial, and so that they end in it.
const TERM_S: u64 = 7_200;
const SHORT_TERM_S: u64 = 80;
/// So many owners of a thousand buy short leases.
const BUY_SHORT: u32 = 300;

/// So many owners of a thousand have pods that store.
const STORE: u32 = 400;

/// Notice before a lease is taken back, in seconds.
const NOTICE_S: u64 = 60;

const CORE: u64 = 1_000;
const GI: u64 = 1 << 30;

/// What each of the buyers wants.
pub(crate) fn wanted() -> Resources {
    let gpus = BTreeMap::new();
    let storage_bytes = 20 * GI;
    Resources { cpu_millis: 4 * CORE, memory_bytes: 8 * GI, pods: 10, storage_bytes, gpus }
}

impl Owners {
    pub(crate) fn new(clusters: usize, script: impl Fn(usize) -> Script) -> Self {
        let owner = |at| Owner {
            script: script(at),
            next_ms: 0,
            waits_since_ms: None,
            asked: None,
            denies: None,
            role: Role::Ordinary,
        };
        Self { owners: (0..clusters).map(owner).collect(), asked: 0, leaving: false }
    }

    /// The first buys by itself what its pods find no room for, the others sell: by chance, or as its whole
    /// script asks for.
    pub(crate) fn overflowing(clusters: usize, chance: Option<u64>) -> Self {
        let script = |at| match (at, chance) {
            (0, None) => overflow::whole(),
            (0, Some(seed)) => overflow::by_chance(seed),
            (_, _) => Script::default(),
        };
        let mut this = Self::new(clusters, script);
        for (at, owner) in this.owners.iter_mut().enumerate() {
            owner.role = match at {
                0 => Role::Bursts(Box::new(overflow::buys(chance))),
                _ => Role::Sells(Box::new(overflow::sells(at, chance))),
            };
        }
        this
    }

    /// Whether one of them buys by itself.
    pub(crate) fn overflows(&self) -> bool {
        self.owners.first().is_some_and(|owner| matches!(owner.role, Role::Bursts(_)))
    }

    pub(crate) fn on_reply(&mut self, at: usize, reply: &Result<Reply, Refusal>) {
        let owner = &mut self.owners[at];
        owner.waits_since_ms = None;
        if matches!(reply, Err(Refusal::Short(_))) {
            owner.denies = owner.asked.take();
        }
    }

    /// What the owner of a cluster asks of its agent next, and under which number.
    pub(crate) fn next_command(&mut self, look: Look<'_>, plan: &Plan) -> Option<(u64, Command)> {
        let agent = look.site.agent.as_ref()?;
        let command = match plan.sells(look.at) {
            true => self.owners[look.at].sell(agent, plan.shared(look.at).storage_bytes),
            false => self.owners[look.at].buy(look, agent.broker(), self.leaving),
        };
        self.ask(look, command?)
    }

    /// Asks the agent, and waits for the answer, though not for ever: it may have died.
    fn ask(&mut self, look: Look<'_>, command: Command) -> Option<(u64, Command)> {
        let owner = &mut self.owners[look.at];
        if owner.waits_since_ms.is_some_and(|since_ms| look.at_ms < since_ms + 5_000) {
            return None;
        }
        owner.waits_since_ms = Some(look.at_ms);
        self.asked += 1;
        Some((self.asked, command))
    }

    /// What the owner does next with its pods; the script goes on.
    pub(crate) fn next_action(&mut self, look: Look<'_>) -> Option<Action> {
        let owner = &mut self.owners[look.at];
        if owner.next_ms > look.at_ms {
            return None;
        }
        let action = owner.script.next()?;
        // A lease is worth waiting for, whatever it takes; a name is not.
        let tired = action != Action::Move && look.at_ms > owner.next_ms + PATIENCE_MS;
        if !look.allows(action) && !tired {
            return None;
        }
        let pause_ms = owner.script.advance();
        owner.next_ms = look.at_ms + pause_ms;
        Some(action)
    }

    /// Whether every script has been told.
    pub(crate) fn are_done(&self) -> bool {
        self.owners.iter().all(|owner| owner.script.is_over())
    }
}

/// An owner's look at its cluster.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) at_ms: u64,
    pub(crate) at: usize,
    pub(crate) site: &'a Site,
}

impl Look<'_> {
    /// Whether the time for it has come.
    fn allows(&self, action: Action) -> bool {
        match action {
            Action::Move => {
                let agent = self.site.agent.as_ref();
                agent.is_some_and(|agent| agent.broker().deals().any(|deal| deal.is_active()))
            }
            Action::Create(name, _) => self.site.kube.get(&pod_key(name)).is_none(),
            Action::Store(name) => self.site.kube.get(&stored_key(name)).is_none(),
            Action::Misplace => virtual_node(&self.site.kube).is_some(),
            Action::Edit(_)
            | Action::Configure
            | Action::Unconfigure
            | Action::Serve
            | Action::Unserve
            | Action::Open(_)
            | Action::Delete(..)
            | Action::Stop(..)
            | Action::Discard(_)
            | Action::Force(_)
            | Action::Evict
            | Action::Invite
            | Action::Scale(..)
            | Action::Wait => true,
        }
    }
}

impl Owner {
    /// `storage`: how many bytes of it are shared.
    fn sell(&mut self, agent: &Agent, storage: u64) -> Option<Command> {
        if agent.broker().share().is_none() {
            return Some(Command::Share(Some(match &self.role {
                Role::Sells(policy) => SharePolicy::clone(policy),
                Role::Ordinary | Role::Bursts(_) => policy(storage),
            })));
        }
        let asked = agent.broker().deals().find(|deal| {
            let change = deal.amendment().is_some_and(|change| change.state() == State::Review);
            deal.side() == Side::Provider && (deal.state() == State::Review || change)
        });
        let new = asked.is_some_and(|deal| deal.state() == State::Review);
        let asked = asked.map(|deal| deal.id());
        let denied = self.denies.take();
        match asked {
            Some(request) if denied == Some(request) => {
                Some(Command::Deny { request, text: String::new() })
            }
            Some(request) => {
                self.asked = Some(request);
                // One in three at another price.
                let price = Some(cheaper()).filter(|_| new && request.0[0].is_multiple_of(3));
                Some(match price {
                    Some(_) => Command::Counter { request, price, quantity: None, hold_s: None },
                    None => Command::Accept(request),
                })
            }
            None => {
                // One lease in five is taken back.
                let sold = |deal: &&Deal| {
                    let taken = deal.side() == Side::Provider && deal.id().0[2].is_multiple_of(5);
                    taken && deal.state() == State::Active
                };
                let contract = agent.broker().deals().find(sold)?.id().into();
                let (notice_s, text) = (Some(NOTICE_S), String::new());
                Some(Command::Reclaim { contract, notice_s, text })
            }
        }
    }

    /// One lease for as long as it takes; every provider seen is trusted. One in three is bought by a
    /// round of firm offers.
    fn buy(&self, look: Look<'_>, broker: &Broker, leaving: bool) -> Option<Command> {
        if let Role::Bursts(policy) = &self.role {
            let is_said = broker.buy().is_some_and(|said| said.bursts.is_some());
            return (!is_said).then(|| Command::Buy(Some(BuyPolicy::clone(policy))));
        }
        let now = look.site.now(look.at_ms);
        let live = broker.deals().find(|deal| deal.end().is_none());
        let live: Option<NegotiationId> = live.map(|deal| deal.id());
        if leaving {
            let text = BUYERS_TEXT.to_owned();
            return live.map(|deal| Command::Cancel { deal, text });
        }
        if let Some(id) = live {
            let deal = broker.deal(&id)?;
            if deal.state() == State::Offered {
                return Some(Command::Take(id));
            }
            return match self.script.buys_short() {
                true => extended(look, deal),
                false => enlarged(deal),
            };
        }
        if self.script.is_over() {
            return None;
        }
        let round = broker.deals().count() % 3 == 1;
        let seen: Vec<_> = broker.providers(now).map(|(provider, ..)| provider).collect();
        if seen.is_empty() {
            return None;
        }
        let stranger = seen.into_iter().find(|one| broker.standing(one) == Standing::Stranger);
        if let Some(peer) = stranger {
            return Some(Command::Peer(peer, Standing::Trusted));
        }
        let term_s = if self.script.buys_short() { SHORT_TERM_S } else { TERM_S };
        let asks = broker.deals().count().is_multiple_of(2);
        let egress = if asks { half() } else { Egress::None };
        let demand = Demand { quantity: wanted(), term_s, egress, ..Demand::default() };
        let note = String::new();
        Some(match round {
            true => Command::Rfq { demand, note },
            false => Command::Order { demand, note, id: None },
        })
    }
}

/// One in two leases is made longer and larger.
fn enlarged(deal: &Deal) -> Option<Command> {
    let chosen = deal.id().0[1].is_multiple_of(2);
    let first = deal.terms().quantity == wanted() && deal.amendment().is_none();
    if !chosen || !first || deal.state() != State::Active {
        return None;
    }
    let (memory_bytes, storage_bytes) = (10 * GI, 30 * GI);
    let quantity = Some(Resources { memory_bytes, storage_bytes, ..wanted() });
    Some(Command::Amend { contract: deal.id().into(), quantity, term_s: Some(9_000) })
}

/// Three in four short leases are made longer once their node says that it leaves; the others end.
fn extended(look: Look<'_>, deal: &Deal) -> Option<Command> {
    let contract = deal.id().into();
    let chosen = !deal.id().0[3].is_multiple_of(4);
    let first = deal.terms().term_s < TERM_S && deal.amendment().is_none();
    let extends = chosen && first && deal.is_active() && is_leaving(&look.site.kube, contract);
    extends.then_some(Command::Amend { contract, quantity: None, term_s: Some(TERM_S) })
}

fn cheaper() -> PriceChange {
    let lines = [(Resource::Cpu, Some(hourly(35_000)))].into();
    PriceChange::Lines { currency: Some(euro()), lines }
}

/// Stories that are put together by chance, one for each cluster.
pub(crate) fn by_chance(plan: &Plan, seed: u64) -> impl Fn(usize) -> Script {
    let roles = (0..plan.clusters.len()).map(|at| (plan.sells(at), plan.clusters[at].character));
    let roles: Vec<_> = roles.collect();
    move |at| match roles[at] {
        (_, Some(_)) => Script::default(),
        (true, None) => Script::of_seller(&mut Rng::new(seed, &format!("seller {at}"))),
        (false, None) => {
            let script = Script::of_buyer(&mut Rng::new(seed, &format!("buyer {at}")));
            let mut rng = Rng::new(seed, &format!("stored {at}"));
            let stores = rng.chance(STORE);
            let script = if stores { script.storing(&mut rng) } else { script };
            script.opening().buying_short(Rng::new(seed, &format!("term {at}")).chance(BUY_SHORT))
        }
    }
}
