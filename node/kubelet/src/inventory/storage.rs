//! The class of storage that the owner shares: whether the cluster has it, and what its owner should
//! know of it. What a class has room for nobody can ask; how much is sold is the owner's word.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mercato_offload::placement::claims::DRIVER;
use serde_json::Value;

/// Which class of storage the owner shares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SharedStorage {
    /// The owner shares no storage.
    #[default]
    Nothing,
    /// That which claims have that name none.
    DefaultClass,
    /// The one of this name.
    Class(String),
}

/// What there is of the class that is shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StorageState {
    /// No storage is shared, or the classes have not been read.
    #[default]
    Unknown,
    /// The cluster has this class.
    There {
        /// What the cluster calls it.
        class: String,
        /// What its owner should know, a sentence each.
        told: Vec<String>,
    },
    /// The cluster lacks this class.
    Missing {
        /// Which is missing, and how that is.
        why: String,
        /// What the owner may write.
        line: String,
    },
}

/// What is kept of a StorageClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClassView {
    is_default: bool,
    /// As Kubernetes writes moments: the later one is greater.
    made: String,
    immediate: bool,
    retain: bool,
    grows: bool,
}

/// Names that are said of classes that are there.
const NAMES: usize = 8;

impl ClassView {
    /// None: it is the class of what is stored elsewhere, which nobody makes here.
    pub(super) fn read(class: &Value) -> Option<Self> {
        if class["provisioner"] == DRIVER {
            return None;
        }
        let metadata = &class["metadata"];
        let says = |key: &str| metadata["annotations"][key] == "true";
        Some(Self {
            is_default: says("storageclass.kubernetes.io/is-default-class")
                || says("storageclass.beta.kubernetes.io/is-default-class"),
            made: metadata["creationTimestamp"].as_str().unwrap_or_default().to_owned(),
            immediate: class["volumeBindingMode"] != "WaitForFirstConsumer",
            retain: class["reclaimPolicy"] == "Retain",
            grows: class["allowVolumeExpansion"] == true,
        })
    }

    /// What its owner should know of one that is sold.
    fn told(&self, name: &str) -> Vec<String> {
        let immediate = self.immediate.then(|| {
            format!(
                "StorageClass {name} makes volumes at once (volumeBindingMode: Immediate), be it \
                 where no node has room for their pods"
            )
        });
        let retain = self.retain.then(|| {
            format!(
                "StorageClass {name} keeps volumes whose claims are gone (reclaimPolicy: Retain): \
                 what buyers wrote outlives their contracts, and takes your room until you remove it"
            )
        });
        let fixed = (!self.grows).then(|| {
            format!(
                "volumes of StorageClass {name} do not grow (no allowVolumeExpansion): storage that \
                 is bought later is for other volumes"
            )
        });
        [immediate, retain, fixed].into_iter().flatten().collect()
    }
}

/// What there is of the class that is shared; of several that are the default the newest is, and of
/// those of one age the first by name, as Kubernetes has it.
pub(super) fn state(shared: &SharedStorage, classes: &BTreeMap<String, ClassView>) -> StorageState {
    let found = match shared {
        SharedStorage::Nothing => return StorageState::Unknown,
        SharedStorage::Class(name) => classes.get_key_value(name),
        SharedStorage::DefaultClass => {
            let defaults = classes.iter().filter(|(_, class)| class.is_default);
            defaults.min_by_key(|(name, class)| (Reverse(&class.made), *name))
        }
    };
    if let Some((name, class)) = found {
        return StorageState::There { class: name.clone(), told: class.told(name) };
    }
    let there: Vec<_> = classes.keys().take(NAMES).map(String::as_str).collect();
    let why = match shared {
        SharedStorage::Class(name) => format!("the cluster has no StorageClass {name}"),
        SharedStorage::Nothing | SharedStorage::DefaultClass if there.is_empty() => {
            "the cluster has no StorageClass".to_owned()
        }
        SharedStorage::Nothing | SharedStorage::DefaultClass => {
            "no StorageClass of the cluster is the default".to_owned()
        }
    };
    let line = match there[..] {
        [] => "install a provisioner of volumes, which brings one".to_owned(),
        [one] => format!("share.storageClass: {one}"),
        [_, _, ..] => format!("share.storageClass: one of {}", there.join(", ")),
    };
    StorageState::Missing { why, line }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(made: &str, default: bool) -> Value {
        json!({
            "metadata": {
                "creationTimestamp": made,
                "annotations":
                    { "storageclass.kubernetes.io/is-default-class": default.to_string() },
            },
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
            "allowVolumeExpansion": true,
        })
    }

    fn of(shared: SharedStorage, classes: &[(&str, Value)]) -> StorageState {
        let read = |(name, it): &(&str, Value)| Some(((*name).to_owned(), ClassView::read(it)?));
        let classes = classes.iter().filter_map(read);
        state(&shared, &classes.collect())
    }

    fn missing(shared: SharedStorage, classes: &[(&str, Value)]) -> (String, String) {
        let StorageState::Missing { why, line } = of(shared, classes) else {
            panic!("it is there")
        };
        (why, line)
    }

    #[test]
    fn a_class_that_is_missing_is_named_with_the_line_that_helps() {
        let named = |name: &str| SharedStorage::Class(name.to_owned());
        let plain = ("standard", class("2026-01-01T00:00:00Z", false));
        let (why, line) = missing(named("fast"), std::slice::from_ref(&plain));
        assert_eq!(why, "the cluster has no StorageClass fast");
        assert_eq!(line, "share.storageClass: standard");
        let mut of_others = class("2026-01-01T00:00:00Z", true);
        of_others["provisioner"] = DRIVER.into();
        let two =
            [plain.clone(), ("slow", class("2026-01-01T00:00:00Z", false)), ("mercato", of_others)];
        let (why, line) = missing(SharedStorage::DefaultClass, &two);
        assert_eq!(why, "no StorageClass of the cluster is the default");
        assert_eq!(line, "share.storageClass: one of slow, standard");
        let (why, line) = missing(SharedStorage::DefaultClass, &[]);
        assert_eq!(why, "the cluster has no StorageClass");
        assert!(line.contains("provisioner"), "{line}");
        let there = |class: &str| StorageState::There { class: class.to_owned(), told: vec![] };
        assert_eq!(of(named("standard"), &[plain]), there("standard"));
        assert_eq!(of(SharedStorage::Nothing, &[]), StorageState::Unknown);
    }

    #[test]
    fn of_two_default_classes_the_newest_counts() {
        let odd = json!({
            "metadata": { "creationTimestamp": "2026-02-01T00:00:00Z", "annotations":
                { "storageclass.beta.kubernetes.io/is-default-class": "true" } },
            "reclaimPolicy": "Retain",
        });
        let old = class("2026-01-01T00:00:00Z", true);
        let both = [("a", old.clone()), ("b", odd)];
        let StorageState::There { told, .. } = of(SharedStorage::DefaultClass, &both) else {
            panic!()
        };
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told.iter().all(|it| it.contains("StorageClass b")), "{told:?}");
        for (said, word) in told.iter().zip(["Immediate", "Retain", "do not grow"]) {
            assert!(said.contains(word), "{said}");
        }
        let same = [("b", class("2026-01-01T00:00:00Z", true)), ("a", old)];
        let there = StorageState::There { class: "a".to_owned(), told: vec![] };
        assert_eq!(of(SharedStorage::DefaultClass, &same), there);
    }
}
