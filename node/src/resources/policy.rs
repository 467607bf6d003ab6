//! MarketPolicy: while it is there, it says what is shared and what may be bought. What it
//! no longer says is again as the configuration file has it.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::{BuyPolicy, Command, SharePolicy, Unknown};
use mercato_kubelet::crd::{
    Condition, EventType, MarketPolicy, MarketPolicyStatus, Objects, is_deleted,
};
use mercato_kubelet::{Failure, Repeated, warn_once};
use tokio::sync::watch;

use super::service::{Serve, Service, news, say};
use super::wanted;
use crate::admin::Problem;
use crate::present::brief;

const SHARE: &str = "share";
const BUY: &str = "buy";
/// What says whether all names in it are known.
const NAMES: &str = "NamesKnown";
const UNKNOWN: &str = "UnknownNames";
const NOT_ON_SALE: &str = "there is no room for what is shared, or the network cannot keep guests \
    apart; to sell without: share.networkIsolation: none";

pub(super) struct Policy {
    pub(super) service: Service,
    /// What it says holds: orders may be placed.
    pub(super) ruled: watch::Sender<bool>,
    pub(super) failing: Repeated,
}

impl Serve for Policy {
    type Kind = MarketPolicy;

    fn serve<'a>(&'a mut self, objects: &'a mut Objects<MarketPolicy>) -> BoxFuture<'a, ()> {
        async move {
            // The schema allows one.
            let done = match objects.all().unwrap_or_default().first() {
                None => Ok(()),
                Some(policy) if is_deleted(policy) => self.withdraw(objects, policy).await,
                Some(policy) => self.hold(objects, policy).await,
            };
            match done {
                Ok(()) => {
                    self.failing.is_over();
                    self.ruled.send_replace(true);
                }
                Err(why) => warn_once!(self.failing, why; "a MarketPolicy does not hold yet"),
            }
        }
        .boxed()
    }
}

impl Policy {
    async fn hold(
        &self,
        objects: &mut Objects<MarketPolicy>,
        policy: &MarketPolicy,
    ) -> Result<(), Problem> {
        let spec = &policy.spec;
        let before = policy.status.clone().unwrap_or_default();
        let parts = [(SHARE, spec.share.is_some()), (BUY, spec.buy.is_some())];
        let holds: Vec<String> =
            parts.iter().filter(|(_, said)| *said).map(|(part, _)| (*part).to_owned()).collect();
        objects.hold(policy, true).await?;
        if holds.iter().any(|part| !before.holds.contains(part)) {
            // Said before it holds, so that it is taken back whatever happens meanwhile.
            let all = before.holds.iter().chain(&holds).cloned().collect();
            let holds = MarketPolicyStatus { holds: all, ..before.clone() };
            if !objects.say(policy, holds).await? {
                return Ok(());
            }
        }
        self.service.ruling.send_modify(|ruling| ruling.share = spec.share.is_some());
        let share = spec.share.as_ref().map(wanted::share).transpose();
        let buy = spec.buy.as_ref().map(wanted::buy).transpose();
        let fall_back = |part: &str| before.holds.iter().any(|held| held == part);
        let mut wrong = Vec::new();
        match share {
            Ok(Some(policy)) => wrong.extend(self.share(Some(policy)).await?),
            Ok(None) if fall_back(SHARE) => {
                drop(self.share(self.service.defaults.share.clone()).await?);
            }
            Ok(None) => {}
            Err(why) => wrong.push(why),
        }
        match buy {
            Ok(Some(policy)) => wrong.extend(self.buy(Some(policy)).await?),
            Ok(None) if fall_back(BUY) => drop(self.buy(self.service.defaults.buy.clone()).await?),
            Ok(None) => {}
            Err(why) => wrong.push(why),
        }
        self.report(objects, policy, holds, &wrong).await
    }

    async fn report(
        &self,
        objects: &mut Objects<MarketPolicy>,
        policy: &MarketPolicy,
        holds: Vec<String>,
        wrong: &[String],
    ) -> Result<(), Problem> {
        let share = self.service.api.share().await?;
        let status = self.service.api.status().await?;
        let unsold = share.policy.is_some() && share.on_sale.is_empty();
        let (ready, reason, message) = match wrong {
            [] if unsold && policy.spec.share.is_some() => {
                (false, "NothingOnSale", NOT_ON_SALE.to_owned())
            }
            [] => (true, "Holds", format!("{} as written here", holds.join(" and "))),
            wrong => (false, "Invalid", wrong.join("; ")),
        };
        // As it is now: it may have been written to meanwhile.
        let known = objects.all().unwrap_or_default();
        let policy = known.first().unwrap_or(policy);
        let before = policy.status.clone().unwrap_or_default();
        let generation = policy.metadata.generation.unwrap_or_default();
        let kind = if ready { EventType::Normal } else { EventType::Warning };
        let mut conditions =
            Condition::ready(ready, (reason, message), generation, &before.conditions);
        let news = news(kind, &before.conditions, &conditions);
        let slips = slips(&share.unknown, generation, &before.conditions);
        conditions.extend(slips.clone());
        let status = MarketPolicyStatus {
            fingerprint: status.cluster.to_string(),
            name: status.name,
            shares: share.policy.as_ref().map_or_else(|| "nothing".to_owned(), brief::shares),
            price: share
                .policy
                .as_ref()
                .map(|policy| brief::price(&policy.price))
                .unwrap_or_default(),
            holds,
            conditions,
        };
        if !say(objects, policy, status, news).await? {
            return Ok(());
        }
        let said = before.conditions.iter().find(|known| known.kind == NAMES);
        if let Some(Condition { message, .. }) = slips
            && said.is_none_or(|said| said.message != message)
        {
            objects.event(policy, EventType::Warning, UNKNOWN, &message).await?;
        }
        Ok(())
    }

    /// Takes back what it said: it is being deleted.
    async fn withdraw(
        &self,
        objects: &mut Objects<MarketPolicy>,
        policy: &MarketPolicy,
    ) -> Result<(), Problem> {
        let held = policy.status.clone().unwrap_or_default().holds;
        let defaults = &self.service.defaults;
        if held.iter().any(|part| part == SHARE) {
            self.share(defaults.share.clone()).await?;
        }
        if held.iter().any(|part| part == BUY) {
            self.buy(defaults.buy.clone()).await?;
        }
        self.service.ruling.send_modify(|ruling| ruling.share = false);
        Ok(objects.hold(policy, false).await?)
    }

    /// Shares this, if that is not what is shared; says what is wrong with it.
    async fn share(&self, wanted: Option<SharePolicy>) -> Result<Option<String>, Problem> {
        let driver = &self.service.driver;
        let now = driver.look(|driver| driver.agent().broker().share().cloned()).await?;
        if now == wanted {
            return Ok(None);
        }
        let refused = driver.command(Command::Share(wanted)).await?.err();
        Ok(refused.map(|refusal| format!("spec.share: {refusal}")))
    }

    /// The same of what may be bought.
    async fn buy(&self, wanted: Option<BuyPolicy>) -> Result<Option<String>, Problem> {
        let driver = &self.service.driver;
        let now = driver.look(|driver| driver.agent().broker().buy().cloned()).await?;
        if now == wanted {
            return Ok(None);
        }
        let refused = driver.command(Command::Buy(wanted)).await?.err();
        Ok(refused.map(|refusal| format!("spec.buy: {refusal}")))
    }
}

/// That names in it match nothing known; none: they all do.
fn slips(unknown: &[Unknown], generation: i64, before: &[Condition]) -> Option<Condition> {
    let names: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    let said = || Condition::of(NAMES, false, UNKNOWN, names.join("; "), generation, before);
    (!names.is_empty()).then(said)
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::failed(failure.to_string())
    }
}
