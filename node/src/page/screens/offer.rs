//! All that one provider offers, and how it went with it so far.

use askama::Template;
use mercato_broker::{Candidate, Standing};
use mercato_protocol::id::ClusterId;

use super::super::memory::Picture;
use super::leases::{Row, row};
use super::{Frame, Pair, Words, clipped, pairs};
use crate::admin::Problem;
use crate::limits;
use crate::present::brief;
use crate::present::offer::rows;
use crate::present::text::{called, fingerprint, standing};

/// The screen of one provider.
#[derive(Template)]
#[template(path = "offer.html")]
pub(in super::super) struct OfferScreen {
    frame: Frame,
    name: String,
    trust: &'static str,
    theirs: [String; 2],
    ours: Option<[String; 2]>,
    pools: Vec<Pool>,
    history: Vec<Row>,
    problem: Option<Words>,
    /// What a person types to trust it; none: it is trusted.
    to_trust: Option<String>,
    to_order: String,
}

struct Pool {
    title: String,
    price: String,
    rows: Vec<Pair>,
}

/// Shows a provider by what it offers.
pub(in super::super) fn offer(
    cluster: ClusterId,
    found: Result<Vec<Candidate>, Problem>,
    picture: &Picture,
    now_ms: u64,
) -> OfferScreen {
    let (offers, problem) = match found {
        Ok(offers) => (offers, None),
        Err(problem) => (Vec::new(), Some(Words::of(&problem))),
    };
    let deals = picture.deals.as_ref().map(|deals| &deals[..]).unwrap_or_default();
    let mut history: Vec<_> = deals.iter().filter(|deal| deal.peer == cluster).collect();
    history.sort_by_key(|deal| std::cmp::Reverse((deal.until_ms, deal.id)));
    let known = offers.first().map(|offer| offer.name.as_str());
    let known = known.or_else(|| history.iter().find_map(|deal| deal.peer_name.as_deref()));
    let name = clipped(&called(known, &cluster));
    let judged = offers.first().map_or(Standing::Stranger, |offer| offer.standing);
    let short = format!("{cluster:.12}");
    let command = format!("mercato offer show {short}");
    OfferScreen {
        frame: Frame::new("market", &name, format!("/offer/{cluster}"), command),
        trust: standing(judged),
        theirs: fingerprint(&cluster),
        ours: picture.status.as_ref().ok().map(|status| fingerprint(&status.cluster)),
        pools: offers.iter().map(|offer| pool(offer, now_ms)).collect(),
        history: history.into_iter().take(limits::PAGE_ROWS).map(|it| row(it, now_ms)).collect(),
        problem,
        to_trust: (judged != Standing::Trusted).then(|| format!("mercato peer trust {short}")),
        to_order: format!("mercato order --cpu 8 --memory 32Gi --for 4h --from {short}"),
        name,
    }
}

/// What is said of the provider itself stands above all pools.
const OF_PROVIDER: [&str; 2] = ["trust", "fingerprint"];

fn pool(offer: &Candidate, now_ms: u64) -> Pool {
    let mut all = rows(offer, now_ms);
    all.retain(|row| row.0 != "pool" && !OF_PROVIDER.contains(&row.0));
    let platform = &offer.pool.platform;
    Pool {
        title: format!("{} ({}/{})", offer.pool.id, platform.os, platform.arch),
        price: clipped(&brief::price(&offer.price)),
        rows: pairs(all),
    }
}
