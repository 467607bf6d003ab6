//! The marks by which a namespace is opted in, put there and taken away.

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::{OptIn, Scope, Strategy};
use crate::cluster::{Answer, Cluster};
use crate::kind::NAMESPACE;
use crate::names::{API_ACCESS, OFFLOAD, SECRETS, TARGETS};

/// Opts a namespace in, or changes how.
pub fn opt_in(cluster: &Cluster, namespace: &str, how: OptIn) -> Answer<()> {
    let access = if how.api_access { "home" } else { "none" };
    let marks =
        json!({ API_ACCESS: access, SECRETS: how.secrets.mark(), TARGETS: how.targets.mark() });
    mark(cluster, namespace, how.strategy.as_str().into(), marks)
}

/// Opts a namespace out. What runs elsewhere is ended by the sessions.
pub fn opt_out(cluster: &Cluster, namespace: &str) -> Answer<()> {
    mark(cluster, namespace, Value::Null, json!({ API_ACCESS: null, SECRETS: null, TARGETS: null }))
}

fn mark(cluster: &Cluster, namespace: &str, strategy: Value, annotations: Value) -> Answer<()> {
    let patch =
        json!({ "metadata": { "labels": { OFFLOAD: strategy }, "annotations": annotations } });
    let answer = cluster.merge(NAMESPACE, None, namespace, None, patch);
    async move { answer.await.map(drop) }.boxed()
}

/// What was said of a namespace; none: it may not leave home, or is not there.
pub fn opted_in(cluster: &Cluster, namespace: &str) -> Answer<Option<OptIn>> {
    let answer = cluster.get(NAMESPACE, None, namespace);
    async move { Ok(answer.await?.and_then(|present| Scope::Labelled.read(&present))) }.boxed()
}

impl OptIn {
    /// The same for one of which something was said before: that of secrets, tokens and nodes
    /// stays as it was, and pods that had to stay at home may leave as well.
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

#[cfg(test)]
mod tests {
    use super::super::{Secrets, Targets};
    use super::*;
    use crate::testing::scripted;

    #[tokio::test]
    async fn what_was_said_before_is_not_widened() {
        let both = || {
            let (secrets, targets) = (Secrets::All, Targets::All);
            OptIn { strategy: Strategy::Both, api_access: false, secrets, targets }
        };
        for (label, strategy) in
            [("both", Strategy::Both), ("remote", Strategy::Remote), ("local", Strategy::Both)]
        {
            let cluster = scripted(move |_, path, _| {
                assert_eq!(path, "/api/v1/namespaces/shop");
                (
                    200,
                    json!({ "metadata": { "name": "shop", "labels": { OFFLOAD: label },
                    "annotations": { SECRETS: "allow:tls", TARGETS: "mercato-turin" } } }),
                )
            });
            let how = both().further(opted_in(&cluster, "shop").await.unwrap());
            assert_eq!(how.strategy, strategy);
            assert_eq!(how.secrets, Secrets::Allow(["tls".to_owned()].into()));
            assert_eq!(how.targets, Targets::new(vec!["mercato-turin".to_owned()]));
        }
        let plain = scripted(|_, _, _| (200, json!({ "metadata": { "name": "shop" } })));
        assert_eq!(both().further(opted_in(&plain, "shop").await.unwrap()), both());
    }
}
