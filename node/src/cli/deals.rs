//! `mercato contracts`: what was ordered and agreed, and what it cost.

use clap::{Args, Subcommand};
use mercato_broker::Side;
use mercato_config::{Seconds, Show as _};
use mercato_protocol::negotiation::State;
use mercato_protocol::text::Line;

use super::change::{self, Quantity};
use super::global::now_ms;
use super::lookup::{self, CONTRACT};
use super::screen::Screen;
use super::statement;
use super::table::{Table, pairs};
use crate::admin::{Deal, OperatorApi, Problem, Request};
use crate::present::brief;
use crate::present::deal::{is_running, peer, rows, state};
use crate::present::text::{left, moment, money, text};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato contracts
  mercato contracts statement 3f2a91bc")]
pub(crate) struct Contracts {
    #[command(subcommand)]
    what: Option<ContractsWhat>,
}

#[derive(Debug, Subcommand)]
enum ContractsWhat {
    /// Open orders and running contracts (the default)
    #[command(after_help = "Examples:
  mercato contracts list
  mercato contracts list --all -o wide")]
    List {
        /// Those that are over, too
        #[arg(long)]
        all: bool,
    },
    /// Show all that was agreed
    #[command(after_help = "Examples:
  mercato contracts show 3f2a91bc
  mercato contracts show 3f2 -o yaml")]
    Show {
        /// The beginning of its id
        id: String,
    },
    /// Let a contract run longer, at its price
    #[command(after_help = "Examples:
  mercato contracts extend 3f2a91bc --for 2h
  mercato contracts extend 3f2 --for 1d")]
    Extend {
        /// The beginning of its id
        id: String,
        /// How much longer than now agreed it runs: 2h more (spec.for of a Contract is the whole term)
        #[arg(long = "for", value_name = "DURATION", value_parser = text::<Seconds>)]
        by: Seconds,
    },
    /// Make a contract larger or smaller, at its price
    #[command(after_help = "Examples:
  mercato contracts resize 3f2a91bc --cpu 16
  mercato contracts resize 3f2 --cpu 4 --memory 8Gi")]
    #[command(override_usage = "mercato contracts resize <ID> [OPTIONS]")]
    Resize {
        /// The beginning of its id
        id: String,
        #[command(flatten)]
        quantity: Quantity,
    },
    /// Withdraw a change that the provider has not answered yet
    #[command(after_help = "Examples:
  mercato contracts withdraw 3f2a91bc
  mercato contracts withdraw 3f2 -o json")]
    Withdraw {
        /// The beginning of its id
        id: String,
    },
    /// End an order or a contract, or decline an offer: pods are drained, then the node goes
    #[command(after_help = "Examples:
  mercato contracts cancel 3f2a91bc
  mercato contracts cancel 3f2 --reason 'done early' --yes")]
    Cancel {
        /// The beginning of its id
        id: String,
        /// Told to the other side
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        reason: Line,
    },
    /// What is billed so far, by what both sides have signed
    Statement(statement::Asked),
}

impl Contracts {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
    ) -> Result<String, Problem> {
        match self.what.unwrap_or(ContractsWhat::List { all: false }) {
            ContractsWhat::List { all } => {
                let mut deals = api.deals().await?;
                deals.retain(|deal| deal.state != State::Review || deal.side == Side::Consumer);
                deals.retain(|deal| all || is_running(deal));
                deals.sort_by_key(|deal| (!is_running(deal), deal.until_ms, deal.id));
                screen.render(&deals, || {
                    if deals.is_empty() {
                        return "nothing is ordered, bought or sold now\n".to_owned();
                    }
                    let wide = screen.is_wide();
                    table(&deals.iter().collect::<Vec<_>>(), now_ms(), wide).render(wide)
                })
            }
            ContractsWhat::Show { id } => {
                let deal = lookup::deal(api, CONTRACT, &id, |_| true).await?;
                screen.render(&deal, || page(&deal))
            }
            ContractsWhat::Extend { id, by } => change::extend(api, screen, &id, by).await,
            ContractsWhat::Resize { id, quantity } => {
                change::resize(api, screen, &id, quantity).await
            }
            ContractsWhat::Withdraw { id } => change::withdraw(api, screen, &id).await,
            ContractsWhat::Cancel { id, reason } => cancel(api, screen, &id, reason).await,
            ContractsWhat::Statement(asked) => asked.perform(api, screen).await,
        }
    }
}

async fn cancel(
    api: &dyn OperatorApi,
    screen: &Screen,
    id: &str,
    reason: Line,
) -> Result<String, Problem> {
    let deal = lookup::deal(api, CONTRACT, id, is_running).await?;
    let (short, peer) = (deal.id.short(), peer(&deal));
    let what = deal.terms.quantity.show();
    let until = deal.until_ms.map_or_else(String::new, |ms| format!(", until {} UTC", moment(ms)));
    let said = match (deal.side, deal.state) {
        (Side::Consumer, State::Active | State::Suspended | State::Reclaiming | State::Pending) => {
            format!("{short}: {what} from {peer}{until}; its node and the pods on it are ended")
        }
        (Side::Provider, State::Active | State::Suspended | State::Reclaiming | State::Pending) => {
            format!(
                "{short}: {what} sold to {peer}{until}; the buyer's pods here are ended, and what \
                 notice is missing is a credit; to give notice: mercato reclaim {short}"
            )
        }
        _ => format!("{short}: {what}, not agreed yet with {peer}"),
    };
    screen.confirm(&said, "end it?")?;
    api.tell(Request::Cancel(deal.id, reason)).await?;
    Ok(screen.done(format!("{short} is being ended; see: mercato contracts show {short}")))
}

/// Orders and contracts, a line each. Where one is over, or in a `wide` table, what was billed of
/// each stands beside what its whole term comes to, which nobody pays any more where it is over.
pub(crate) fn table(deals: &[&Deal], now_ms: u64, wide: bool) -> Table {
    let bills = wide || deals.iter().any(|deal| !is_running(deal));
    let mut headers = vec!["ID", "SIDE", "WITH", "STATE", "WHAT", "LEFT", "BILLED", "TOTAL"];
    headers.retain(|header| bills || *header != "BILLED");
    let mut table = Table::new(headers).keep(&["ID", "WHAT", "BILLED", "TOTAL"]).spare(&["LEFT"]);
    for deal in deals {
        let side = match deal.side {
            Side::Provider => "sells to",
            Side::Consumer => "buys from",
        };
        let (price, runs) = (&deal.terms.price, is_running(deal));
        let of_term = |cell: String| if runs { cell } else { "-".to_owned() };
        let first = [
            deal.id.short(),
            side.to_owned(),
            peer(deal),
            state(deal),
            brief::size(&deal.terms.quantity),
            of_term(left(now_ms, deal.until_ms)),
        ];
        let billed = bills.then(|| money(price, deal.billed));
        let total = of_term(money(price, deal.total));
        table.row(first.into_iter().chain(billed).chain([total]));
    }
    table
}

fn page(deal: &Deal) -> String {
    format!("{}\n{}", deal.id, pairs(&rows(deal)))
}
