//! How long a namespace may be read. Whatever is begun for a namespace is given its [`Life`],
//! and ends with it; a watch of one namespace cannot be begun without.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A namespace for as long as it may be read. Clones end together; two lives of one name
/// differ.
#[derive(Clone, Debug)]
pub(crate) struct Life(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    namespace: String,
    over: CancellationToken,
}

impl Life {
    /// One that is never over.
    #[cfg(test)]
    pub(crate) fn lasting(namespace: &str) -> Self {
        Self::begin(namespace.to_owned())
    }

    fn begin(namespace: String) -> Self {
        Self(Arc::new(Inner { namespace, over: CancellationToken::new() }))
    }

    /// The name of the namespace whose life it is.
    pub(crate) fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// Whether the namespace may not be read any more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.over.is_cancelled()
    }

    /// Completes once the namespace may not be read any more.
    pub(crate) fn over(&self) -> WaitForCancellationFutureOwned {
        self.0.over.clone().cancelled_owned()
    }
}

impl PartialEq for Life {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Life {}

/// The namespaces that may be read, each with its life. `K` tells two of one name apart.
/// All lives end with this value.
#[derive(Debug)]
pub(crate) struct Lives<K>(BTreeMap<String, (K, Life)>);

impl<K> Default for Lives<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: PartialEq> Lives<K> {
    /// These and no others may be read from now on. What was of another key begins anew.
    pub(crate) fn set(&mut self, all: impl IntoIterator<Item = (String, K)>) {
        let mut before = std::mem::take(&mut self.0);
        for (namespace, key) in all {
            let life = match before.remove(&namespace) {
                Some((known, life)) if known == key => life,
                known => {
                    known.iter().for_each(|(_, life)| life.0.over.cancel());
                    Life::begin(namespace.clone())
                }
            };
            self.0.insert(namespace, (key, life));
        }
        before.values().for_each(|(_, life)| life.0.over.cancel());
    }

    /// The life of a namespace, if it may be read.
    pub(crate) fn get(&self, namespace: &str) -> Option<&Life> {
        self.0.get(namespace).map(|(_, life)| life)
    }

    /// The lives of all namespaces that may be read.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Life> {
        self.0.values().map(|(_, life)| life)
    }
}

impl<K> Drop for Lives<K> {
    fn drop(&mut self) {
        self.0.values().for_each(|(_, life)| life.0.over.cancel());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, uid: u8) -> (String, u8) {
        (name.to_owned(), uid)
    }

    #[test]
    fn a_life_ends_with_its_namespace_and_not_with_that_of_another() {
        let mut lives = Lives::default();
        lives.set([named("shop", 1), named("web", 2)]);
        let [shop, web] = ["shop", "web"].map(|name| lives.get(name).unwrap().clone());
        lives.set([named("web", 2)]);
        assert!(shop.is_over() && lives.get("shop").is_none());
        assert!(!web.is_over() && lives.get("web") == Some(&web));
        // Made again under the same name, and seen only then.
        lives.set([named("web", 3)]);
        assert!(web.is_over());
        let again = lives.get("web").unwrap().clone();
        assert!(again != web && !again.is_over());
        assert_eq!(again.namespace(), "web");
        drop(lives);
        assert!(again.is_over());
    }
}
