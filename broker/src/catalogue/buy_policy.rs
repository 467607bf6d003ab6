//! What may be bought, from whom and for how much. Budgets, less what orders have committed: an
//! order commits its whole term from the moment it is sent; one that ended early what was billed.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::ClusterId;
use mercato_protocol::limits::LABEL_BYTES;
use mercato_protocol::negotiation::State;
use mercato_protocol::price::Money;
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

use super::burst_policy::BurstPolicy;
use crate::deal::{Deal, Side};
use crate::limits;
use crate::selector::Selector;
use crate::syntax::Rate;

/// What may be bought. By default anything from whoever is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BuyPolicy {
    /// Clusters that are trusted, unless they are blocked.
    pub trust: BTreeSet<ClusterId>,
    /// Every offer that is taken must match it.
    pub selector: Selector,
    /// The most that is committed in any time of this length, by all orders together.
    pub budget: Option<Rate>,
    /// The same for orders on behalf of a namespace.
    pub namespaces: BTreeMap<String, Rate>,
    /// The longest term, in seconds; none: any.
    pub longest_s: Option<u64>,
    /// What may be bought by itself for pods that find no room; none: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Box<BurstPolicy>>,
}

/// A budget, and what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget<'a> {
    /// For orders on behalf of this namespace; none: for all orders together.
    pub namespace: Option<&'a str>,
    /// The most that is committed in any time of this length.
    pub rate: Rate,
    /// What may still be committed now.
    pub left: Money,
}

impl BuyPolicy {
    /// What the types alone do not say.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let rates = || self.namespaces.values().chain(&self.budget);
        match () {
            () if rates().any(|rate| rate.per_s == 0) => Err("a budget for no time"),
            () if self.longest_s == Some(0) => Err("bought for no time"),
            () if self.namespaces.len() > limits::NAMESPACES => Err("too many namespaces"),
            () if !self.namespaces.keys().all(|name| name.len() <= LABEL_BYTES) => {
                Err("too long a namespace")
            }
            () if self.longest_s < self.bursts.as_ref().map(|it| it.term_s)
                && self.longest_s.is_some() =>
            {
                Err("bursts.for is longer than longest, so that nothing could be bought")
            }
            () if self.trust.len() > limits::PEERS => Err("too many clusters are trusted"),
            () => self.bursts.as_ref().map_or(Ok(()), |bursts| bursts.check()),
        }
    }

    /// Every budget, of all orders together or of a namespace, and what these deals left of it.
    pub(crate) fn budgets<'s, 'd: 's>(
        &'s self,
        now: Now,
        deals: impl Iterator<Item = &'d Deal> + Clone + 's,
    ) -> impl Iterator<Item = Budget<'s>> {
        let all = self.budget.iter().map(|rate| (None, *rate));
        let own = self.namespaces.iter().map(|(name, rate)| (Some(name.as_str()), *rate));
        all.chain(own).map(move |(namespace, rate)| {
            let left = left(now, rate, namespace, deals.clone());
            Budget { namespace, rate, left }
        })
    }
}

fn left<'d>(
    now: Now,
    rate: Rate,
    namespace: Option<&str>,
    deals: impl Iterator<Item = &'d Deal>,
) -> Money {
    let window_ms = u64::from(rate.per_s) * 1_000;
    let since_ms = now.wall_ms.saturating_sub(window_ms);
    let counts = |deal: &&Deal| {
        deal.side() == Side::Consumer
            && namespace.is_none_or(|name| deal.order().namespaces.contains(name))
            && deal.order().opened_ms > since_ms
    };
    let spent = deals.filter(counts).filter_map(committed);
    let spent = spent.filter(|money| money.currency == rate.amount.currency);
    let spent = spent.fold(0, |sum: u64, money| sum.saturating_add(money.micros));
    Money { micros: rate.amount.micros.saturating_sub(spent), ..rate.amount }
}

/// What a deal costs, or may still; none: nothing.
fn committed(deal: &Deal) -> Option<Money> {
    match deal.state() {
        State::Terminated | State::Unknown => None,
        State::Closed => deal.lease()?.meter().signed()?.receipt.amount,
        State::Requested
        | State::Review
        | State::Offered
        | State::Agreed
        | State::Pending
        | State::Active
        | State::Suspended
        | State::Reclaiming => deal.total().ok().flatten(),
    }
}
