//! `mercato contracts extend` and `resize`: asks the provider for a change of a running
//! contract, and follows it until it is done.

use std::time::Duration;

use clap::Args;
use mercato_broker::Side;
use mercato_config::{Gpus, Seconds, Show as _};
use mercato_protocol::id::ContractId;
use mercato_protocol::negotiation::State;
use mercato_protocol::resources::Resources;

use super::deals::{CONTRACT, peer};
use super::demand::{cpu, memory};
use super::lookup;
use super::screen::Screen;
use super::text::{name, text};
use crate::admin::{Change, Class, Deal, Desk, Problem, Request};

/// Between two looks at a change.
const POLL: Duration = Duration::from_millis(250);

/// What is to be another quantity.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct Quantity {
    /// Processors: 8, 500m
    #[arg(long, value_name = "N", value_parser = cpu)]
    cpu: Option<u64>,
    /// Memory: 32Gi
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory: Option<u64>,
    /// GPUs by model: h100=2
    #[arg(long, value_name = "MODEL=N", value_parser = text::<Gpus>)]
    gpu: Option<Gpus>,
    /// Pods at once
    #[arg(long, value_name = "N")]
    pods: Option<u64>,
}

/// What the change of a contract is, and how far.
pub(crate) fn line(change: &Change) -> String {
    let (what, term) = (change.terms.quantity.show(), Seconds(change.terms.term_s).show());
    let reason = change.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    format!("{what} for {term} in all: {}{reason}", name(change.state))
}

pub(crate) async fn extend(
    desk: &dyn Desk,
    screen: &Screen,
    id: &str,
    Seconds(by_s): Seconds,
) -> Result<String, Problem> {
    let deal = lookup::deal(desk, CONTRACT, id, is_bought).await?;
    let term_s = deal.terms.term_s.checked_add(by_s);
    let term_s = term_s.ok_or_else(|| Problem::new(Class::Usage, "that is too long"))?;
    ask(desk, screen, &deal, (None, Some(term_s))).await
}

pub(crate) async fn resize(
    desk: &dyn Desk,
    screen: &Screen,
    id: &str,
    quantity: Quantity,
) -> Result<String, Problem> {
    let deal = lookup::deal(desk, CONTRACT, id, is_bought).await?;
    let before = &deal.terms.quantity;
    let quantity = Resources {
        cpu_millis: quantity.cpu.unwrap_or(before.cpu_millis),
        memory_bytes: quantity.memory.unwrap_or(before.memory_bytes),
        pods: quantity.pods.unwrap_or(before.pods),
        gpus: quantity.gpu.map_or_else(|| before.gpus.clone(), |Gpus(gpus)| gpus),
    };
    ask(desk, screen, &deal, (Some(quantity), None)).await
}

fn is_bought(deal: &Deal) -> bool {
    deal.side == Side::Consumer && deal.state == State::Active
}

async fn ask(
    desk: &dyn Desk,
    screen: &Screen,
    deal: &Deal,
    (quantity, term_s): (Option<Resources>, Option<u64>),
) -> Result<String, Problem> {
    desk.tell(Request::Amend { contract: deal.id, quantity, term_s }).await?;
    let (short, peer) = (deal.id.short(), peer(deal));
    let mut polls = tokio::time::interval(POLL);
    loop {
        polls.tick().await;
        let deal = find(desk, deal.id).await?;
        let Some(change) = &deal.change else {
            let (what, term) = (deal.terms.quantity.show(), Seconds(deal.terms.term_s).show());
            return Ok(screen.done(format!("{short} is {what} for {term} in all now")));
        };
        match change.state {
            State::Review => {
                return Ok(screen.done(format!("{short}: waiting for {peer}'s owner to accept")));
            }
            State::Terminated => {
                let why = change.reason.clone().unwrap_or_else(|| "without a reason".to_owned());
                let what = format!("{peer} leaves {short} as it is: {why}");
                return Err(Problem::new(Class::Refused, what));
            }
            State::Requested
            | State::Agreed
            | State::Unknown
            | State::Offered
            | State::Pending
            | State::Active
            | State::Suspended
            | State::Reclaiming
            | State::Closed => {}
        }
    }
}

async fn find(desk: &dyn Desk, id: ContractId) -> Result<Deal, Problem> {
    let found = desk.deals().await?.into_iter().find(|deal| deal.id == id);
    found.ok_or_else(|| mercato_broker::Refusal::Unknown(id).into())
}
