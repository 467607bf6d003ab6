//! `mercato reclaim`: takes back what was sold, with notice.

use clap::Args;
use mercato_broker::Side;
use mercato_config::{Seconds, Show as _};
use mercato_protocol::negotiation::State;
use mercato_protocol::text::Line;

use super::global::now_ms;
use super::lookup::{self, Sought};
use super::screen::Screen;
use crate::admin::{Class, Deal, OperatorApi, Problem, Request};
use crate::present::deal::peer;
use crate::present::text::{left, text};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato reclaim 3f2a91bc
  mercato reclaim 3f2 --notice 10m --reason 'a broken fan'

Less notice than the contract promises is a credit on its invoice.")]
pub(crate) struct Reclaim {
    /// The beginning of the contract's id
    contract: String,
    /// How long before the buyer's pods are ended [default: as the contract promises]
    #[arg(long, value_name = "DURATION", value_parser = text::<Seconds>)]
    notice: Option<Seconds>,
    /// What the consumer is told
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: Line,
}

/// What a person types to mean one of them.
const SOLD: Sought = Sought {
    what: "contract",
    list: "mercato contracts",
    needs: "a running contract that this cluster sold",
};

impl Reclaim {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
    ) -> Result<String, Problem> {
        let Self { contract, notice, reason } = self;
        let sold = |deal: &Deal| {
            let runs = matches!(deal.state, State::Active | State::Suspended | State::Reclaiming);
            deal.side == Side::Provider && runs
        };
        let deal = lookup::deal(api, SOLD, &contract, sold).await?;
        if deal.state == State::Reclaiming {
            return Err(taken_back(&deal));
        }
        let promised = Seconds(deal.terms.reclaim_notice_s);
        let given = notice.unwrap_or(promised);
        let (short, peer) = (deal.id.short(), peer(&deal));
        let missing = if given.0 < promised.0 {
            format!("; the contract promises {}, the rest is a credit", promised.show())
        } else {
            String::new()
        };
        let said = format!("{short}: {peer}'s pods here are ended in {}{missing}", given.show());
        screen.confirm(&said, "take it back?")?;
        let notice_s = notice.map(|Seconds(seconds)| seconds);
        let contract = deal.contract();
        api.tell(Request::Reclaim { contract, notice_s, text: reason }).await?;
        Ok(screen.done(format!("{short} ends in {}; {peer} is told", given.show())))
    }
}

/// A notice that was given stands: the buyer counts on it.
fn taken_back(deal: &Deal) -> Problem {
    let (short, left) = (deal.id.short(), left(now_ms(), deal.until_ms));
    let said =
        format!("{short} is taken back already, and ends in {left}: a notice stands as given");
    let todo = format!("to end it at once, for a credit: mercato contracts cancel {short}");
    Problem::new(Class::NoMatch, said).todo(todo)
}
