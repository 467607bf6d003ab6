//! What may still be spent: budgets, less what orders have committed. An order commits
//! its whole term from the moment it is sent; one that ended early what was billed.

use std::collections::BTreeSet;

use mercato_protocol::price::Money;
use mercato_protocol::time::Now;

use crate::broker::Broker;
use crate::catalogue::demand::Rate;
use crate::deal::{Deal, Side, Stage};

impl Broker {
    /// Every budget, of all orders together or of a namespace, and what is left of it.
    pub fn budgets(&self, now: Now) -> Vec<(Option<&str>, Rate, Money)> {
        let Some(policy) = &self.buy else { return Vec::new() };
        let all = policy.budget.iter().map(|rate| (None, *rate, self.left(now, *rate, None)));
        let own = policy
            .namespaces
            .iter()
            .map(|(name, rate)| (Some(name.as_str()), *rate, self.left(now, *rate, Some(name))));
        all.chain(own).collect()
    }

    /// What is left of every budget that an order for these namespaces comes out of.
    pub(crate) fn budgets_left(&self, now: Now, namespaces: &BTreeSet<String>) -> Vec<Money> {
        let Some(policy) = &self.buy else { return Vec::new() };
        let all = policy.budget.iter().map(|rate| self.left(now, *rate, None));
        let own = policy.namespaces.iter().filter(|(name, _)| namespaces.contains(*name));
        all.chain(own.map(|(name, rate)| self.left(now, *rate, Some(name)))).collect()
    }

    fn left(&self, now: Now, rate: Rate, namespace: Option<&String>) -> Money {
        let window_ms = u64::from(rate.per_s) * 1_000;
        let since_ms = now.wall_ms.saturating_sub(window_ms);
        let counts = |deal: &&Deal| {
            deal.side() == Side::Consumer
                && namespace.is_none_or(|name| deal.namespaces.contains(name))
                && deal.opened_ms > since_ms
        };
        let spent = self.all_deals().filter(counts).filter_map(committed);
        let spent = spent.filter(|money| money.currency == rate.amount.currency);
        let spent = spent.fold(0, |sum: u64, money| sum.saturating_add(money.micros));
        Money { micros: rate.amount.micros.saturating_sub(spent), ..rate.amount }
    }
}

/// What a deal costs, or may still; none: nothing.
fn committed(deal: &Deal) -> Option<Money> {
    match deal.stage() {
        Stage::Terminated { .. } => None,
        Stage::Closed { .. } => deal.meter().signed().and_then(|signed| signed.receipt.amount),
        Stage::Requested { .. }
        | Stage::Review { .. }
        | Stage::Offered
        | Stage::Agreed
        | Stage::Pending { .. }
        | Stage::Active
        | Stage::Suspended => deal.total().ok().flatten(),
    }
}
