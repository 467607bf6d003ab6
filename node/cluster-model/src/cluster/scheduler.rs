//! The scheduler: binds each pod to the first node, by name, that takes it; to one that would rather not
//! only where there is no other.

use std::collections::BTreeMap;

use mercato_offload::placement::{Amounts, amounts};
use mercato_offload::time;
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::{Cluster, Key, volumes};

impl Cluster {
    pub(crate) fn schedule(&mut self, now: Now) {
        let waits = |pod: &Value| {
            pod["spec"]["nodeName"].is_null()
                && pod["metadata"]["deletionTimestamp"].is_null()
                && pod["status"]["phase"] == "Pending"
        };
        let pods = self.objects.iter().filter(|(key, pod)| key.kind == "Pod" && waits(pod));
        let pods: Vec<(Key, Value)> = pods.map(|(key, pod)| (key.clone(), pod.clone())).collect();
        for (key, mut pod) in pods {
            let condition = match self.place(&pod) {
                // It waits for what it mounts.
                Ok(node) if !volumes::choose(self, now, &pod, &node) => continue,
                Ok(node) => {
                    pod["spec"]["nodeName"] = json!(node);
                    json!({ "type": "PodScheduled", "status": "True" })
                }
                Err(message) => {
                    let before = &pod["status"]["conditions"][0];
                    let since = match before["lastTransitionTime"].as_str() {
                        Some(since) if before["status"] == "False" => since.to_owned(),
                        Some(_) | None => time::rfc3339(now.wall_ms),
                    };
                    json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                        "message": message, "lastTransitionTime": since })
                }
            };
            if pod["status"]["conditions"] == json!([condition]) {
                continue; // said already
            }
            pod["status"]["conditions"] = json!([condition]);
            let node = pod["spec"]["nodeName"].as_str().map(str::to_owned);
            self.store(now, key.clone(), pod);
            if node.is_some_and(|node| self.kubelets.contains(&node)) {
                self.bound(now, &key);
            }
        }
    }

    /// The name of a node, or why there is none.
    fn place(&self, pod: &Value) -> Result<String, String> {
        let nodes: Vec<&Value> = self
            .objects
            .iter()
            .filter(|(key, _)| key.kind == "Node")
            .map(|(_, node)| node)
            .collect();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<(usize, &str)> = None;
        for node in &nodes {
            match self.obstacle(pod, node) {
                None => {
                    let name = node["metadata"]["name"].as_str().unwrap_or_default();
                    let reluctance = reluctance(pod, node);
                    if best.is_none_or(|(least, _)| reluctance < least) {
                        best = Some((reluctance, name));
                    }
                    if reluctance == 0 {
                        break;
                    }
                }
                Some(reason) => *reasons.entry(reason).or_default() += 1,
            }
        }
        if let Some((_, name)) = best {
            return Ok(name.to_owned());
        }
        let reasons = reasons.iter().map(|(reason, count)| format!("{count} {reason}"));
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        Err(format!("0/{} nodes are available: {reasons}.", nodes.len()))
    }

    fn obstacle(&self, pod: &Value, node: &Value) -> Option<String> {
        let selector = pod["spec"]["nodeSelector"].as_object();
        let labels = &node["metadata"]["labels"];
        if selector.is_some_and(|map| map.iter().any(|(name, value)| labels[name] != *value)) {
            return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
        }
        let spread = pod["spec"]["topologySpreadConstraints"].as_array().into_iter().flatten();
        let mut strict = spread.filter(|one| one["whenUnsatisfiable"] == "DoNotSchedule");
        if strict.any(|one| labels[one["topologyKey"].as_str().unwrap_or_default()].is_null()) {
            let reason =
                "node(s) didn't match pod topology spread constraints (missing required label)";
            return Some(reason.to_owned());
        }
        let taints = taints(node);
        let repels = |taint: &&Value| taint["effect"] != "PreferNoSchedule";
        if taints.iter().filter(repels).any(|taint| !is_tolerated(pod, taint)) {
            return Some("node(s) had untolerated taint(s)".to_owned());
        }
        if node["spec"]["unschedulable"] == true {
            return Some("node(s) were unschedulable".to_owned());
        }
        if let Some(reason) = volumes::obstacle(self, pod, node) {
            return Some(reason);
        }
        let used = self.used(&node["metadata"]["name"]);
        let has = amounts(&node["status"]["allocatable"]);
        let of = |amounts: &Amounts, resource: &str| amounts.get(resource).copied().unwrap_or(0);
        let short = requests(pod).into_iter().find(|(resource, amount)| {
            of(&used, resource).saturating_add(*amount) > of(&has, resource)
        });
        short.map(|(resource, _)| format!("Insufficient {resource}"))
    }

    fn used(&self, node: &Value) -> Amounts {
        let mut used = Amounts::new();
        for (key, pod) in &self.objects {
            let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            if key.kind == "Pod" && pod["spec"]["nodeName"] == *node && !ended {
                for (resource, amount) in requests(pod) {
                    let sum: &mut u64 = used.entry(resource).or_default();
                    *sum = sum.saturating_add(amount);
                }
            }
        }
        used
    }
}

fn taints(node: &Value) -> &[Value] {
    node["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// By how many taints the node would rather not have the pod.
fn reluctance(pod: &Value, node: &Value) -> usize {
    let prefers = |taint: &&Value| taint["effect"] == "PreferNoSchedule";
    taints(node).iter().filter(prefers).filter(|taint| !is_tolerated(pod, taint)).count()
}

/// What the pod asks for, and its own place among the node's pods.
fn requests(pod: &Value) -> Amounts {
    let mut all = mercato_offload::placement::requests(&pod["spec"]);
    all.insert("pods".to_owned(), 1);
    all
}

fn is_tolerated(pod: &Value, taint: &Value) -> bool {
    let fits = |toleration: &Value| {
        let any_key = toleration["key"].is_null() && toleration["operator"] == "Exists";
        let same_value =
            toleration["operator"] == "Exists" || toleration["value"] == taint["value"];
        let effect = toleration["effect"].is_null() || toleration["effect"] == taint["effect"];
        effect && (any_key || toleration["key"] == taint["key"] && same_value)
    };
    pod["spec"]["tolerations"].as_array().is_some_and(|list| list.iter().any(fits))
}
