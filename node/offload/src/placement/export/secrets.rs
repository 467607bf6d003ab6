//! Which secrets of a namespace may leave home, as an annotation of it says: `allow:a,b`
//! or `deny:a,b`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which secrets may leave with the pods that use them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Secrets {
    /// All that the pods use.
    #[default]
    All,
    /// These secrets and no others.
    Allow(BTreeSet<String>),
    /// All secrets but those named.
    Deny(BTreeSet<String>),
}

impl Secrets {
    /// Whether the secret of that name may.
    pub fn permit(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Allow(names) => names.contains(name),
            Self::Deny(names) => !names.contains(name),
        }
    }

    /// As the annotation says; none where there is to be none.
    pub(super) fn mark(&self) -> Value {
        let listed = |word: &str, names: &BTreeSet<String>| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            Value::from(format!("{word}:{}", names.join(",")))
        };
        match self {
            Self::All => Value::Null,
            Self::Allow(names) => listed("allow", names),
            Self::Deny(names) => listed("deny", names),
        }
    }

    /// What cannot be read permits nothing.
    pub(super) fn parse(text: &str) -> Self {
        let names = |text: &str| {
            text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        match text.split_once(':') {
            Some(("allow", listed)) => Self::Allow(names(listed)),
            Some(("deny", listed)) => Self::Deny(names(listed)),
            Some(_) | None => Self::Allow(BTreeSet::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_read_and_what_is_not_understood_permits_nothing() {
        let names = || ["a".to_owned(), "b".to_owned()].into();
        for secrets in [Secrets::Allow(names()), Secrets::Deny(names()), Secrets::Deny([].into())] {
            assert_eq!(Secrets::parse(secrets.mark().as_str().unwrap()), secrets);
        }
        assert!(Secrets::All.mark().is_null());
        assert!(Secrets::All.permit("a"));
        assert!(Secrets::Allow(names()).permit("a") && !Secrets::Allow(names()).permit("c"));
        assert!(!Secrets::Deny(names()).permit("a") && Secrets::Deny(names()).permit("c"));
        for text in ["", "all", "except:a"] {
            assert!(!Secrets::parse(text).permit("a"), "{text:?}");
        }
    }
}
