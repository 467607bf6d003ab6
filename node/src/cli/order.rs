//! `mercato order`: buy, and follow the order until its node is ready.

use std::time::Duration;

use clap::Args;
use mercato_broker::{Demand, Refusal};
use mercato_config::{Seconds, Show as _};
use mercato_kubelet::every;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use mercato_protocol::text::{Line, shown};
use serde_json::json;

use super::demand::Wanted;
use super::market;
use super::progress::Progress;
use super::rfq;
use super::screen::Screen;
use crate::admin::{Answer, Class, Deal, Offload, OperatorApi, Problem, Request, unexpected};
use crate::present::deal::peer;
use crate::present::text::{label, money, text};

/// Between two looks at an order.
const POLL: Duration = Duration::from_millis(250);

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato order --cpu 2 --memory 4Gi --gpu h100=1 --for 1d --dry-run
  mercato order --offer 3f2a91bc --wait

The best offer that suits is taken, among those of providers that you trust.
Offers are compared by their posted prices. What a provider's rules would grant you is
known from its answer alone: one that is dearer than --max-price as posted is not asked.
A provider may answer with another price: up to --max-price it is taken at once.
Above, the offer is held for as long as its owner says, some hours by default:
take it with --offer, or decline it with mercato contracts cancel.")]
pub(crate) struct Order {
    #[command(flatten)]
    wanted: Wanted,
    /// How long it is needed
    #[arg(long = "for", value_name = "DURATION", value_parser = text::<Seconds>)]
    #[arg(required_unless_present = "offer")]
    term: Option<Seconds>,
    /// Take this firm offer: the beginning of its id
    #[arg(long, value_name = "ID", conflicts_with_all = ["Wanted", "term", "dry_run", "note"])]
    offer: Option<String>,
    /// Show what there is to choose from, and why the rest does not suit; buy nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait until the node is Ready
    #[arg(long)]
    wait: bool,
    /// Let the pods of this namespace run there, or at home; out of its budget
    #[arg(long, value_name = "NS", value_parser = label)]
    namespace: Vec<String>,
    /// A word to the provider's owner
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: Line,
}

impl Order {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
        limit: Option<Duration>,
    ) -> Result<String, Problem> {
        let Self { wanted, term, offer, dry_run, wait, namespace, note } = self;
        let id = match (offer, term) {
            (Some(offer), _) => rfq::take(api, &offer).await?,
            (None, term) => {
                let mut demand = wanted.purchase(api, term.unwrap_or(Seconds(0))).await?;
                demand.namespaces = namespace.iter().cloned().collect();
                if dry_run {
                    return market::show(api, screen, demand, true).await;
                }
                buy(api, demand, note).await?
            }
        };
        for namespace in namespace {
            let offload = Offload { namespace, further: true, ..Offload::default() };
            // Its node is to come.
            api.offload(offload).await?;
        }
        if !wait {
            let deals = api.deals().await?;
            let deal = deals.iter().find(|deal| deal.id == id);
            deal.into_iter().for_each(|deal| screen.note(sent(deal)));
        }
        if wait {
            let follow = follow(api, screen, id);
            let late = |_| {
                Problem::new(Class::TimedOut, "the node is not ready yet")
                    .todo(format!("the order goes on; see: mercato contracts show {}", id.short()))
            };
            match limit {
                Some(limit) => tokio::time::timeout(limit, follow).await.map_err(late)??,
                None => follow.await?,
            }
        }
        screen.render(&json!({ "id": id }), || format!("{}\n", id.short()))
    }
}

/// What was ordered, and how to see what comes of it.
fn sent(deal: &Deal) -> String {
    let limit = deal.limit.map(|limit| format!(", up to {limit} if {} asks for more", peer(deal)));
    let (what, limit, short) = (bought(deal), limit.unwrap_or_default(), deal.id.short());
    format!("{what}{limit}; what comes of it: mercato contracts show {short}")
}

/// So much, of whom, and what the whole term comes to.
fn bought(deal: &Deal) -> String {
    let (what, total) = (deal.terms.quantity.show(), money(&deal.terms.price, deal.total));
    format!("{what} from {} for {total}", peer(deal))
}

async fn buy(api: &dyn OperatorApi, demand: Demand, note: Line) -> Result<NegotiationId, Problem> {
    let answer = api.ask(Request::Order { demand: demand.clone(), note }).await;
    let answer = match answer {
        Err(problem) if problem.class == Class::NoMatch => {
            return Err(market::unmatched(api, demand, problem).await);
        }
        answer => answer?,
    };
    if let Answer::Ordered { id, .. } = answer { Ok(id) } else { Err(unexpected(&answer)) }
}

/// Shows how far an order is, until its node is ready or it is over.
async fn follow(api: &dyn OperatorApi, screen: &Screen, id: NegotiationId) -> Result<(), Problem> {
    let mut progress = Progress::start(screen.style);
    let mut polls = every(POLL);
    let mut shown = None;
    loop {
        polls.tick().await;
        let deals = api.deals().await?;
        let deal = deals.into_iter().find(|deal| deal.id == id);
        let deal = deal.ok_or_else(|| Problem::from(Refusal::Unknown(id)))?;
        if shown != Some(deal.state) {
            shown = Some(deal.state);
            match step(&deal)? {
                Some(step) => progress.step(&step),
                None => {
                    let node = deal.node.as_deref().unwrap_or("the node");
                    progress.done(&format!("{node} is ready: {}", bought(&deal)));
                    return Ok(());
                }
            }
        }
    }
}

/// What is waited for; none: it is ready.
fn step(deal: &Deal) -> Result<Option<String>, Problem> {
    let (peer, id) = (peer(deal), deal.id.short());
    Ok(Some(match deal.state {
        State::Requested => format!("{id}: asking {peer}"),
        State::Review => format!("{id}: waiting for {peer}'s owner to approve"),
        State::Offered => format!(
            "{id}: {peer} offers {} for {}{}; to take it: mercato order --offer {id}",
            deal.terms.quantity.show(),
            money(&deal.terms.price, deal.total),
            deal.asked.as_ref().map_or_else(String::new, |asked| {
                format!(", asked {}", money(&asked.price, asked.total))
            }),
        ),
        State::Agreed => format!("{id}: both sign"),
        State::Pending => format!("{id}: the node is being made"),
        State::Suspended => format!("{id}: suspended, usage is not signed for"),
        State::Active => return Ok(None),
        State::Unknown | State::Reclaiming | State::Closed | State::Terminated => {
            let why = deal.reason.clone().unwrap_or_else(|| "without a reason".to_owned());
            let what = format!("{peer} ended order {id}: {}", shown(&why));
            return Err(Problem::new(Class::Refused, what)
                .todo("see what others offer: the same order with --dry-run"));
        }
    }))
}
