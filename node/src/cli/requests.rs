//! `mercato requests`: what others ask of this cluster, and what its owner answers.

use clap::{Args, Subcommand};
use mercato_broker::syntax::{PriceChange, PriceChangeError};
use mercato_config::{Seconds, Show as _};
use mercato_protocol::negotiation::State;
use mercato_protocol::price::{Currency, Price, UnitPrice, Usage};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::Line;

use super::demand::can_be_bought;
use super::global::now_ms;
use super::lookup::{self, Sought};
use super::screen::Screen;
use super::table::Table;
use crate::admin::{Class, Deal, OperatorApi, Problem, Request};
use crate::present::brief;
use crate::present::deal::{is_asked, peer};
use crate::present::text::{left, moment, money, text};

/// What a person types to mean one of them.
const REQUEST: Sought = Sought {
    what: "request",
    list: "mercato requests",
    needs: "a request or change that waits for your answer",
};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  mercato requests
  mercato requests accept 3f2a91bc")]
pub(crate) struct Requests {
    #[command(subcommand)]
    what: Option<RequestsWhat>,
}

#[derive(Debug, Subcommand)]
enum RequestsWhat {
    /// Those that wait for your answer (the default)
    #[command(after_help = "Examples:
  mercato requests list
  mercato requests list -o json")]
    List,
    /// Approve one: its consumer is sent a signed contract, or a firm offer on other terms
    #[command(after_help = "Examples:
  mercato requests accept 3f2a91bc
  mercato requests accept 3f2 --price 'cpu=0.03 EUR/h' --hold 8h

A line of the price that is not named stays as it is; 'memory=0' takes one away.
Below the posted price you are asked first: an order takes at once what costs no more.
While an offer is held, its capacity is sold to nobody else.")]
    Accept {
        /// The beginning of its id
        id: String,
        /// Offer it at another price: 'cpu=0.03 EUR/h, memory=0'; or free
        #[arg(long, value_parser = text::<PriceChange>)]
        price: Option<PriceChange>,
        /// Another quantity: cpu=4,memory=8Gi; what is not named stays as asked for
        #[arg(long, value_name = "QUANTITIES", value_parser = text::<Resources>)]
        quantity: Option<Resources>,
        /// How long the offer is held, at most as long as the request waits [default: 4h]
        #[arg(long, value_name = "DURATION", value_parser = text::<Seconds>)]
        hold: Option<Seconds>,
    },
    /// Refuse one of the requests
    #[command(after_help = "Examples:
  mercato requests deny 3f2a91bc --reason 'maintenance this week'
  mercato requests deny 3f2 --reason 'unknown organisation'")]
    Deny {
        /// The beginning of its id
        id: String,
        /// What the consumer is told
        #[arg(long, value_name = "TEXT")]
        reason: Line,
    },
}

impl Requests {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
    ) -> Result<String, Problem> {
        match self.what.unwrap_or(RequestsWhat::List) {
            RequestsWhat::List => {
                let mut requests = api.deals().await?;
                requests.retain(is_asked);
                requests.sort_by_key(|request| (request.until_ms, request.id));
                screen.render(&requests, || requests_table(&requests, screen.is_wide()))
            }
            RequestsWhat::Accept { id, price, quantity, hold } => {
                let request = lookup::deal(api, REQUEST, &id, is_asked).await?;
                if price.is_some() || quantity.is_some() || hold.is_some() {
                    return counter(api, screen, &request, price, quantity, hold).await;
                }
                api.tell(Request::Accept(request.id)).await?;
                let what = request.change.as_ref().filter(|change| change.state == State::Review);
                let what = what.map_or_else(String::new, |change| format!(": {}", change.what));
                let (short, peer) = (request.id.short(), peer(&request));
                Ok(screen.done(format!("{short} of {peer} is approved{what}")))
            }
            RequestsWhat::Deny { id, reason } => {
                let request = lookup::deal(api, REQUEST, &id, is_asked).await?;
                api.tell(Request::Deny(request.id, reason)).await?;
                Ok(screen.done(format!("{} of {} is denied", request.id.short(), peer(&request))))
            }
        }
    }
}

/// Answers a request with a firm offer, and says what is another in it.
async fn counter(
    api: &dyn OperatorApi,
    screen: &Screen,
    request: &Deal,
    price: Option<PriceChange>,
    quantity: Option<Resources>,
    hold: Option<Seconds>,
) -> Result<String, Problem> {
    let before = &request.terms;
    let quantity = quantity.map(|named| {
        let of_models = named.of_models(before.quantity.gpus.keys());
        of_models.or(&before.quantity)
    });
    let bought = quantity.as_ref().unwrap_or(&before.quantity);
    can_be_bought(bought)?;
    let wrong = |error: PriceChangeError| Problem::new(Class::Usage, error.to_string());
    let changed = price.as_ref().map(|price| price.of(&before.price, bought)).transpose();
    let changed = changed.map_err(wrong)?.unwrap_or_else(|| before.price.clone());
    let mut lines = vec![format!("{}: offered to {}", request.id.short(), peer(request))];
    let mut say = |what: &str, [before, after]: [String; 2]| {
        if before != after {
            lines.push(format!("  {what}  {after}, asked {before}"));
        }
    };
    say("price", [&before.price, &changed].map(|price| price.show()));
    say("what ", [&before.quantity, bought].map(|quantity| quantity.show()));
    let total = |price: &Price, quantity: &Resources| {
        let usage = Usage::of(quantity, before.term_s.saturating_mul(1_000));
        usage.and_then(|usage| price.total(&usage)).ok().flatten()
    };
    let sums = [total(&before.price, &before.quantity), total(&changed, bought)];
    say("total", [money(&before.price, sums[0]), money(&changed, sums[1])]);
    let below = below(&before.price, &changed, bought);
    if !below.is_empty() {
        let said = format!(
            "below what is posted for it: {}. An order takes at once what costs no more than it\n\
             asked for.",
            below.join(", ")
        );
        screen.confirm(&said, &format!("offer it to {} for less?", peer(request)))?;
    }
    let [asked, offered] = sums.map(|sum| sum.map_or(0, |sum| sum.micros));
    let is_taken = offered <= asked && *bought == before.quantity;
    let (hold_s, what) = (hold.map(|Seconds(hold_s)| hold_s), brief::size(bought));
    api.tell(Request::Counter { request: request.id, price, quantity, hold_s }).await?;
    let offered = |deal: &&Deal| deal.id == request.id && deal.state == State::Offered;
    let deals = api.deals().await?;
    let held = deals.iter().find(offered).and_then(|deal| deal.until_ms);
    lines.extend(held.map(|until_ms| {
        let (until, left) = (moment(until_ms), left(now_ms(), Some(until_ms)));
        format!("  held   until {until} UTC, for {left}: {what}, which nobody else is sold")
    }));
    let (peer, short) = (peer(request), request.id.short());
    lines.push(match is_taken {
        true => format!(
            "an order takes at once what costs no more; to end it all the same: mercato contracts \
             cancel {short}"
        ),
        false => format!("to withdraw it before {peer} takes it: mercato contracts cancel {short}"),
    });
    Ok(screen.done(lines.join("\n")))
}

/// The lines of what is bought that are offered below the posted price, or in another currency.
fn below(posted: &Price, offered: &Price, bought: &Resources) -> Vec<String> {
    let Price::Posted { currency, units } = posted else { return Vec::new() };
    let is_less = |is: &UnitPrice, was: &UnitPrice| {
        let per =
            |of: &UnitPrice, other: &UnitPrice| u128::from(of.micros) * u128::from(other.period_s);
        per(is, was) < per(was, is)
    };
    let show = |currency: Currency, resource: &Resource, unit: &UnitPrice| {
        let units = [(resource.clone(), *unit)].into();
        Price::Posted { currency, units }.show()
    };
    let bought =
        units.iter().filter(|(resource, was)| was.micros > 0 && bought.quantity(resource) > 0);
    let lines = bought.filter_map(|(resource, was)| {
        let now = match offered {
            Price::Free => None,
            Price::Posted { currency, units } => units.get(resource).map(|is| (*currency, is)),
        };
        let now = match now {
            Some((of, is)) if of == *currency && !is_less(is, was) => return None,
            Some((of, is)) => show(of, resource, is),
            None => format!("{resource}=free"),
        };
        Some(format!("{now}, posted {}", show(*currency, resource, was)))
    });
    lines.collect()
}

fn requests_table(requests: &[Deal], wide: bool) -> String {
    if requests.is_empty() {
        return "no request needs your approval\n".to_owned();
    }
    let mut table = Table::new(["ID", "FROM", "WHAT", "FOR", "TOTAL", "LAPSES IN", "NOTE"])
        .keep(&["ID", "WHAT", "TOTAL"])
        .spare(&["NOTE", "FOR", "LAPSES IN"]);
    for request in requests {
        let (id, price) = (request.id.short(), &request.terms.price);
        let change = request.change.as_ref().filter(|change| change.state == State::Review);
        table.row(match change {
            // Only what is another: it is no new order.
            Some(change) => [
                id,
                peer(request),
                format!("change: {}", change.what),
                Seconds(change.terms.term_s).show(),
                format!("{} (was {})", money(price, change.total), money(price, request.total)),
                left(now_ms(), change.until_ms),
                String::new(),
            ],
            None => [
                id,
                peer(request),
                brief::size(&request.terms.quantity),
                Seconds(request.terms.term_s).show(),
                money(price, request.total),
                left(now_ms(), request.until_ms),
                request.note.clone(),
            ],
        });
    }
    table.render(wide)
}
