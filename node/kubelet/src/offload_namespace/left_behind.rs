//! Pods that stay at home though their namespace was to leave with all of them: they were made before the
//! webhook knew of it. Which pods that are is said in `mercato_offload`; whom that is told, elsewhere.

use futures::FutureExt;
use mercato_offload::placement::export::is_left_behind;

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::kind::POD;

/// Pods of a namespace that were made too early to leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// How many there are, of those that were looked at.
    pub pods: usize,
    /// Not all were looked at.
    pub more: bool,
    /// What the first of them is called; none: there are none.
    pub first: Option<String>,
}

/// Those of a namespace whose pods run elsewhere alone. No more than a page of its pods is looked at.
pub fn left_behind(cluster: &Cluster, namespace: &str) -> Answer<LeftBehind> {
    let page = cluster.first_page(POD, Some(namespace), NOT_OVER);
    async move {
        let page = page.await?;
        let mut stay = page.items.iter().filter(|pod| is_left_behind(pod)).peekable();
        let first = stay.peek().and_then(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned);
        Ok(LeftBehind { pods: stay.count(), more: page.has_more(), first })
    }
    .boxed()
}

const NOT_OVER: &str = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{scripted, status};

    #[tokio::test]
    async fn who_stays_is_counted_by_the_page() {
        let pod = |name: &str, node: &str| json!({ "metadata": { "name": name }, "spec": { "nodeName": node } });
        let asked = scripted(move |method, path, _| {
            assert!(method == "GET" && path.contains("phase%21%3DFailed&limit="), "{path}");
            let pods = [pod("a", "mercato-turin"), pod("b", "rome-1"), pod("c", "rome-2")];
            (200, json!({ "metadata": { "continue": "x" }, "items": pods }))
        });
        let found = left_behind(&asked, "shop").await.unwrap();
        assert_eq!(found, LeftBehind { pods: 2, more: true, first: Some("b".into()) });
        let none = scripted(|_, _, _| (200, json!({ "items": [] })));
        assert_eq!(left_behind(&none, "shop").await, Ok(LeftBehind::default()));
        let away = scripted(|_, _, _| status(503, "later"));
        assert!(left_behind(&away, "shop").await.is_err());
    }
}
