//! `mercato contracts extend`, `resize` and `withdraw`: asks the provider for a change of a
//! running contract, and follows it until it is done; or wants it no longer.

use std::time::Duration;

use clap::Args;
use mercato_broker::Side;
use mercato_config::{Gpus, Seconds, Show as _};
use mercato_kubelet::every;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use mercato_protocol::resources::Resources;
use mercato_protocol::text::shown;

use super::demand::{can_be_bought, cpu, memory, pods, storage};
use super::lookup::{self, CONTRACT};
use super::screen::Screen;
use crate::admin::{Class, Deal, OperatorApi, Problem, Request};
use crate::present::change::{cost, refused};
use crate::present::deal::{peer, state};
use crate::present::text::{money, text};

/// Between two looks at a change.
const POLL: Duration = Duration::from_millis(250);

/// What is to be another quantity.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct Quantity {
    /// Processors, such as 8 or 500m
    #[arg(long, value_name = "N", value_parser = cpu)]
    cpu: Option<u64>,
    /// Memory in bytes, such as 32Gi
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory: Option<u64>,
    /// GPUs by model or family, such as h100=2
    #[arg(long, value_name = "MODEL=N", value_parser = text::<Gpus>)]
    gpu: Option<Gpus>,
    /// Room for volumes in bytes, such as 50Gi; 0 gives all of it back
    #[arg(long, value_name = "BYTES", value_parser = storage)]
    storage: Option<u64>,
    /// How many pods at once
    #[arg(long, value_name = "N", value_parser = pods)]
    pods: Option<u64>,
}

pub(crate) async fn extend(
    api: &dyn OperatorApi,
    screen: &Screen,
    id: &str,
    Seconds(by_s): Seconds,
) -> Result<String, Problem> {
    let deal = changeable(api, id).await?;
    let term_s = deal.terms.term_s.checked_add(by_s);
    let term_s = term_s.ok_or_else(|| Problem::new(Class::Usage, "that is too long"))?;
    ask(api, screen, &deal, None, Some(term_s)).await
}

pub(crate) async fn resize(
    api: &dyn OperatorApi,
    screen: &Screen,
    id: &str,
    quantity: Quantity,
) -> Result<String, Problem> {
    let deal = changeable(api, id).await?;
    let before = &deal.terms.quantity;
    let quantity = Resources {
        cpu_millis: quantity.cpu.unwrap_or(before.cpu_millis),
        memory_bytes: quantity.memory.unwrap_or(before.memory_bytes),
        pods: quantity.pods.unwrap_or(before.pods),
        storage_bytes: quantity.storage.unwrap_or(before.storage_bytes),
        gpus: quantity.gpu.map_or_else(|| before.gpus.clone(), |Gpus(gpus)| gpus),
    };
    can_be_bought(&quantity)?;
    let quantity = quantity.of_models(before.gpus.keys());
    ask(api, screen, &deal, Some(quantity), None).await
}

/// The change that waits for an answer is wanted no longer.
pub(crate) async fn withdraw(
    api: &dyn OperatorApi,
    screen: &Screen,
    id: &str,
) -> Result<String, Problem> {
    let deal = changeable(api, id).await?;
    api.tell(Request::Withdraw(deal.contract())).await?;
    let short = deal.id.short();
    Ok(screen.done(format!("{short}: the change is withdrawn; the contract stays as it is")))
}

/// A running contract that this cluster bought. One that it sold, or that does not run, is found
/// all the same, to say why it cannot be changed.
async fn changeable(api: &dyn OperatorApi, id: &str) -> Result<Deal, Problem> {
    let bought = |deal: &Deal| deal.side == Side::Consumer && deal.state == State::Active;
    let none = match lookup::deal(api, CONTRACT, id, bought).await {
        Err(problem) if problem.class == Class::NoMatch => problem,
        found => return found,
    };
    let Ok(deal) = lookup::deal(api, CONTRACT, id, |_| true).await else { return Err(none) };
    let (short, peer) = (deal.id.short(), peer(&deal));
    Err(match deal.side {
        Side::Provider => {
            let what = format!("{short} was sold to {peer}: only its consumer can change it");
            Problem::new(Class::Usage, what)
                .todo(format!("to end it with notice: mercato reclaim {short}"))
        }
        Side::Consumer => {
            let what = format!("{short} is {}: only an active contract can change", state(&deal));
            Problem::failed(what).todo(format!("see it: mercato contracts show {short}"))
        }
    })
}

async fn ask(
    api: &dyn OperatorApi,
    screen: &Screen,
    deal: &Deal,
    quantity: Option<Resources>,
    term_s: Option<u64>,
) -> Result<String, Problem> {
    api.tell(Request::Amend { contract: deal.contract(), quantity, term_s }).await?;
    let (short, peer) = (deal.id.short(), peer(deal));
    let mut polls = every(POLL);
    loop {
        polls.tick().await;
        let deal = find(api, deal.id).await?;
        let Some(change) = &deal.change else {
            let (what, term) = (deal.terms.quantity.show(), Seconds(deal.terms.term_s).show());
            let total = money(&deal.terms.price, deal.total);
            let said = format!("{short} is {what} for {term} in all now, {total}");
            return Ok(screen.done(said));
        };
        match change.state {
            State::Review => {
                let (what, cost) = (&change.what, cost(&deal, change));
                return Ok(screen.done(format!(
                    "{short}: {what}, {cost}: waiting for {peer}'s owner to approve\n\
                     to withdraw it: mercato contracts withdraw {short}"
                )));
            }
            State::Terminated => {
                let why = change.reason.clone().unwrap_or_else(|| "without a reason".to_owned());
                let what = format!("{}: {}", refused(&peer), shown(&why));
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

async fn find(api: &dyn OperatorApi, id: NegotiationId) -> Result<Deal, Problem> {
    let found = api.deals().await?.into_iter().find(|deal| deal.id == id);
    found.ok_or_else(|| mercato_broker::Refusal::Unknown(id).into())
}
