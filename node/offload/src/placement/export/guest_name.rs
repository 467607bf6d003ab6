//! What the guest namespace of a namespace is called, as an annotation of it says: `same` or
//! a name.

use mercato_protocol::workload::may_be_chosen;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a guest namespace is called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<String>", into = "Option<String>")]
pub enum GuestName {
    /// As the provider names it.
    #[default]
    Default,
    /// The name that the namespace has at home.
    Same,
    /// A name that the namespace's owner chose.
    Chosen(String),
}

impl From<&str> for GuestName {
    fn from(text: &str) -> Self {
        match text {
            "default" => Self::Default,
            "same" => Self::Same,
            name => Self::Chosen(name.to_owned()),
        }
    }
}

impl From<Option<String>> for GuestName {
    fn from(text: Option<String>) -> Self {
        text.as_deref().map(Self::from).unwrap_or_default()
    }
}

impl From<GuestName> for Option<String> {
    fn from(name: GuestName) -> Self {
        match name {
            GuestName::Default => None,
            GuestName::Same => Some("same".to_owned()),
            GuestName::Chosen(name) => Some(name),
        }
    }
}

impl GuestName {
    /// The name of the guest namespace of this namespace; none if that is the provider's to
    /// choose.
    ///
    /// # Errors
    /// Why none can be called so.
    pub fn place(&self, namespace: &str) -> Result<Option<String>, String> {
        let name = match self {
            Self::Default => return Ok(None),
            Self::Same => namespace,
            Self::Chosen(name) => name,
        };
        if may_be_chosen(name) {
            return Ok(Some(name.to_owned()));
        }
        Err(format!(
            "no guest namespace can be called {name:?}: it takes lower-case letters, digits and \
            '-', at most 63, and none of Kubernetes' own, for example {namespace}-eu"
        ))
    }

    /// As the annotation says; none where there is to be none.
    pub(super) fn mark(&self) -> Value {
        Option::<String>::from(self.clone()).map_or(Value::Null, Value::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_marked_read_and_found() {
        let place = |text: &str| GuestName::from(text).place("shop");
        assert_eq!(place("default"), Ok(None));
        assert_eq!(place("same"), Ok(Some("shop".to_owned())));
        assert_eq!(place("shop-eu"), Ok(Some("shop-eu".to_owned())));
        for text in ["same", "shop-eu"] {
            let name = GuestName::from(text);
            assert_eq!(GuestName::from(name.mark().as_str().unwrap()), name);
        }
        assert!(GuestName::Default.mark().is_null());
    }

    #[test]
    fn what_no_guest_namespace_can_be_called_is_never_another_name() {
        for text in ["", "Shop", "shop.eu", "kube-mine"] {
            let said = GuestName::from(text).place("shop").unwrap_err();
            assert!(said.contains(&format!("{text:?}")), "{said}");
        }
        assert!(GuestName::Same.place("kube-system").is_err());
        assert!(GuestName::Same.place("default").is_err());
    }
}
