//! The end of a lease: each pod is asked to end once, however long the lease was.

use std::time::Duration;

use serde_json::json;
use tokio::time::{advance, timeout};

use super::{Bed, bed, id, pod};
use crate::testing::status;

/// How often the pod was asked to end.
fn asked(bed: &Bed) -> usize {
    let writes = bed.writes.lock().unwrap();
    writes.iter().filter(|(what, _)| what == "DELETE /api/v1/namespaces/shop/pods/web").count()
}

/// Drains for a minute, while the desire of the lease changes now and then.
async fn drain_for_a_minute(bed: &Bed) {
    for _ in 0..12 {
        let left = timeout(Duration::from_secs(5), bed.side.drained()).await;
        assert!(left.is_err(), "the pod is still there");
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_end_of_a_long_lease_a_pod_is_asked_to_end_once() {
    let (bed, _) = bed("shop", None, (200, json!({}))).await;
    advance(Duration::from_secs(30 * 86_400)).await;
    drain_for_a_minute(&bed).await;
    assert_eq!(asked(&bed), 1);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_is_asked_less_and_less_often() {
    let (bed, _) = bed("shop", None, status(504, "too slow")).await;
    drain_for_a_minute(&bed).await;
    // After 0, 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 seconds.
    assert_eq!(asked(&bed), 7);
}

/// Somebody's finalizer holds the object of a pod whose kubelet is done with it: no node waits for that.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_over_keeps_no_node() {
    for (grace_s, is_drained) in [(5, false), (0, true)] {
        let mut ends = pod("shop");
        ends["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        ends["metadata"]["deletionGracePeriodSeconds"] = grace_s.into();
        let (mut bed, _) = bed("shop", Some(ends), (200, json!({}))).await;
        bed.side.confirm(id("shop"));
        timeout(Duration::from_secs(10), bed.inputs.recv()).await.unwrap();
        let drained = timeout(Duration::from_secs(5), bed.side.drained()).await;
        assert_eq!(drained.is_ok(), is_drained, "with {grace_s} s to go");
    }
}
