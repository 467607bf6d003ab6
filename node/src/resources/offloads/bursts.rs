//! Whether capacity is bought by itself for the pods of a namespace that find no room, and why, or why not.

use mercato_config::Show as _;
use mercato_kubelet::crd::Strategy;

use super::told::Told;
use crate::admin::{Bursts, NamespaceBursts};

/// The condition that says so.
pub(super) const BURSTS: &str = "Bursts";

/// With what the market does; none: its owner allows nothing.
pub(super) fn of(strategy: Strategy, namespace: &str, all: Option<&Bursts>) -> Told {
    let told =
        |holds, reason: &str, message: String| Told { holds, reason: reason.to_owned(), message };
    if strategy == Strategy::Local {
        let message = "strategy Local keeps all of its pods at home: nothing is bought for them";
        return told(false, "StaysAtHome", message.to_owned());
    }
    let Some(all) = all else {
        let message = "the owner of the cluster allows nothing to be bought by itself: see buy.bursts of the \
                       MarketPolicy";
        return told(false, "NotAllowed", message.to_owned());
    };
    let of_namespace = all.namespaces.iter().find(|of| of.namespace == namespace);
    let Some(of) = of_namespace else {
        let message = "no pod of it waits without room, and nothing is bought for it";
        return told(true, "NoPodWaits", message.to_owned());
    };
    let bought = bought(of);
    match (&of.reason, &of.message) {
        (Some(reason), Some(why)) if of.waiting > 0 => {
            told(false, reason, format!("{}: {why}; {bought}", waiting(of.waiting)))
        }
        _ if of.waiting > 0 => told(true, "PodsWait", format!("{}; {bought}", waiting(of.waiting))),
        _ => told(true, "Bought", bought),
    }
}

fn waiting(pods: usize) -> String {
    match pods {
        1 => "a pod waits without room".to_owned(),
        pods => format!("{pods} pods wait without room"),
    }
}

fn bought(of: &NamespaceBursts) -> String {
    match of.contracts {
        0 => "nothing is bought for it".to_owned(),
        1 => format!("one contract has {}", of.bought.show()),
        many => format!("{many} contracts have {} together", of.bought.show()),
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::resources::Resources;

    use super::*;

    fn all(waiting: usize, contracts: usize, lacks: Option<(&str, &str)>) -> Bursts {
        let four = Resources { cpu_millis: 4_000, pods: 4, ..Resources::default() };
        let bought = if contracts > 0 { four.clone() } else { Resources::default() };
        let namespaces = vec![NamespaceBursts {
            namespace: "shop".to_owned(),
            bought: bought.clone(),
            contracts,
            waiting,
            reason: lacks.map(|(reason, _)| reason.to_owned()),
            message: lacks.map(|(_, why)| why.to_owned()),
        }];
        Bursts { most: four, bought, contracts, namespaces }
    }

    #[test]
    fn each_state_of_a_namespace_has_its_word() {
        let says = |strategy, namespace: &str, all: Option<&Bursts>| {
            let Told { holds, reason, message } = of(strategy, namespace, all);
            (holds, reason, message)
        };
        let is = |holds: bool, reason: &str, message: &str| {
            (holds, reason.to_owned(), message.to_owned())
        };
        let (holds, reason, _) = says(Strategy::Local, "shop", Some(&all(1, 0, None)));
        assert_eq!((holds, &*reason), (false, "StaysAtHome"));
        let (holds, reason, message) = says(Strategy::Both, "shop", None);
        assert_eq!((holds, &*reason), (false, "NotAllowed"));
        assert!(message.contains("buy.bursts of the MarketPolicy"), "{message}");
        let other = says(Strategy::Both, "lab", Some(&all(1, 0, None)));
        assert_eq!((other.0, &*other.1), (true, "NoPodWaits"));
        assert_eq!(
            says(Strategy::Both, "shop", Some(&all(1, 0, None))),
            is(true, "PodsWait", "a pod waits without room; nothing is bought for it")
        );
        assert_eq!(
            says(Strategy::Remote, "shop", Some(&all(0, 1, None))),
            is(true, "Bought", "one contract has cpu=4,pods=4")
        );
        assert_eq!(
            says(Strategy::Both, "shop", Some(&all(20, 2, Some(("OverBudget", "most is 4"))))),
            is(
                false,
                "OverBudget",
                "20 pods wait without room: most is 4; 2 contracts have cpu=4,pods=4 together"
            )
        );
    }
}
