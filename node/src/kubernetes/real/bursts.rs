//! Pods without room for which something may be bought: watched, told to the market, and told what was
//! decided for them.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use mercato_agent::demand;
use mercato_broker::{BurstNews, BurstPolicy, BurstWord, PodDemand};
use mercato_kubelet::crd::EventType;
use mercato_kubelet::inventory::{self, BurstWatch, PodName};
use tokio::sync::watch;

use super::shared::Shared;

/// How pods are watched for which this may be bought.
pub(super) fn watched(bursts: &BurstPolicy) -> BurstWatch {
    BurstWatch { after: Duration::from_secs(bursts.after_s) }
}

/// The pods, now and whenever they are others.
pub(super) fn pending(
    shared: &Shared,
    word: watch::Receiver<Option<BurstWatch>>,
) -> BoxStream<'static, PodDemand> {
    let pods = inventory::pending(&shared.cluster, word, shared.opt_ins.known());
    pods.map(demand).boxed()
}

/// Says on some pods what was decided for them.
pub(super) fn tell_pods(shared: &Shared, news: &BurstNews) {
    let kind = match news.word {
        BurstWord::Bought => EventType::Normal,
        BurstWord::NoOffer
        | BurstWord::OverBudget
        | BurstWord::BoughtInVain
        | BurstWord::NotExtended
        | BurstWord::GivenBack
        | BurstWord::GivenUp => EventType::Warning,
    };
    for [name, uid] in &news.pods {
        let pod = PodName { namespace: &news.key.namespace, name, uid };
        let reason = news.word.as_str();
        tokio::spawn(inventory::tell_pod(&shared.cluster, pod, kind, reason, &news.text));
    }
}
