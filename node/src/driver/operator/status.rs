//! How the daemon is, and what of it needs the owner's attention.

use std::collections::BTreeMap;

use mercato_offload::limits::SILENCE_S;
use mercato_protocol::id::ClusterId;

use super::federations::{PUBLIC_ADDRESS, UNREACHABLE};
use super::{OperatorService, attention, view};
use crate::admin::{
    Answer, Attention, AttentionKind as Kind, EventPeer, Problem, Status, TunnelLink, TunnelState,
};
use crate::driver::Driver;
use crate::driver::clock::wall_ms;
use crate::present::text::{called, span};
use crate::resources::{ABSENT, INSTALL};

impl OperatorService {
    /// Why the records cannot be written, if so.
    pub(super) async fn degraded(&self) -> Result<Option<String>, Problem> {
        let degraded = |driver: &Driver| driver.agent().degraded().map(str::to_owned);
        let why = self.driver.look(degraded).await?;
        let says =
            |why| format!("read-only: cannot write to the data folder; no new contracts: {why}");
        Ok(why.map(says))
    }

    pub(super) async fn status(&self) -> Result<Answer, Problem> {
        let degraded = self.degraded().await?;
        let degraded = degraded.map(|why| Attention::of(Kind::RecordsReadOnly, why));
        let all = self.driver.look(attention::all).await?;
        let waiting = self.kubernetes.iter().flat_map(|kubernetes| kubernetes.attention());
        let absent = self
            .ruling
            .borrow()
            .absent
            .then(|| Attention::of(Kind::ResourcesMissing, ABSENT).command(INSTALL));
        let gateway = self.about.tunnels.own();
        let no_tunnel = gateway.reason.as_deref().map(Attention::tunnel_off);
        let attention = degraded.into_iter().chain(all).chain(self.about.off.clone());
        let tunnels = self.about.tunnels.states().await;
        let names = self.driver.look(view::names).await?;
        let silent = tunnels.iter().filter_map(|tunnel| silent(tunnel, &names, wall_ms()));
        let attention = attention.chain(no_tunnel).chain(silent);
        let (listens, addresses) =
            (self.driver.net().local_addresses(), self.driver.net().published_addresses());
        let unreachable = (!listens.is_empty() && addresses.is_empty()).then(|| {
            let text = format!("{UNREACHABLE}; {PUBLIC_ADDRESS}");
            Attention::of(Kind::AddressUnknown, text)
        });
        let attention = attention.chain(unreachable).chain(absent).chain(waiting);
        let unsold = self.driver.look(is_unsold).await?.then(|| {
            Attention::of(Kind::NotOnSale, "what is shared is not on sale; to see why")
                .command("mercato share show")
        });
        let attention = attention.chain(self.ending().await?).chain(unsold).collect();
        Ok(Answer::Status(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster: self.driver.cluster(),
            name: self.about.name.clone(),
            key: self.driver.key(),
            data_dir: self.about.data_dir.clone(),
            health: self.about.health.clone(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            gateway,
            tunnels,
            kubernetes: self.kubernetes.as_ref().map(|kubernetes| kubernetes.describe()),
            kubernetes_uid: self.kubernetes.as_ref().and_then(|kubernetes| kubernetes.uid()),
            attention,
        }))
    }
}

/// Whose gateway has not answered for so long that pods there are not ready.
fn silent(
    tunnel: &TunnelState,
    names: &BTreeMap<ClusterId, String>,
    now_ms: u64,
) -> Option<Attention> {
    let since_ms = tunnel.since_ms.filter(|_| tunnel.link == TunnelLink::Down)?;
    let silent_ms = now_ms.saturating_sub(since_ms);
    if silent_ms < 1_000 * u64::from(SILENCE_S) {
        return None;
    }
    let (id, name) = (tunnel.cluster, names.get(&tunnel.cluster).cloned());
    let text = format!(
        "the gateway of {} has not answered for {}: no packet passes between pods of the two, and \
         those with an address there are not ready; let UDP to one of the two gateways through",
        called(name.as_deref(), &id),
        span(silent_ms)
    );
    Some(Attention {
        peer: Some(EventPeer { id, name }),
        at_ms: Some(since_ms),
        ..Attention::of(Kind::TunnelOff, text)
    })
}

/// Whether there is nothing to sell of what is shared.
fn is_unsold(driver: &Driver) -> bool {
    let broker = driver.agent().broker();
    broker.share().is_some() && broker.offer().is_none_or(|(body, _)| body.pools.is_empty())
}
