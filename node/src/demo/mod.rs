//! `mercato demo`: two daemons on loopback and the whole story between them. Daemons,
//! connections, signatures and records are real; the two clusters are simulated, or real.

mod clusters;
mod real;
mod simulated;
mod stage;
mod tell;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use mercato_broker::{Approve, Demand, Standing};
use mercato_config::Share;
use mercato_config::{FromText as _, Show as _};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::NetworkIsolation;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::admin::{Answer, Class, Deal, Offload, Problem, Request};
use crate::daemon::Daemon;
use crate::kubernetes::site::until;
use clusters::Clusters;
use real::Pair;
use simulated::Models;
use stage::{POD, Stage};
use tell::{Tell, Told};

pub(crate) use real::IMAGE;
pub(crate) use tell::Form;

/// How the story is to be played.
pub(crate) struct Play {
    pub(crate) form: Form,
    /// The daemons stay before the end, until Ctrl-C.
    pub(crate) keep: bool,
    /// Real clusters, that of the buyer first, and what the pod runs there.
    pub(crate) real: Option<([PathBuf; 2], String)>,
}

/// Plays the story. Ctrl-C ends it at any point, and leaves nothing either.
pub(crate) async fn play(play: Play) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let clusters = tokio::select! {
        clusters = clusters(play.real) => clusters?,
        () = signals.any() => return Err(interrupted()),
    };
    let mut tell = Tell::new(play.form, clusters.kind());
    tell.title(match clusters.kind() {
        "real" => {
            "Two daemons on this machine trade for two real clusters. All that is made there\n\
             is removed again, whatever happens."
        }
        _ => {
            "Two clusters trade on this machine. Daemons, connections, signatures and records\n\
             are real; the clusters behind them are simulated."
        }
    });
    let played = on_stage(&mut tell, &mut signals, &clusters, play.keep).await;
    let cleared = tell.step("nothing is left", swept(&*clusters)).await;
    tell.end();
    played.and(cleared)
}

async fn clusters(real: Option<([PathBuf; 2], String)>) -> anyhow::Result<Arc<dyn Clusters>> {
    Ok(match real {
        Some((files, image)) => Arc::new(Pair::find(files, image).await?),
        None => Arc::new(Models::start()?),
    })
}

/// The daemons come, play, and go; what of their clusters then is left is still to be
/// removed.
async fn on_stage(
    tell: &mut Tell,
    signals: &mut Signals,
    clusters: &Arc<dyn Clusters>,
    keep: bool,
) -> anyhow::Result<()> {
    let set = Stage::set(clusters.clone());
    let set = tell.step("rome and turin start, each with a key of its own", set);
    let stage = tokio::select! {
        stage = set => stage?,
        () = signals.any() => return Err(interrupted()),
    };
    let played = tokio::select! {
        played = story(tell, &stage, keep) => played,
        () = signals.any() => if keep { Ok(()) } else { Err(interrupted()) },
    };
    let struck = async { stage.strike().await.map(|()| ((), Vec::new())) };
    let struck = tell.step("the daemons remove what is theirs, and stop", struck).await;
    played.and(struck)
}

async fn swept(clusters: &dyn Clusters) -> Told<()> {
    clusters.clear().await?;
    Ok(((), Vec::new()))
}

/// What a user, or the system, ends a program with. Caught from the first moment on.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn any(&mut self) {
        tokio::select! { _ = self.interrupt.recv() => {} _ = self.terminate.recv() => {} }
    }
}

/// The user wants no more of it.
fn interrupted() -> anyhow::Error {
    Problem::new(Class::Interrupted, "interrupted").into()
}

async fn story(tell: &mut Tell, stage: &Stage, keep: bool) -> anyhow::Result<()> {
    tell.step("turin offers half of its cluster, and is asked first", offer(stage)).await?;
    tell.step("rome sees the offer", browse(stage)).await?;
    tell.step("rome orders, and stops at the unknown key", first_order(stage)).await?;
    tell.step("rome trusts turin, once the fingerprint is compared", trust(stage)).await?;
    let order = tell.step("rome orders some of it for an hour", order(stage)).await?;
    tell.step("turin's owner accepts", accept(stage)).await?;
    tell.step("both sign, and a virtual node is ready in rome", ready(stage, order)).await?;
    let kind = stage.clusters.kind();
    let runs = pod_runs(stage);
    tell.step(&format!("a pod of rome runs in turin ({kind})"), runs).await?;
    tell.step("its logs come home", logs(stage)).await?;
    tell.step("usage is billed, and signed by both", bill(stage, order)).await?;
    if keep {
        tell.keep(["rome", "turin"].map(|name| stage.path(name)));
        return std::future::pending().await;
    }
    tell.step("rome cancels: the pod ends, node and namespace go", cancel(stage, order)).await
}

async fn offer(stage: &Stage) -> Told<()> {
    let share = Share {
        cpu: Some(mercato_broker::Amount::Percent(50)),
        memory: Some(mercato_broker::Amount::Percent(50)),
        price: Some(mercato_protocol::price::Price::from_text(
            "cpu=0.60 EUR/h, memory=0.05 EUR/h",
        )?),
        approve: Approve::Ask,
        // There is no gateway yet that could keep guests apart.
        network_isolation: NetworkIsolation::None,
        ..Share::default()
    };
    stage.turin.api.tell(Request::SetShare(Some(share.policy()))).await?;
    let pool = until("turin has something on sale", async || {
        Ok(stage.turin.api.share().await?.on_sale.into_iter().next())
    });
    let row = pool.await?;
    Ok(((), vec![format!("{}   {}", row.free.show(), row.price.show())]))
}

async fn browse(stage: &Stage) -> Told<()> {
    let offers = until("the offer has come", async || {
        let offers = stage.rome.api.browse(Demand::default(), false).await?.offers;
        Ok((!offers.is_empty()).then_some(offers))
    });
    let line = |offer: &mercato_broker::Candidate| {
        format!("{}   {}   {}", offer.name, offer.free.show(), offer.price.show())
    };
    Ok(((), offers.await?.iter().map(line).collect()))
}

fn wanted(stage: &Stage) -> anyhow::Result<Request> {
    let quantity = Resources::from_text(stage.clusters.wanted())?;
    let note = "for the web shop".parse()?;
    let demand = Demand { quantity, term_s: 3_600, ..Demand::default() };
    Ok(Request::Order { demand, note })
}

async fn first_order(stage: &Stage) -> Told<()> {
    match stage.rome.api.ask(wanted(stage)?).await {
        Err(problem) => Ok(((), [vec![problem.what], problem.todo].concat())),
        Ok(_) => bail!("rome bought from a stranger"),
    }
}

async fn trust(stage: &Stage) -> Told<()> {
    let turin = stage.turin.api.status().await?.cluster;
    stage.rome.api.tell(Request::Judge(turin, Standing::Trusted)).await?;
    Ok(((), vec![format!("turin is {turin}")]))
}

async fn order(stage: &Stage) -> Told<NegotiationId> {
    let Answer::Ordered { id, .. } = stage.rome.api.ask(wanted(stage)?).await? else {
        bail!("the order has no id")
    };
    let ordered = deal(&stage.rome, id).await?;
    let total = ordered.total.map_or("free".to_owned(), |total| total.to_string());
    let provider = ordered.peer_name.unwrap_or_default();
    let line = format!("order {} to {provider}, {total} for the hour", id.short());
    Ok((id, vec![line]))
}

async fn accept(stage: &Stage) -> Told<()> {
    let request = until("the request has come", async || {
        let deals = stage.turin.api.deals().await?;
        Ok(deals.into_iter().find(|deal| deal.state == State::Review))
    });
    let request = request.await?;
    stage.turin.api.tell(Request::Accept(request.id)).await?;
    let line = format!("{} for 1h, from rome: {:?}", request.terms.quantity.show(), request.note);
    Ok(((), vec![line]))
}

async fn ready(stage: &Stage, order: NegotiationId) -> Told<()> {
    let contract = until("the contract is in use", async || {
        let contract = deal(&stage.rome, order).await?;
        if let Some(reason) = &contract.reason {
            bail!("the order came to nothing: {reason}");
        }
        Ok((contract.state == State::Active).then_some(contract))
    });
    let contract = contract.await?;
    let node = contract.node.unwrap_or_default();
    let line = format!(
        "contract {}   node {node}   {}",
        contract.id.short(),
        contract.terms.quantity.show()
    );
    Ok(((), vec![line]))
}

async fn deal(daemon: &Daemon, id: NegotiationId) -> anyhow::Result<Deal> {
    let deals = daemon.api.deals().await?;
    deals.into_iter().find(|deal| deal.id == id).context("the order is not known any more")
}

async fn pod_runs(stage: &Stage) -> Told<()> {
    let namespace = stage.clusters.namespace().to_owned();
    let place = format!("{namespace}/{POD} ({})", stage.clusters.image());
    let offload = Offload { namespace, ..Offload::default() };
    stage.rome.api.offload(offload).await?;
    stage.clusters.start_pod().await?;
    let node = until("the pod runs", async || stage.running_on().await).await?;
    let guest = stage.clusters.guest_namespaces().await?;
    Ok(((), vec![format!("{place} on {node}"), format!("in turin: {}", guest.join(", "))]))
}

async fn logs(stage: &Stage) -> Told<()> {
    let lines = until("the pod has written something", async || {
        let lines = stage.logs().await?;
        Ok((lines.len() > 1).then_some(lines))
    });
    Ok(((), lines.await?.into_iter().take(3).collect()))
}

async fn bill(stage: &Stage, order: NegotiationId) -> Told<()> {
    let statement = until("a receipt is signed", async || {
        let statement = stage.rome.api.statement(order.into()).await?;
        Ok(statement.total.is_some().then_some(statement))
    });
    let statement = statement.await?;
    let span = statement.from_ms.zip(statement.to_ms).map(|(from, to)| to.saturating_sub(from));
    let seconds = Duration::from_millis(span.unwrap_or_default()).as_secs_f64();
    let mut lines: Vec<String> = Vec::new();
    for (resource, line) in &statement.lines {
        let amount = line.amount.map_or("included".to_owned(), |amount| amount.to_string());
        lines.push(format!("{resource:<8} {seconds:.1}s   {amount}"));
    }
    lines.extend(statement.total.map(|total| format!("total    {seconds:.1}s   {total}")));
    Ok(((), lines))
}

async fn cancel(stage: &Stage, order: NegotiationId) -> Told<()> {
    stage.rome.api.tell(Request::Cancel(order, "the demo is over".parse()?)).await?;
    until("nothing is left of the lease", async || {
        Ok(stage.clusters.is_clean().await?.then_some(()))
    })
    .await?;
    let closed = until("both sides have closed the contract", async || {
        let (ours, theirs) = (deal(&stage.rome, order).await?, deal(&stage.turin, order).await?);
        let closed = ours.state == State::Closed && theirs.state == State::Closed;
        Ok(closed.then_some(ours))
    });
    let closed = closed.await?;
    let billed = closed.billed.map_or("nothing".to_owned(), |billed| billed.to_string());
    Ok(((), vec![format!("{}; {billed} billed", closed.reason.unwrap_or_default())]))
}
