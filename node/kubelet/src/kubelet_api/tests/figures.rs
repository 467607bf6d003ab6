//! Figures, as a metrics server and a person ask for them.

use mercato_protocol::codec::Message;
use mercato_protocol::kubelet_stream::{ContainerUsage, PodUsage, Usage};
use mercato_protocol::workload::Uid;

use super::*;

/// What the provider says: the node's pod, on the second of two pages.
pub(super) fn page(after: Option<&Uid>) -> Opened {
    let used = |name: &str| ContainerUsage {
        name: name.into(),
        cpu_nanos: 7_500_000_000,
        cpu_nano_cores: 250_000_000,
        memory_bytes: 64 << 20,
    };
    let pod = |uid: &str, containers| PodUsage {
        uid: Uid(uid.into()),
        at_ms: 1_767_225_615_000,
        containers,
    };
    let (pods, more) = match after {
        None => (vec![pod("another", vec![used("app")])], true),
        Some(_) => (vec![pod("u1", vec![used("app"), used("invented")])], false),
    };
    let bytes = Usage { pods, more }.to_bytes().unwrap();
    Opened::Body(Box::new(std::io::Cursor::new(bytes)))
}

#[tokio::test]
async fn figures_are_asked_for_once_and_told_in_every_form() {
    let bed = bed(&["get stats", "get metrics"]).await;
    let answer = bed.ask("GET", "/metrics/resource", Some("good")).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.head.to_lowercase().contains("content-type: text/plain; version=0.0.4"));
    let line = "container_cpu_usage_seconds_total{container=\"app\",namespace=\"shop\",pod=\"web\"} 7.500000000 1767225615000";
    assert!(answer.body.contains(line), "{}", answer.body);
    assert!(answer.body.contains("node_memory_working_set_bytes 67108864 1767225615000"));
    assert!(!answer.body.contains("invented"), "a container that home does not have");

    let answer = bed.ask("GET", "/stats/summary", Some("good")).await;
    let summary: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(summary["node"]["nodeName"], "turin");
    assert_eq!(summary["pods"][0]["podRef"]["uid"], "u1");
    assert_eq!(summary["pods"].as_array().unwrap().len(), 1, "another's is not home's");
    let answer = bed.ask("GET", "/metrics/cadvisor", Some("good")).await;
    assert!(answer.body.contains("container_memory_working_set_bytes{container=\"app\""));
    assert_eq!(bed.provider.asked.lock().unwrap().len(), 2, "two pages, once");

    let answer = bed.ask("GET", "/metrics", Some("good")).await;
    assert!(answer.body.contains("kubelet_running_pods 1\n"), "{}", answer.body);
}

/// A scraper takes what it is told where nothing is measured; a provider that is away is an error.
#[tokio::test]
async fn where_nothing_is_measured_there_are_no_figures() {
    for (reason, status) in [(RefusedReason::NotServed, 200), (RefusedReason::Unavailable, 503)] {
        let bed = bed(&["get stats", "get metrics"]).await;
        *bed.provider.unmeasured.lock().unwrap() = Some(reason);
        for path in ["/metrics/resource", "/metrics/cadvisor", "/stats/summary"] {
            let answer = bed.ask("GET", path, Some("good")).await;
            assert_eq!(answer.status, status, "{path}: {}", answer.body);
            match (status, path) {
                (200, "/stats/summary") => {
                    let summary: Value = serde_json::from_str(&answer.body).unwrap();
                    assert_eq!(summary["node"]["nodeName"], "turin");
                    assert_eq!(summary["node"]["cpu"], Value::Null, "nothing is claimed");
                }
                (200, _) => assert_eq!(answer.body, "", "{path}"),
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn probes_have_no_figures_here() {
    let bed = bed(&["get metrics"]).await;
    let answer = bed.ask("GET", "/metrics/probes", Some("good")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert!(answer.head.to_lowercase().contains("content-type: text/plain; version=0.0.4"));
}

#[tokio::test]
async fn a_right_to_metrics_is_one_to_metrics_alone() {
    let bed = bed(&["get metrics"]).await;
    assert_eq!(bed.ask("GET", "/metrics/resource", Some("good")).await.status, 200);
    assert_eq!(bed.ask("GET", "/stats/summary", Some("good")).await.status, 403);
    assert_eq!(bed.ask("GET", "/pods", Some("good")).await.status, 403);
}
