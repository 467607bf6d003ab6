//! What a virtual node says of its lease's end, by home's records: the contract that both signed, and
//! the provider's notice. The rule is written here a second time.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use mercato_broker::Deal;
use mercato_offload::forge::labels::{CONTRACT, LEAVING, LEAVING_CONDITION, NOT_AFTER};
use mercato_offload::time::rfc3339;
use mercato_protocol::id::NegotiationId;
use serde_json::Value;

use super::bound::is_tainted;
use super::prompt::is_well;
use super::{Violation, disk, ensure};
use crate::engine::site::Site;
use crate::engine::sites::Sites;

/// A node says something else for so long at most, in ms; it is looked once a second.
const SOON_MS: u64 = 3_000;
/// The end of a term is shown a quarter of it before, and so long before at least and at most, in ms.
const LEAD_MS: RangeInclusive<u64> = 30_000..=600_000;

/// Since when nodes say something else.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// By cluster and lease, with the start of the daemon that leaves it so.
    wrong: BTreeMap<(usize, NegotiationId), (u64, u32)>,
}

impl Leaving {
    /// Checks, once a second, that no node says for long what is not so.
    pub(crate) fn check(&mut self, at_ms: u64, sites: &Sites) -> Result<(), Violation> {
        let mut wrong = BTreeMap::new();
        for (at, site) in sites.iter().enumerate().filter(|(_, site)| is_well(site)) {
            let wall_ms = site.now(at_ms).wall_ms;
            for (deal, node) in nodes(site) {
                let Err(Violation(what)) = agrees(deal, node, wall_ms) else { continue };
                let before = self.wrong.get(&(at, deal.id())).filter(|(_, run)| *run == site.run);
                let since_ms = before.map_or(at_ms, |(since_ms, _)| *since_ms);
                ensure(at_ms <= since_ms + SOON_MS, || {
                    let (id, name, for_ms) = (deal.id(), &site.name, at_ms - since_ms);
                    format!("{name}: the node of {id:.8} has {what} for {for_ms} ms")
                })?;
                wrong.insert((at, deal.id()), (since_ms, site.run));
            }
        }
        self.wrong = wrong;
        Ok(())
    }
}

/// The virtual nodes of a cluster, with the leases for which they stand.
fn nodes(site: &Site) -> impl Iterator<Item = (&Deal, &Value)> {
    site.kube.objects("Node").filter_map(|(_, node)| {
        let id = node["metadata"]["labels"][CONTRACT].as_str()?.parse().ok()?;
        Some((disk::deal(site.gate.records(), id)?, node))
    })
}

/// Whether the node shows the end of its lease from the right moment on, and as the right one.
fn agrees(deal: &Deal, node: &Value, wall_ms: u64) -> Result<(), Violation> {
    let Some(lease) = deal.lease() else { return Ok(()) };
    let contract = &lease.agreements().current().contract;
    let notice = lease.settlement().reclaim();
    let notice = notice.filter(|notice| notice.until_ms < contract.not_after_ms);
    let end_ms = notice.map_or(contract.not_after_ms, |notice| notice.until_ms);
    let term_ms = end_ms.saturating_sub(contract.not_before_ms);
    let lead_ms = (term_ms / 4).clamp(*LEAD_MS.start(), *LEAD_MS.end());
    let from_ms = notice.map_or(end_ms.saturating_sub(lead_ms), |notice| notice.given_ms);
    let leaves = deal.end().is_some() || wall_ms >= from_ms.max(contract.not_before_ms);
    let end = rfc3339(end_ms);
    let when = || format!("its lease ends at {end}, it is {}", rfc3339(wall_ms));
    ensure(is_tainted(node) == leaves, || {
        format!("{} taint {LEAVING}, though {},", if leaves { "no" } else { "a" }, when())
    })?;
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let mut said = conditions.filter(|condition| condition["type"] == LEAVING_CONDITION);
    let status = said.next().map(|condition| &condition["status"]);
    let wanted = if leaves { "True" } else { "False" };
    ensure(status.is_some_and(|status| status == wanted), || {
        format!("condition {LEAVING_CONDITION} {status:?}, though {},", when())
    })?;
    let shown = &node["metadata"]["annotations"][NOT_AFTER];
    ensure(*shown == end, || format!("{NOT_AFTER} {shown}, though {},", when()))
}
