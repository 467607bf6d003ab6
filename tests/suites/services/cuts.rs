//! Cuts between the two clusters: of all frames, of the tunnel's port alone, of the daemons' port
//! alone. Each is in the readiness of guests while it lasts, a short one in none.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::audit::Mark;
use mercato_tests::daemon::PART;
use mercato_tests::wait;

use super::shop::{CALLERS, FAR, NAMESPACE, NEAR, Shop};

/// What is cut between the two clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// All frames, whatever they carry.
    All,
    /// What the two gateways send each other.
    Tunnel,
    /// What the daemons say to each other.
    Daemons,
}

/// A pod is not ready once its cluster has been silent for ten seconds; two more for the machine that
/// this runs on.
const SEEN: Duration = Duration::from_secs(12);
/// It is ready again within two seconds, likewise.
const BACK: Duration = Duration::from_secs(4);
/// Those of the Service that run there, and who calls them from there.
const GUESTS: usize = FAR.len() + 1;
/// So long is no cut: nine seconds are none, of which two are for the machine that this runs on. A
/// link is found and made again within them.
const SHORT: Duration = Duration::from_secs(7);

/// The Service of a shop, while the two clusters are cut apart.
pub(crate) struct Cuts<'a>(pub(crate) &'a Shop<'a>);

impl Cuts<'_> {
    /// While a cut lasts, guests are no endpoints at home; over there all is as it was.
    pub(crate) async fn are_seen(&self) -> Result<()> {
        for cut in [Cut::All, Cut::Tunnel, Cut::Daemons] {
            let mark = self.0.home.audit_mark()?;
            self.cut(cut, true).await?;
            let began = Instant::now();
            let kept = self.is_done_without(cut, began).await;
            self.cut(cut, false).await?;
            let back = Instant::now();
            kept.with_context(|| format!("{cut:?} is cut"))?;
            self.far_is("True", BACK).await.with_context(|| format!("after {cut:?}"))?;
            println!("{cut:?}: ready {:.1?} after it is back", back.elapsed());
            self.answers_of_all().await.with_context(|| format!("after {cut:?}"))?;
            let writes = self.written(mark)?;
            ensure!(writes == 2 * GUESTS, "{cut:?}: {writes} writes of {GUESTS} pods");
        }
        let mark = self.0.home.audit_mark()?;
        let began = Instant::now();
        self.cut(Cut::All, true).await?;
        // What it takes to cut, it takes to mend, and is silence as well.
        tokio::time::sleep(SHORT.saturating_sub(2 * began.elapsed())).await;
        self.cut(Cut::All, false).await?;
        let made = began.elapsed();
        self.answers_of_all().await.context("after a short cut")?;
        let writes = self.written(mark)?;
        ensure!(
            writes == 0,
            "{writes} writes for a cut of {SHORT:?}, made and mended in {made:.1?}"
        );
        Ok(())
    }

    async fn is_done_without(&self, cut: Cut, began: Instant) -> Result<()> {
        let before = self.0.user.address_of(FAR[0]).await?;
        self.far_is("False", SEEN).await?;
        println!("{cut:?}: not ready {:.1?} after the cut", began.elapsed());
        let ready = "jsonpath={.status.conditions[?(@.type=='Ready')].reason} {.status.podIP}";
        let said = self.0.user.kubectl(&["get", "pod", FAR[0], "-o", ready]).await?;
        ensure!(said == format!("PeerUnreachable {before}"), "it is {said}");
        let address = self.0.address(self.0.home, NAMESPACE).await?;
        let own = |times| BTreeMap::from([(NEAR[0].to_owned(), times)]);
        wait::until("home calls its own pods alone", SEEN, || async {
            // A proxy takes the guests away one after the other: by chance, few calls miss the last.
            let answers = self.0.called(CALLERS[0], &format!("{address} 80"), 20).await?;
            Ok(answers == own(20))
        })
        .await?;
        let answers = self.0.called(CALLERS[0], &format!("{address} 80"), 50).await?;
        ensure!(answers == own(50), "not all of them reach its own: {answers:?}");
        self.0.has_endpoints("web", 3).await.context("over there")?;
        if cut == Cut::All {
            // As long as a person takes to look.
            tokio::time::sleep(Duration::from_secs(20).saturating_sub(began.elapsed())).await;
        }
        Ok(())
    }

    /// Waits until all guests are ready, or none is.
    async fn far_is(&self, ready: &str, patience: Duration) -> Result<()> {
        let path =
            "jsonpath={range .items[*]}{.status.conditions[?(@.type=='Ready')].status} {end}";
        let get = ["get", "pods", FAR[0], FAR[1], "-o", path];
        wait::until(&format!("Ready of guests is {ready}"), patience, || async {
            let said = self.0.user.kubectl(&get).await?;
            ensure!(said.split_whitespace().all(|word| word == ready), "it is {said}");
            Ok(true)
        })
        .await
    }

    async fn answers_of_all(&self) -> Result<()> {
        let address = self.0.address(self.0.home, NAMESPACE).await?;
        wait::until("guests answer", SEEN, || async {
            let answers = self.0.called(CALLERS[0], &format!("{address} 80"), 40).await?;
            ensure!(!answers.contains_key("lost"), "some requests are lost: {answers:?}");
            Ok(FAR.iter().all(|pod| answers.contains_key(*pod)))
        })
        .await
    }

    /// How often home's daemon has written statuses of pods since then.
    fn written(&self, mark: Mark) -> Result<usize> {
        let writes = self.0.home.writes_since(mark)?;
        let of_pods = |by: &str, resource: &str| by == PART && resource == "pods/status";
        Ok(writes.iter().filter(|(it, _)| of_pods(&it.by, &it.resource)).map(|(_, n)| n).sum())
    }

    async fn cut(&self, cut: Cut, apart: bool) -> Result<()> {
        let port = match cut {
            Cut::All => {
                self.0.home.set_apart(apart)?;
                return self.0.provider.set_apart(apart);
            }
            Cut::Tunnel => 7475,
            Cut::Daemons => 7474,
        };
        let script = match apart {
            true => rules(port),
            false => "nft delete table inet cut".to_owned(),
        };
        self.0.home.on_nth_machine(1, &script).await
    }
}

/// Drops what comes from this port or goes to it, in both directions.
fn rules(port: u16) -> String {
    let drop = |hook: &str, end: &str| {
        format!("nft add rule inet cut {hook} meta l4proto {{ tcp, udp }} th {end} {port} drop; ")
    };
    let chain = |hook: &str| {
        let begin = format!("{{ type filter hook {hook} priority -500; }}");
        let (from, to) = (drop(hook, "sport"), drop(hook, "dport"));
        format!("nft add chain inet cut {hook} '{begin}'; {from}{to}")
    };
    format!("nft add table inet cut; {}{}", chain("input"), chain("output"))
}
