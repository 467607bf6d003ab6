//! How the daemon is, and what of it needs the owner's attention.

use std::collections::BTreeMap;

use mercato_broker::{BurstsOf, bursts_now};
use mercato_offload::limits::SILENCE_S;
use mercato_offload::placement::{Stored, StoredBy};
use mercato_protocol::id::ClusterId;
use mercato_session::limits::LINK_DOWN_MS;

use super::federations::{PUBLIC_ADDRESS, UNREACHABLE};
use super::{OperatorService, attention, share, view};
use crate::admin::{
    Answer, Attention, AttentionKind as Kind, Bursts, BuyersObjects, EventPeer, GuestObjects,
    NamespaceBursts, Problem, Status, TunnelLink, TunnelLost, TunnelState,
};
use crate::doctor::Finding;
use crate::driver::Driver;
use crate::driver::clock::wall_ms;
use crate::present::text::{called, span};
use crate::resources::{ABSENT, INSTALL, Lacking, contested};

impl OperatorService {
    /// Why the records cannot be written, if so.
    pub(super) async fn degraded(&self) -> Result<Option<String>, Problem> {
        let degraded = |driver: &Driver| driver.agent().degraded().map(str::to_owned);
        let why = self.driver.look(degraded).await?;
        let says =
            |why| format!("read-only: cannot write to the data folder; no new contracts: {why}");
        Ok(why.map(says))
    }

    /// Who else writes this daemon's objects, if somebody does.
    pub(super) fn contested(&self) -> Option<String> {
        let ruling = self.ruling.borrow();
        (!ruling.contested.is_empty()).then(|| contested(&ruling.contested))
    }

    /// Namespaces whose pods do not go where their NamespaceOffload says.
    fn not_offloaded(&self) -> Vec<Attention> {
        let ruling = self.ruling.borrow();
        let lacking = ruling.lacking().filter(|(_, lacking)| !lacking.is_ready);
        let each = lacking.map(|(namespace, lacking)| Attention {
            namespace: Some(namespace.clone()),
            ..Attention::of(Kind::OffloadNotReady, offload(namespace, &lacking.message))
        });
        each.collect()
    }

    /// The same, and names in `to` that match nothing known, for a person who looks.
    pub(super) fn offloads_lacking(&self) -> Vec<Finding> {
        let ruling = self.ruling.borrow();
        let said = |(namespace, lacking): (&String, &Lacking)| {
            Finding::warn("offload", offload(namespace, &lacking.message))
        };
        ruling.lacking().map(said).collect()
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
        let lacking = self.not_offloaded();
        let twice = self.contested().map(|text| Attention::of(Kind::DaemonTwice, text));
        let gateway = self.about.tunnels.own();
        let no_tunnel = gateway.reason.as_deref().map(Attention::tunnel_off);
        let attention = degraded.into_iter().chain(all).chain(self.about.off.clone());
        let tunnels = self.about.tunnels.states().await;
        let names = self.driver.look(view::names).await?;
        let stored = self.kubernetes.as_ref().and_then(|kubernetes| kubernetes.stored());
        let guest_objects = stored.map(|stored| guest_objects(stored, &names));
        let port = gateway.port;
        let silent = tunnels.iter().filter_map(|tunnel| silent(tunnel, port, &names, wall_ms()));
        let attention = attention.chain(no_tunnel).chain(silent);
        let (listens, addresses) =
            (self.driver.net().local_addresses(), self.driver.net().published_addresses());
        let unreachable = (!listens.is_empty() && addresses.is_empty()).then(|| {
            let text = format!("{UNREACHABLE}; {PUBLIC_ADDRESS}");
            Attention::of(Kind::AddressUnknown, text)
        });
        let attention = attention.chain(unreachable).chain(absent).chain(twice).chain(lacking);
        let attention = attention.chain(waiting);
        let unsold = self.driver.look(is_unsold).await?.then(|| {
            Attention::of(Kind::NotOnSale, "what is shared is not on sale; to see why")
                .command("mercato share show")
        });
        let no_storage = self
            .driver
            .look(share::no_storage)
            .await?
            .map(|why| Attention::of(Kind::NotOnSale, why).command("mercato share show"));
        let attention = attention.chain(self.ending().await?).chain(unsold);
        let own = gateway.clone();
        let no_egress = self
            .driver
            .look(move |driver| share::no_egress(driver, &own))
            .await?
            .map(|why| Attention::of(Kind::NotOnSale, why).command("mercato share show"));
        let attention = attention.chain(no_storage).chain(no_egress).collect();
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
            guest_objects,
            bursts: self.driver.look(bursts).await?,
            attention,
        }))
    }
}

/// What guests fill of the cluster's etcd, with the names of their buyers.
fn guest_objects(stored: StoredBy, names: &BTreeMap<ClusterId, String>) -> GuestObjects {
    let buyer = |(cluster, of): (ClusterId, Stored)| BuyersObjects {
        cluster,
        name: names.get(&cluster).cloned(),
        used_bytes: of.used,
        bound_bytes: of.bound,
    };
    GuestObjects {
        used_bytes: stored.all.used,
        bound_bytes: stored.all.bound,
        buyers: stored.buyers.into_iter().map(buyer).collect(),
    }
}

/// What is bought by itself, as the market has it.
fn bursts(driver: &Driver) -> Option<Bursts> {
    let now = bursts_now(driver.agent().broker())?;
    let of = |(namespace, of): (&str, BurstsOf<'_>)| NamespaceBursts {
        namespace: namespace.to_owned(),
        bought: of.bought,
        contracts: of.contracts,
        waiting: of.waiting,
        reason: of.lacks.map(|(word, _)| word.as_str().to_owned()),
        message: of.lacks.map(|(_, text)| text.to_owned()),
    };
    Some(Bursts {
        most: now.policy.most.clone(),
        bought: now.bought,
        contracts: now.contracts,
        namespaces: now.namespaces.into_iter().map(of).collect(),
    })
}

/// That what a NamespaceOffload says does not hold.
fn offload(namespace: &str, message: &str) -> String {
    format!("namespace {namespace}: {message}")
}

/// Whose gateway is out of reach for so long that pods there are not ready: counted from when a
/// packet is known to have arrived there last.
fn silent(
    tunnel: &TunnelState,
    port_here: Option<u16>,
    names: &BTreeMap<ClusterId, String>,
    now_ms: u64,
) -> Option<Attention> {
    let since_ms = tunnel.since_ms.filter(|_| tunnel.link == TunnelLink::Down)?;
    let silent_ms = now_ms.saturating_sub(since_ms) + LINK_DOWN_MS;
    if silent_ms < 1_000 * u64::from(SILENCE_S) {
        return None;
    }
    let (id, name) = (tunnel.cluster, names.get(&tunnel.cluster).cloned());
    let (peer, silent) = (called(name.as_deref(), &id), span(silent_ms));
    let port = |port: Option<u16>| port.map_or("UDP".to_owned(), |port| format!("UDP port {port}"));
    let (own, there) = (port(port_here), port(tunnel.address.map(|address| address.port())));
    let (what, cure) = match tunnel.lost {
        Some(TunnelLost::FromPeer) => (
            format!("nothing has come from the gateway of {peer} for {silent}"),
            format!("let {own} through from there to here, and see mercato status over there"),
        ),
        Some(TunnelLost::ToPeer) => (
            format!("the gateway of {peer} is heard, and has not heard this one for {silent}"),
            format!("let {there} through from here to there"),
        ),
        None => (
            format!("the gateway of {peer} has not answered for {silent}"),
            "let UDP to one of the two gateways through".to_owned(),
        ),
    };
    let text = format!(
        "{what}: no packet passes between pods of the two, and those with an address there are not \
         ready; {cure}"
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

#[cfg(test)]
mod tests {
    use super::*;

    fn down(lost: Option<TunnelLost>) -> TunnelState {
        TunnelState {
            cluster: ClusterId([1; 32]),
            link: TunnelLink::Down,
            lost,
            since_ms: Some(100_000),
            address: "192.0.2.7:7476".parse().ok(),
            round_trip_ms: None,
            reason: None,
            drops: BTreeMap::new(),
        }
    }

    #[test]
    fn whoever_is_out_of_reach_is_told_with_the_direction_and_the_port() {
        let names = BTreeMap::from([(ClusterId([1; 32]), "turin".to_owned())]);
        let said = |lost, at_ms| Some(silent(&down(lost), Some(7475), &names, at_ms)?.text);
        let at_ms = 100_000 + 1_000 * u64::from(SILENCE_S) - LINK_DOWN_MS;
        for (lost, what, cure) in [
            (None, "the gateway of turin has not answered for 10s", "let UDP to one of"),
            (
                Some(TunnelLost::FromPeer),
                "nothing has come from the gateway of turin for 10s",
                "let UDP port 7475 through from there to here, and see mercato status over there",
            ),
            (
                Some(TunnelLost::ToPeer),
                "the gateway of turin is heard, and has not heard this one for 10s",
                "let UDP port 7476 through from here to there",
            ),
        ] {
            assert_eq!(said(lost, at_ms - 1), None, "pods are ready yet");
            let said = said(lost, at_ms).unwrap();
            assert!(said.starts_with(what) && said.contains(cure), "{said}");
        }
    }
}
