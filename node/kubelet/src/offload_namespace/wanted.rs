//! A namespace that is to leave home, as its object says.

use mercato_offload::placement::export::{OptIn, Scope};
use serde_json::Value;

/// An opted-in namespace as its object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) how: OptIn,
    pub(super) uid: String,
    /// It is being deleted: no right can be given in it any more.
    pub(super) ends: bool,
}

impl Wanted {
    /// None where the namespace may not leave home.
    pub(super) fn read(scope: Scope, namespace: &Value) -> Option<Self> {
        let metadata = &namespace["metadata"];
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        let ends = !metadata["deletionTimestamp"].is_null();
        Some(Self { how: scope.read(namespace)?, uid, ends })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::OFFLOAD;

    fn namespace() -> Value {
        json!({ "metadata": { "name": "shop", "uid": "7", "labels": { OFFLOAD: "both" } } })
    }

    #[test]
    fn one_that_is_being_deleted_is_known_to_end() {
        let mut ending = namespace();
        let read = |namespace: &Value| {
            Wanted::read(Scope::Labelled, namespace).map(|wanted| (wanted.uid, wanted.ends))
        };
        assert_eq!(read(&ending), Some(("7".to_owned(), false)));
        ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(read(&ending), Some(("7".to_owned(), true)));
        assert_eq!(Wanted::read(Scope::All, &ending), None);
    }
}
