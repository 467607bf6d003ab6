//! A cluster whose daemon is away, as a scripted API server.

use std::sync::{Arc, Mutex};

use mercato_offload::forge::labels::{AWAY, DAEMON_AWAY, NOT_AFTER};

use super::*;
use crate::testing::{scripted, status};

/// A cluster with a daemon's Lease and one virtual node: what was written, in order.
#[derive(Clone, Default)]
struct Site(Arc<Mutex<Written>>);

#[derive(Default)]
struct Written {
    node: Value,
    /// Requests that write, with what.
    writes: Vec<(String, Value)>,
    /// The daemon's last sign of life.
    sign: String,
    refuses: bool,
}

impl Site {
    fn of_daemon_silent_for(seconds: u64) -> Self {
        let now_ms = clock::now_ms();
        let site = Self::default();
        let mut written = site.0.lock().unwrap();
        written.sign = clock::micro_from_ms(now_ms - seconds * 1_000);
        let end = clock::from_ms(now_ms + 600_000);
        written.node = json!({
            "metadata": { "name": "mercato-turin", "uid": "u1", "resourceVersion": "7",
                "labels": { CONTRACT: "c1" }, "annotations": { NOT_AFTER: end } },
            "spec": { "providerID": "mercato://turin/c1",
                "taints": [{ "key": "mercato.dev/provider", "effect": "NoSchedule" }] },
        });
        drop(written);
        site
    }

    fn cluster(&self) -> Cluster {
        let site = self.clone();
        scripted(move |method, path, body| {
            let mut site = site.0.lock().unwrap();
            let path = path.split('?').next().unwrap();
            if method == "GET" {
                let lease = json!({ "spec": { "renewTime": site.sign } });
                return (200, if path.contains("/leases/") { lease } else { site.node.clone() });
            }
            site.writes.push((format!("{method} {path}"), body.clone()));
            if site.refuses && path.contains("/nodes/") {
                return status(403, "no");
            }
            for (part, fields) in body.as_object().unwrap() {
                let is_node = path.starts_with("/api/v1/nodes/");
                for (name, field) in fields.as_object().into_iter().flatten().filter(|_| is_node) {
                    site.node[part][name] = field.clone();
                }
            }
            (200, if path.contains("/nodes/") { site.node.clone() } else { body })
        })
    }

    fn heartbeat(&self) -> Heartbeat {
        let mut heartbeat = Heartbeat::new(self.cluster(), Duration::from_secs(3_600));
        heartbeat.take(Change::Synced(vec![Node::read(&self.0.lock().unwrap().node)]));
        heartbeat
    }

    fn writes(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.0.lock().unwrap().writes)
    }
}

const LEASE_PATH: &str =
    "PATCH /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/mercato-turin";

#[tokio::test]
async fn a_lease_is_renewed_and_the_node_says_why() {
    let site = Site::of_daemon_silent_for(60);
    let mut heartbeat = site.heartbeat();
    heartbeat.look().await;
    let writes = site.writes();
    let paths: Vec<_> = writes.iter().map(|(path, _)| path.as_str()).collect();
    let node = "PATCH /api/v1/nodes/mercato-turin";
    let (status, events) = (format!("{node}/status"), "POST /api/v1/namespaces/default/events");
    assert_eq!(paths, [LEASE_PATH, node, &*status, events]);
    let renewal = &writes[0].1;
    assert_eq!(renewal["spec"].as_object().unwrap().len(), 1, "nothing else of it: {renewal}");
    let sign = DaemonLease::read(&json!({ "spec": renewal["spec"] })).renewed;
    let age_ms = clock::now_ms().abs_diff(clock::parse_ms(&sign).unwrap());
    assert!(age_ms < 30_000, "{sign}");
    let taints = writes[1].1["spec"]["taints"].as_array().unwrap();
    assert_eq!((taints.len(), &taints[1]["key"]), (2, &json!(AWAY)));
    let condition = &writes[2].1["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!(DAEMON_AWAY), &json!("True")));
    let event = &writes[3].1;
    assert_eq!(
        [&event["reason"], &event["message"]],
        ["DaemonAway", condition["message"].as_str().unwrap()]
    );
    for guarded in &writes[1..3] {
        assert_eq!(guarded.1["metadata"]["resourceVersion"], "7");
    }
    heartbeat.look().await;
    assert_eq!(site.writes(), [], "it is due again in ten seconds, and told once");
    // Another, or the same that was started anew.
    site.heartbeat().look().await;
    let paths: Vec<_> = site.writes().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, [LEASE_PATH], "the node says it already");
}

#[tokio::test]
async fn a_daemon_that_lives_keeps_its_nodes_itself() {
    for silent in [0, 12, 7_200] {
        let site = Site::of_daemon_silent_for(silent);
        site.heartbeat().look().await;
        assert_eq!(site.writes(), [], "{silent}");
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_told_is_kept_all_the_same() {
    let site = Site::of_daemon_silent_for(60);
    site.0.lock().unwrap().refuses = true;
    let mut heartbeat = site.heartbeat();
    for first in [true, false] {
        heartbeat.look().await;
        let renewed = site.writes().iter().any(|(path, _)| path == LEASE_PATH);
        assert_eq!(renewed, first);
        assert!(heartbeat.told.is_empty(), "it is tried again");
    }
}
