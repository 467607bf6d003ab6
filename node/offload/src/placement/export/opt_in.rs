//! What the owner of a namespace allows, as the marks on it say: a label for where its pods may
//! run, and annotations for the rest.

use mercato_protocol::workload::is_reserved;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::guest_name::GuestName;
use super::opens::Opens;
use super::patience::Patience;
use super::secrets::Secrets;
use super::targets::Targets;
use super::when_leaving::WhenLeaving;
use crate::forge::labels::{
    API_ACCESS, BURST, CALLERS, GUEST_NAMESPACE, OFFLOAD, SECRETS, SERVICES, TARGETS,
    UNREACHABLE_AFTER, WHEN_LEAVING,
};

/// Where the pods of a namespace may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Strategy {
    /// On home's own nodes only.
    Local,
    /// On virtual nodes only: elsewhere.
    Remote,
    /// Wherever the scheduler finds best.
    #[default]
    Both,
}

impl Strategy {
    /// All there are, in the order of their names.
    pub const ALL: [Self; 3] = [Self::Local, Self::Remote, Self::Both];

    /// As the label says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
            Self::Both => "both",
        }
    }

    /// The one that the label says.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text)
    }
}

/// What an owner allowed for a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OptIn {
    /// Where its pods may run.
    pub strategy: Strategy,
    /// Whether pods elsewhere get tokens for home's API server.
    pub api_access: bool,
    /// Which secrets may leave with the pods that use them.
    #[serde(default)]
    pub secrets: Secrets,
    /// Which virtual nodes they may go to.
    #[serde(default, rename = "to")]
    pub targets: Targets,
    /// What its guest namespaces are called.
    #[serde(default)]
    pub name: GuestName,
    /// How long a provider may be silent before its pods there are not ready.
    #[serde(default)]
    pub patience: Patience,
    /// What becomes of its pods on a virtual node whose lease ends soon.
    #[serde(default)]
    pub when_leaving: WhenLeaving,
    /// Whether capacity is bought by itself for its pods that find no room.
    #[serde(default)]
    pub burst: bool,
    /// What of it guests of other namespaces may call.
    #[serde(default)]
    pub opens: Opens,
}

impl OptIn {
    /// The labels and annotations of a namespace of which this is said, as a patch of its
    /// metadata.
    pub fn marks(&self) -> Value {
        let access = if self.api_access { "home" } else { "none" };
        let [services, callers] = self.opens.marks();
        json!({
            "labels": { OFFLOAD: self.strategy.as_str() },
            "annotations": {
                API_ACCESS: access,
                SECRETS: self.secrets.mark(),
                TARGETS: self.targets.mark(),
                GUEST_NAMESPACE: self.name.mark(),
                UNREACHABLE_AFTER: self.patience.mark(),
                WHEN_LEAVING: self.when_leaving.mark(),
                BURST: self.burst.then_some("true"),
                SERVICES: services,
                CALLERS: callers,
            },
        })
    }

    /// A patch that takes those marks away.
    pub fn no_marks() -> Value {
        let marks = [
            API_ACCESS,
            SECRETS,
            TARGETS,
            GUEST_NAMESPACE,
            UNREACHABLE_AFTER,
            WHEN_LEAVING,
            BURST,
            SERVICES,
            CALLERS,
        ];
        let none: Value = marks.map(|mark| (mark.to_owned(), Value::Null)).into_iter().collect();
        json!({ "labels": { OFFLOAD: null }, "annotations": none })
    }

    /// The same for a namespace of which something was said before: that of secrets, tokens,
    /// nodes, names and times stays as it was, and pods that had to stay at home may leave as well.
    #[must_use]
    pub fn further(self, before: Option<Self>) -> Self {
        match before {
            Some(before) if before.strategy == Strategy::Local => {
                Self { strategy: self.strategy, ..before }
            }
            Some(before) => before,
            None => self,
        }
    }
}

/// Which namespaces may leave home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that carry the label.
    Labelled,
    /// All but guest namespaces and the cluster's own; a label says how.
    All,
}

impl Scope {
    /// What is allowed for this namespace, an object of an API server; none: it stays.
    pub fn read(self, namespace: &Value) -> Option<OptIn> {
        let metadata = &namespace["metadata"];
        if is_reserved(metadata["name"].as_str().unwrap_or_default()) {
            return None;
        }
        let labelled = metadata["labels"][OFFLOAD].as_str().and_then(Strategy::parse);
        let strategy = match self {
            Self::Labelled => labelled?,
            Self::All if metadata["deletionTimestamp"].is_null() => labelled.unwrap_or_default(),
            Self::All => return None,
        };
        let annotations = &metadata["annotations"];
        let api_access = annotations[API_ACCESS] == "home";
        let secrets = annotations[SECRETS].as_str().map_or(Secrets::All, Secrets::parse);
        let targets = annotations[TARGETS].as_str().map_or(Targets::All, Targets::parse);
        let name = annotations[GUEST_NAMESPACE].as_str().map(GuestName::from).unwrap_or_default();
        let patience = Patience::parse(&annotations[UNREACHABLE_AFTER]);
        let when_leaving = WhenLeaving::parse(&annotations[WHEN_LEAVING]);
        let burst = annotations[BURST] == "true";
        let opens = Opens::parse(&annotations[SERVICES], &annotations[CALLERS]);
        Some(OptIn {
            strategy,
            api_access,
            secrets,
            targets,
            name,
            patience,
            when_leaving,
            burst,
            opens,
        })
    }

    /// Whether the pods of a namespace of which nothing is known may leave home: it may be so
    /// new that nobody has told of it.
    pub fn unknown(self, namespace: &str) -> Leave {
        if self == Self::All && !is_reserved(namespace) { Leave::Soon } else { Leave::Never }
    }
}

/// Whether the pods of a namespace may leave home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leave {
    /// They may, as its owner allows.
    Now(OptIn),
    /// They may, as soon as all is prepared for it.
    Soon,
    /// They may not: nobody allows it.
    Never,
}

impl Leave {
    /// Whether a pod of the namespace stays that is bound to any virtual node.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Now(how) => how.strategy == Strategy::Local,
            Self::Soon => false,
            Self::Never => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::{ClusterId, ContractId};

    use super::*;
    use crate::placement::export::{Consent, LeaseNode, Listed, Opened};

    fn namespace(label: &str) -> Value {
        json!({ "metadata": { "name": "shop", "labels": { OFFLOAD: label },
            "annotations": { API_ACCESS: "home" } } })
    }

    #[test]
    fn a_label_that_is_no_strategy_opts_nothing_in() {
        let both = OptIn { api_access: true, ..OptIn::default() };
        assert_eq!(Scope::Labelled.read(&namespace("both")), Some(both));
        assert_eq!(Scope::Labelled.read(&namespace("yes")), None);
        let plain = |name: &str| json!({ "metadata": { "name": name } });
        assert_eq!(Scope::Labelled.read(&plain("shop")), None);
        assert_eq!(Scope::All.read(&plain("shop")), Some(OptIn::default()));
        for own in ["kube-system", "default", "mercato", "openshift-monitoring"] {
            assert_eq!(Scope::All.read(&plain(own)), None);
            assert_eq!(Scope::All.unknown(own), Leave::Never, "{own}");
            let mut labelled = namespace("both");
            labelled["metadata"]["name"] = own.into();
            assert_eq!(Scope::Labelled.read(&labelled), None);
        }
        assert_eq!(Scope::All.unknown("shop"), Leave::Soon);
        assert_eq!(Scope::Labelled.unknown("shop"), Leave::Never);
    }

    #[test]
    fn every_mark_is_read_and_taken_away() {
        let how = OptIn {
            strategy: Strategy::Remote,
            api_access: true,
            secrets: Secrets::Deny(["tls".to_owned()].into()),
            targets: Targets::new(["turin".to_owned()]),
            name: GuestName::Chosen("shop-eu".to_owned()),
            patience: Patience::from(45),
            when_leaving: WhenLeaving::Stay,
            burst: true,
            opens: Opens {
                services: Listed::new(["db".to_owned()]),
                callers: Listed::new(["web".to_owned()]),
            },
        };
        let (put, taken) = (how.marks(), OptIn::no_marks());
        let mut marked = json!({ "metadata": put });
        marked["metadata"]["name"] = "shop".into();
        assert_eq!(Scope::Labelled.read(&marked), Some(how.clone()), "{put}");
        for kind in ["labels", "annotations"] {
            for mark in put[kind].as_object().unwrap().keys() {
                assert_eq!(taken[kind].get(mark), Some(&Value::Null), "{taken}");
            }
        }
        let written = serde_json::to_value(&how).unwrap();
        assert_eq!(
            (&written["to"], &written["name"]),
            (&json!(["mercato-turin"]), &json!("shop-eu"))
        );
        assert_eq!(serde_json::from_value::<OptIn>(written).unwrap(), how);
    }

    /// As releases had it that knew nothing of Services: on a namespace, and in what a daemon has stored.
    #[test]
    fn what_an_earlier_release_has_said_opens_nothing() {
        let (contract, provider) = (ContractId([0x2f; 16]), ClusterId([0x4f; 32]));
        let node = LeaseNode { name: "mercato-turin", contract: &contract, provider: &provider };
        for strategy in Strategy::ALL {
            let before = namespace(strategy.as_str());
            let marks = before["metadata"]["annotations"].as_object().unwrap();
            assert!([SERVICES, CALLERS].iter().all(|mark| !marks.contains_key(*mark)));
            let marked = Scope::Labelled.read(&before).unwrap();
            let mut stored = serde_json::to_value(&marked).unwrap();
            assert!(stored.as_object_mut().unwrap().remove("opens").is_some());
            let stored: OptIn = serde_json::from_value(stored).unwrap();
            assert_eq!((stored.strategy, &stored), (strategy, &marked));
            for how in [marked, stored] {
                assert!(how.opens.services.is_none(), "{strategy:?}");
                let targets = how.targets.clone();
                let opened = Opened { api: how.api_access, opens: how.opens, targets };
                let web = ("web".to_owned(), Opened::default());
                let consent = Consent::new([web, ("shop".to_owned(), opened)]);
                let guests = ["web"].into();
                assert!(consent.open_to(node, &guests).is_empty(), "{strategy:?}");
                assert_eq!(consent.opening().count(), 0, "{strategy:?}");
            }
        }
    }

    #[test]
    fn what_was_said_before_is_not_widened() {
        let before = |strategy| OptIn {
            strategy,
            secrets: Secrets::Allow(["tls".to_owned()].into()),
            targets: Targets::new(["mercato-turin".to_owned()]),
            name: GuestName::Same,
            ..OptIn::default()
        };
        for (was, is) in [
            (Strategy::Both, Strategy::Both),
            (Strategy::Remote, Strategy::Remote),
            (Strategy::Local, Strategy::Both),
        ] {
            assert_eq!(OptIn::default().further(Some(before(was))), before(is));
        }
        assert_eq!(OptIn::default().further(None), OptIn::default());
    }
}
