//! How the daemon is, and what of it needs the owner's attention.

use super::OperatorService;
use super::attention;
use super::federations::{PUBLIC_ADDRESS, UNREACHABLE};
use crate::admin::{Answer, Attention, AttentionKind as Kind, Problem, Status};
use crate::driver::Driver;
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
        let attention = attention.chain(no_tunnel);
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
            tunnels: self.about.tunnels.states().await,
            kubernetes: self.kubernetes.as_ref().map(|kubernetes| kubernetes.describe()),
            kubernetes_uid: self.kubernetes.as_ref().and_then(|kubernetes| kubernetes.uid()),
            attention,
        }))
    }
}

/// Whether there is nothing to sell of what is shared.
fn is_unsold(driver: &Driver) -> bool {
    let broker = driver.agent().broker();
    broker.share().is_some() && broker.offer().is_none_or(|(body, _)| body.pools.is_empty())
}
