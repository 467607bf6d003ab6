//! The marks by which a namespace is opted in, put there and taken away.

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::{OptIn, Scope, Strategy};
use crate::cluster::{Answer, Cluster};
use crate::kind::NAMESPACE;
use crate::names::{API_ACCESS, GUEST_NAMESPACE, OFFLOAD, SECRETS, TARGETS};

/// Opts a namespace in, or changes how.
pub fn opt_in(cluster: &Cluster, namespace: &str, how: OptIn) -> Answer<()> {
    let access = if how.api_access { "home" } else { "none" };
    let marks = json!({ API_ACCESS: access, SECRETS: how.secrets.mark(),
        TARGETS: how.targets.mark(), GUEST_NAMESPACE: how.name.mark() });
    mark(cluster, namespace, how.strategy.as_str().into(), marks)
}

/// Opts a namespace out. What runs elsewhere is ended by the sessions.
pub fn opt_out(cluster: &Cluster, namespace: &str) -> Answer<()> {
    let marks = [API_ACCESS, SECRETS, TARGETS, GUEST_NAMESPACE];
    let none = marks.map(|mark| (mark.to_owned(), Value::Null)).into_iter().collect();
    mark(cluster, namespace, Value::Null, none)
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
    /// The same for one of which something was said before: that of secrets, tokens,
    /// nodes and names stays as it was, and pods that had to stay at home may leave as well.
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
    use super::super::{GuestName, Secrets, Targets};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::scripted;

    #[tokio::test]
    async fn what_was_said_before_is_not_widened() {
        let both = || {
            let (secrets, targets, name) = (Secrets::All, Targets::All, GuestName::Default);
            OptIn { strategy: Strategy::Both, api_access: false, secrets, targets, name }
        };
        for (label, strategy) in
            [("both", Strategy::Both), ("remote", Strategy::Remote), ("local", Strategy::Both)]
        {
            let cluster = scripted(move |_, path, _| {
                assert_eq!(path, "/api/v1/namespaces/shop");
                (
                    200,
                    json!({ "metadata": { "name": "shop", "labels": { OFFLOAD: label },
                    "annotations": { SECRETS: "allow:tls", TARGETS: "mercato-turin",
                        GUEST_NAMESPACE: "same" } } }),
                )
            });
            let how = both().further(opted_in(&cluster, "shop").await.unwrap());
            assert_eq!(how.strategy, strategy);
            assert_eq!(how.secrets, Secrets::Allow(["tls".to_owned()].into()));
            assert_eq!(how.targets, Targets::new(vec!["mercato-turin".to_owned()]));
            assert_eq!(how.name, GuestName::Same);
        }
        let plain = scripted(|_, _, _| (200, json!({ "metadata": { "name": "shop" } })));
        assert_eq!(both().further(opted_in(&plain, "shop").await.unwrap()), both());
    }

    #[tokio::test]
    async fn every_mark_is_put_there_and_taken_away() {
        let patches = Arc::new(Mutex::new(Vec::new()));
        let seen = patches.clone();
        let cluster = scripted(move |_, _, body| {
            seen.lock().unwrap().push(body);
            (200, json!({}))
        });
        let (secrets, targets) =
            (Secrets::Deny(["tls".to_owned()].into()), Targets::parse("turin"));
        let name = GuestName::Chosen("shop-eu".to_owned());
        let how = OptIn { strategy: Strategy::Remote, api_access: true, secrets, targets, name };
        opt_in(&cluster, "shop", how.clone()).await.unwrap();
        opt_out(&cluster, "shop").await.unwrap();
        let [put, taken] = &patches.lock().unwrap()[..] else { panic!("two patches") };
        assert_eq!(Scope::Labelled.read(put), Some(how), "{put}");
        let gone = |mark: &str| taken["metadata"]["annotations"].get(mark) == Some(&Value::Null);
        let marks = put["metadata"]["annotations"].as_object().unwrap();
        assert!(marks.keys().all(|mark| gone(mark)), "{taken}");
        assert_eq!(taken["metadata"]["labels"][OFFLOAD], Value::Null);
    }
}
