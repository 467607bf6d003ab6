//! `mercato rfq`: asks several providers at once, and shows their firm offers side by side.

use std::time::Duration;

use clap::Args;
use mercato_broker::Side;
use mercato_config::Seconds;
use mercato_kubelet::every;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use mercato_protocol::text::Line;
use serde::Serialize;

use super::demand::Wanted;
use super::global::now_ms;
use super::lookup::{self, Sought};
use super::market;
use super::screen::Screen;
use super::table::Table;
use crate::admin::{Answer, Class, Deal, OperatorApi, Problem, Request, unexpected};
use crate::present::brief;
use crate::present::deal::{peer, state};
use crate::present::text::{left, money, text};

/// Between two looks at the answers.
const POLL: Duration = Duration::from_millis(250);

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato rfq --cpu 8 --memory 32Gi --for 4h
  mercato rfq --cpu 2 --memory 4Gi --gpu h100=1 --for 1d --max-price '3 EUR/h'

Up to 20 of the providers that you trust are asked. What they offer is held for
you as long as HELD FOR says, 30 seconds where no person decides: take one with
order --offer ID, and the others lapse.")]
pub(crate) struct Rfq {
    #[command(flatten)]
    wanted: Wanted,
    /// How long it is needed
    #[arg(long = "for", value_name = "DURATION", value_parser = text::<Seconds>)]
    term: Seconds,
    /// A word to the providers' owners
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: Line,
}

/// What came of a round.
#[derive(Serialize)]
struct Round {
    round: NegotiationId,
    offers: Vec<Deal>,
}

impl Rfq {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
    ) -> Result<String, Problem> {
        let Self { wanted, term, note } = self;
        let demand = wanted.purchase(api, term).await?;
        let answer = api.ask(Request::Rfq { demand: demand.clone(), note }).await;
        let answer = match answer {
            Err(problem) if problem.class == Class::NoMatch => {
                return Err(market::unmatched(api, demand, problem).await);
            }
            answer => answer?,
        };
        let Answer::Asked { round, .. } = answer else { return Err(unexpected(&answer)) };
        let mut polls = every(POLL);
        let offers = loop {
            polls.tick().await;
            let mut deals = api.deals().await?;
            deals.retain(|deal| deal.round == Some(round));
            if deals.iter().all(|deal| deal.state != State::Requested) {
                break deals;
            }
        };
        let mut round = Round { round, offers };
        round.offers.sort_by_key(|deal| {
            (deal.state != State::Offered, deal.total.map(|total| total.micros), deal.id)
        });
        screen.render(&round, || table(&round.offers).render(screen.is_wide()))
    }
}

fn table(offers: &[Deal]) -> Table {
    let mut table = Table::new(["OFFER", "PROVIDER", "STATE", "WHAT", "TOTAL", "HELD FOR", "WHY"])
        .keep(&["OFFER", "WHAT", "TOTAL"]);
    for offer in offers {
        let held = offer.until_ms.filter(|_| offer.state == State::Offered);
        table.row([
            offer.id.short(),
            peer(offer),
            state(offer),
            brief::size(&offer.terms.quantity),
            money(&offer.terms.price, offer.total),
            left(now_ms(), held),
            offer.reason.clone().unwrap_or_default(),
        ]);
    }
    table
}

/// What a person types to mean one of them.
const OFFER: Sought = Sought {
    what: "offer",
    list: "mercato contracts",
    needs: "a firm offer that waits for your answer",
};

/// Takes a firm offer: orders what it names.
pub(crate) async fn take(api: &dyn OperatorApi, id: &str) -> Result<NegotiationId, Problem> {
    let known = OFFER;
    let offered = |deal: &Deal| deal.side == Side::Consumer && deal.state == State::Offered;
    let offer = lookup::deal(api, known, id, offered).await?;
    api.ask(Request::Take(offer.id)).await?;
    Ok(offer.id)
}
