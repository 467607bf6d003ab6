//! What of a namespace is open to guests of other namespaces, as annotations of it say: which of its
//! Services, and to whose guests. Names with a comma between them, or `*` for all.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;

/// All, or these names and no others; written down, a list of names, in which `*` is all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub enum Listed {
    /// All names that there are.
    All,
    /// These names alone, at most [`limits::LISTED`].
    These(BTreeSet<String>),
}

/// What stands for all names.
const ALL: &str = "*";

impl From<Vec<String>> for Listed {
    fn from(names: Vec<String>) -> Self {
        Self::new(names)
    }
}

impl From<Listed> for Vec<String> {
    fn from(listed: Listed) -> Self {
        match listed {
            Listed::All => vec![ALL.to_owned()],
            Listed::These(names) => names.into_iter().collect(),
        }
    }
}

impl Listed {
    /// The list without any name.
    pub const NONE: Self = Self::These(BTreeSet::new());

    /// Of names, all of them if one is `*`; of more than [`limits::LISTED`] the first ones.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let names: BTreeSet<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
        if names.contains(ALL) {
            return Self::All;
        }
        Self::These(names.into_iter().take(limits::LISTED).collect())
    }

    /// Whether this name is one of them.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
        }
    }

    /// Whether no name can be one of them.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// As an annotation says it.
    fn mark(&self) -> Value {
        Vec::<String>::from(self.clone()).join(",").into()
    }

    fn parse(text: &str) -> Self {
        Self::new(text.split(',').map(|name| name.trim().to_owned()))
    }
}

/// What is open to guests of other namespaces where no pod of this one runs: without a word nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Opens {
    /// Its Services that guests elsewhere may call.
    pub services: Listed,
    /// The namespaces whose guests may call them.
    pub callers: Listed,
}

impl Default for Opens {
    fn default() -> Self {
        Self { services: Listed::NONE, callers: Listed::All }
    }
}

impl Opens {
    /// As the annotations for Services and for callers say it; none where there is to be none.
    pub(super) fn marks(&self) -> [Value; 2] {
        let unless = |listed: &Listed, default| {
            if *listed == default { Value::Null } else { listed.mark() }
        };
        [unless(&self.services, Listed::NONE), unless(&self.callers, Listed::All)]
    }

    /// What these annotations say; what is no text is as without one for Services, and nobody for callers.
    pub(super) fn parse(services: &Value, callers: &Value) -> Self {
        let services = services.as_str().map_or(Listed::NONE, Listed::parse);
        let callers = if callers.is_null() {
            Listed::All
        } else {
            callers.as_str().map_or(Listed::NONE, Listed::parse)
        };
        Self { services, callers }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn these(names: &[&str]) -> Listed {
        Listed::new(names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn without_a_word_nothing_is_open_and_what_is_marked_is_read() {
        let read = |services: Value, callers: Value| Opens::parse(&services, &callers);
        assert_eq!(read(Value::Null, Value::Null), Opens::default());
        assert!(Opens::default().services.is_none() && Opens::default().callers.has("web"));
        assert_eq!(Opens::default().marks(), [Value::Null, Value::Null]);
        for (services, callers) in [
            (these(&["db", "cache"]), Listed::All),
            (Listed::All, these(&["web"])),
            (Listed::All, Listed::NONE),
            (Listed::NONE, Listed::NONE),
        ] {
            let opens = Opens { services, callers };
            let [services, callers] = opens.marks();
            assert_eq!(read(services, callers), opens);
        }
        let spaced = read(json!(" db , cache,"), json!(""));
        assert_eq!(spaced, Opens { services: these(&["cache", "db"]), callers: Listed::NONE });
        assert_eq!(read(json!(["db"]), json!(7)).callers, Listed::NONE);
        assert!(read(json!(["db"]), json!(7)).services.is_none());
        assert_eq!(read(json!("db,*"), Value::Null).services, Listed::All);
    }

    #[test]
    fn a_list_has_a_bound_and_says_all_by_one_word() {
        let many = Listed::new((0..100).map(|n| format!("s{n:03}")));
        assert!(many.has("s063") && !many.has("s064"));
        assert_eq!(serde_json::to_value(Listed::All).unwrap(), json!(["*"]));
        assert_eq!(serde_json::from_value::<Listed>(json!(["a", "*"])).unwrap(), Listed::All);
        assert!(!these(&["db"]).has("d") && Listed::All.has("d") && !Listed::NONE.has("d"));
    }
}
