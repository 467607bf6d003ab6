//! The marks by which a namespace is opted in, put there and taken away.

use futures::FutureExt as _;
use mercato_offload::placement::export::{OptIn, Scope};
use serde_json::{Value, json};

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::kind::NAMESPACE;

/// Opts a namespace in, or changes how.
pub fn opt_in(cluster: &Cluster, namespace: &str, how: &OptIn) -> Answer<()> {
    mark(cluster, namespace, &how.marks())
}

/// Opts a namespace out. What runs elsewhere is ended by the sessions.
pub fn opt_out(cluster: &Cluster, namespace: &str) -> Answer<()> {
    mark(cluster, namespace, &OptIn::no_marks())
}

fn mark(cluster: &Cluster, namespace: &str, marks: &Value) -> Answer<()> {
    let patch = json!({ "metadata": marks });
    let answer = cluster.merge(NAMESPACE, None, namespace, None, patch);
    async move { answer.await.map(drop) }.boxed()
}

/// What was said of a namespace; none: it may not leave home, or is not there.
pub fn opted_in(cluster: &Cluster, namespace: &str) -> Answer<Option<OptIn>> {
    let answer = cluster.get(NAMESPACE, None, namespace);
    async move { Ok(answer.await?.and_then(|present| Scope::Labelled.read(&present))) }.boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::scripted;

    #[tokio::test]
    async fn what_is_marked_is_read_and_taken_away() {
        let patches = Arc::new(Mutex::new(Vec::new()));
        let seen = patches.clone();
        let cluster = scripted(move |method, path, body| {
            assert!(path.starts_with("/api/v1/namespaces/shop"), "{path}");
            let mut patches = seen.lock().unwrap();
            if method != "GET" {
                patches.push(body);
            }
            (200, patches.last().cloned().unwrap_or_default())
        });
        let how = OptIn { api_access: true, ..OptIn::default() };
        assert_eq!(opted_in(&cluster, "shop").await.unwrap(), None);
        opt_in(&cluster, "shop", &how).await.unwrap();
        assert_eq!(opted_in(&cluster, "shop").await.unwrap(), Some(how));
        opt_out(&cluster, "shop").await.unwrap();
        assert_eq!(patches.lock().unwrap()[1], json!({ "metadata": OptIn::no_marks() }));
    }
}
