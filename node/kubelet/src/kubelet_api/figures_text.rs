//! Figures in the forms that a kubelet gives them: the summary as JSON, and metrics as
//! text (Prometheus' exposition format 0.0.4), by the names that metrics-server, its
//! users and dashboards know.

use std::fmt::Write;

use mercato_protocol::kubelet_stream::ContainerUsage as Used;
use serde_json::{Value, json};

use super::figures::{Container, Pod, Snapshot};
use crate::format::clock;

/// What `/stats/summary` answers: a kubelet's `Summary` as JSON.
pub(super) fn summary(node: &str, since: &str, seen: &Snapshot) -> Value {
    let pod = |pod: &Pod| {
        let container = |one: &Container| {
            let Container { used, started } = one;
            json!({ "name": used.name, "startTime": started,
                "cpu": cpu(pod.at_ms, used.cpu_nano_cores, used.cpu_nanos),
                "memory": memory(pod.at_ms, used.memory_bytes) })
        };
        let (nano_cores, nanos, bytes) = sums(pod);
        json!({
            "podRef": { "name": pod.name, "namespace": pod.namespace, "uid": pod.uid },
            "startTime": pod.started,
            "containers": pod.containers.iter().map(container).collect::<Vec<_>>(),
            "cpu": cpu(pod.at_ms, nano_cores, nanos),
            "memory": memory(pod.at_ms, bytes),
        })
    };
    let all = &seen.node;
    json!({
        "node": {
            "nodeName": node, "startTime": since,
            "cpu": cpu(all.at_ms, all.cpu_nano_cores, all.cpu_nanos),
            "memory": memory(all.at_ms, all.memory_bytes),
        },
        "pods": seen.pods.iter().map(pod).collect::<Vec<_>>(),
    })
}

/// The same where nothing is measured: the node, and no figure.
pub(super) fn unmeasured(node: &str, since: &str) -> Value {
    json!({ "node": { "nodeName": node, "startTime": since }, "pods": [] })
}

fn cpu(at_ms: u64, nano_cores: u64, nanos: u64) -> Value {
    let at = clock::from_ms(at_ms);
    json!({ "time": at, "usageNanoCores": nano_cores, "usageCoreNanoSeconds": nanos })
}

fn memory(at_ms: u64, bytes: u64) -> Value {
    json!({ "time": clock::from_ms(at_ms), "workingSetBytes": bytes })
}

fn sums(pod: &Pod) -> (u64, u64, u64) {
    pod.containers.iter().map(|one| &one.used).fold((0, 0, 0), |(cores, nanos, bytes), used| {
        let Used { cpu_nano_cores, cpu_nanos, memory_bytes, .. } = used;
        (
            cores.saturating_add(*cpu_nano_cores),
            nanos.saturating_add(*cpu_nanos),
            bytes.saturating_add(*memory_bytes),
        )
    })
}

/// What `/metrics/resource` answers: a kubelet's metrics as Prometheus text.
pub(super) fn resource(seen: &Snapshot) -> String {
    let mut text = Families::default();
    text.family(CPU, "counter", "Processor time of the container, in core-seconds");
    for (pod, one) in containers(seen) {
        text.line(CPU, &labels(pod, one), seconds(one.used.cpu_nanos), pod.at_ms);
    }
    text.family(MEMORY, "gauge", "Working set of the container, in bytes");
    for (pod, one) in containers(seen) {
        text.line(MEMORY, &labels(pod, one), one.used.memory_bytes, pod.at_ms);
    }
    text.started(seen, labels);
    let node = &seen.node;
    // metrics-server takes zero for unknown, and a node without pods uses nothing.
    let (nanos, bytes) = (node.cpu_nanos.max(1_000), node.memory_bytes.max(1));
    let name = "node_cpu_usage_seconds_total";
    text.family(name, "counter", "Processor time of the node's pods, in core-seconds");
    text.line(name, "", seconds(nanos), node.at_ms);
    let name = "node_memory_working_set_bytes";
    text.family(name, "gauge", "Working set of the node's pods, in bytes");
    text.line(name, "", bytes, node.at_ms);
    let of = |pod: &Pod| format!("namespace=\"{}\",pod=\"{}\"", pod.namespace, pod.name);
    let name = "pod_cpu_usage_seconds_total";
    text.family(name, "counter", "Processor time of the pod, in core-seconds");
    for pod in &seen.pods {
        text.line(name, &of(pod), seconds(sums(pod).1), pod.at_ms);
    }
    let name = "pod_memory_working_set_bytes";
    text.family(name, "gauge", "Working set of the pod, in bytes");
    for pod in &seen.pods {
        text.line(name, &of(pod), sums(pod).2, pod.at_ms);
    }
    let name = "resource_scrape_error";
    text.family(name, "gauge", "1 if the figures could not be had, 0 otherwise");
    let _ = writeln!(text.0, "{name} 0");
    text.0
}

/// `/metrics/cadvisor`: of its many families those that are known of guests.
pub(super) fn cadvisor(seen: &Snapshot) -> String {
    let mut text = Families::default();
    // Dashboards tell containers from pods and sandboxes by a name and an image.
    let of = |pod: &Pod, one: &Container| {
        format!("{},id=\"/{}/{}\",name=\"{2}\"", labels(pod, one), pod.uid, one.used.name)
    };
    text.family(CPU, "counter", "Processor time of the container, in core-seconds");
    for (pod, one) in containers(seen) {
        let labels = format!("{},cpu=\"total\"", of(pod, one));
        text.line(CPU, &labels, seconds(one.used.cpu_nanos), pod.at_ms);
    }
    text.family(MEMORY, "gauge", "Working set of the container, in bytes");
    for (pod, one) in containers(seen) {
        text.line(MEMORY, &of(pod, one), one.used.memory_bytes, pod.at_ms);
    }
    text.started(seen, of);
    text.0
}

/// `/metrics`: of the kubelet's own families those that mean something here.
pub(super) fn own(node: &str, pods: usize, containers: usize) -> String {
    let mut text = Families::default();
    text.family("kubelet_node_name", "gauge", "The node's name");
    let _ = writeln!(text.0, "kubelet_node_name{{node=\"{node}\"}} 1");
    text.family("kubelet_running_pods", "gauge", "Pods that run");
    let _ = writeln!(text.0, "kubelet_running_pods {pods}");
    text.family("kubelet_running_containers", "gauge", "Containers that run");
    let _ =
        writeln!(text.0, "kubelet_running_containers{{container_state=\"running\"}} {containers}");
    text.0
}

fn containers(seen: &Snapshot) -> impl Iterator<Item = (&Pod, &Container)> {
    seen.pods.iter().flat_map(|pod| pod.containers.iter().map(move |one| (pod, one)))
}

/// Names of Kubernetes need no escapes.
fn labels(pod: &Pod, one: &Container) -> String {
    let Pod { namespace, name, .. } = pod;
    format!("container=\"{}\",namespace=\"{namespace}\",pod=\"{name}\"", one.used.name)
}

/// Exactly, which a float would not be.
fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

#[derive(Default)]
struct Families(String);

impl Families {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display, at_ms: u64) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "{name}{labels} {value} {at_ms}");
    }

    fn started(&mut self, seen: &Snapshot, labels: impl Fn(&Pod, &Container) -> String) {
        let name = "container_start_time_seconds";
        self.family(name, "gauge", "When the container was started, in seconds since 1970");
        for (pod, one) in containers(seen) {
            if let Some(at_ms) = one.started.as_deref().and_then(clock::parse_ms) {
                self.line(name, &labels(pod, one), at_ms / 1_000, pod.at_ms);
            }
        }
    }
}

const CPU: &str = "container_cpu_usage_seconds_total";
const MEMORY: &str = "container_memory_working_set_bytes";

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let used = Used {
            name: "app".into(),
            cpu_nanos: 93_000_000_001,
            cpu_nano_cores: 250_000_000,
            memory_bytes: 4096,
        };
        let started = Some("2026-01-01T00:00:00Z".to_owned());
        let pod = Pod {
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u1".into(),
            started: started.clone(),
            at_ms: 1_767_225_601_000,
            containers: vec![Container { used, started }],
        };
        let mut seen = Snapshot { pods: vec![pod], ..Snapshot::default() };
        seen.node.at_ms = 1_767_225_601_000;
        seen
    }

    #[test]
    fn metrics_are_those_that_a_metrics_server_reads() {
        let text = resource(&snapshot());
        for line in [
            "container_cpu_usage_seconds_total{container=\"app\",namespace=\"shop\",pod=\"web\"} 93.000000001 1767225601000",
            "container_memory_working_set_bytes{container=\"app\",namespace=\"shop\",pod=\"web\"} 4096 1767225601000",
            "container_start_time_seconds{container=\"app\",namespace=\"shop\",pod=\"web\"} 1767225600 1767225601000",
            "node_cpu_usage_seconds_total 0.000001000 1767225601000",
            "node_memory_working_set_bytes 1 1767225601000",
            "pod_cpu_usage_seconds_total{namespace=\"shop\",pod=\"web\"} 93.000000001 1767225601000",
            "resource_scrape_error 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\nis not in\n{text}");
        }
        assert!(cadvisor(&snapshot()).contains("id=\"/u1/app\",name=\"app\",cpu=\"total\"} 93."));
    }

    #[test]
    fn the_summary_is_a_kubelets() {
        let summary = summary("turin", "2026-01-01T00:00:00Z", &snapshot());
        let pod = &summary["pods"][0];
        assert_eq!(pod["podRef"], json!({ "name": "web", "namespace": "shop", "uid": "u1" }));
        assert_eq!(pod["containers"][0]["cpu"]["usageNanoCores"], 250_000_000);
        assert_eq!(pod["cpu"]["usageCoreNanoSeconds"], 93_000_000_001_u64);
        assert_eq!(pod["memory"]["time"], "2026-01-01T00:00:01Z");
        assert_eq!(summary["node"]["nodeName"], "turin");
    }
}
