//! The kubelets: each pod's life after its image's script.

use mercato_offload::time;
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::{Cluster, Key, Script};
use crate::limits;

impl Cluster {
    /// A pod was bound to a node of ours.
    pub(crate) fn bound(&mut self, now: Now, key: &Key) {
        let script = self.script_of(key);
        self.due.insert(key.clone(), now.mono_ms + script.start_ms);
    }

    /// A pod is to stop within the grace.
    pub(crate) fn told_to_stop(&mut self, now: Now, key: &Key, grace_s: u64) {
        if self.runs_here(key) {
            let stop_ms = self.script_of(key).stop_ms.min(grace_s.saturating_mul(1_000));
            self.due.insert(key.clone(), now.mono_ms + stop_ms);
        }
    }

    /// Does what is due about a pod: stop it, start it, or let it end.
    pub(crate) fn tend(&mut self, now: Now, key: &Key) {
        let Some(mut pod) = self.objects.get(key).cloned().filter(|_| self.runs_here(key)) else {
            return;
        };
        let script = self.script_of(key);
        let phase = pod["status"]["phase"].as_str().unwrap_or_default().to_owned();
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            if phase == "Pending" || phase == "Running" {
                end(&mut pod, now, script.stop_code);
                self.addresses.give_back(&pod);
            }
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        } else if phase == "Pending" || is_waiting(&pod) {
            start(&mut pod, now);
            if pod["status"]["podIP"].is_null() {
                self.address(&mut pod);
            }
            if let Some((run_ms, _)) = script.ends {
                self.due.insert(key.clone(), now.mono_ms + run_ms);
            }
        } else if let (Some((_, code)), "Running") = (script.ends, phase.as_str()) {
            let policy = pod["spec"]["restartPolicy"].as_str().unwrap_or("Always");
            if policy == "Never" || policy == "OnFailure" && code == 0 {
                end(&mut pod, now, code);
                self.addresses.give_back(&pod);
            } else {
                restart(&mut pod, now, code);
                self.bound(now, key);
            }
        }
        self.store(now, key.clone(), pod);
    }

    /// The pod's sandbox is lost, and made anew: its containers start again, and it has another
    /// address. False if no kubelet of the model runs it now.
    pub fn renew_sandbox(&mut self, now: Now, key: &Key) -> bool {
        let found = self.objects.get(key).filter(|pod| {
            let stays = pod["metadata"]["deletionTimestamp"].is_null();
            stays && pod["status"]["phase"] == "Running" && !is_waiting(pod)
        });
        let Some(mut pod) = found.cloned().filter(|_| self.runs_here(key)) else { return false };
        restart(&mut pod, now, LOST_CODE);
        self.address(&mut pod);
        self.bound(now, key);
        self.store(now, key.clone(), pod);
        true
    }

    /// Gives a pod an address that no other one has.
    fn address(&mut self, pod: &mut Value) {
        let address = self.addresses.give(pod).map(|address| address.to_string());
        pod["status"]["podIPs"] = address.iter().map(|ip| json!({ "ip": ip })).collect();
        pod["status"]["podIP"] = json!(address);
    }

    pub(crate) fn simulated_logs(
        &self,
        now: Now,
        key: &Key,
        container: &str,
    ) -> Option<Vec<String>> {
        let pod = self.objects.get(key)?;
        let statuses = pod["status"]["containerStatuses"].as_array()?;
        let status = statuses.iter().find(|status| status["name"] == container)?;
        let started = status["simulatedStartMs"].as_u64()?;
        let until = status["simulatedEndMs"].as_u64().unwrap_or(now.wall_ms);
        let script = self.script_of(key);
        let said = until.saturating_sub(started) / 1_000 + 1;
        let first = said.saturating_sub(limits::LOG_LINES);
        let line = |n: u64| {
            let index = usize::try_from(n).ok()?.checked_rem(script.lines.len())?;
            let at = time::rfc3339(started + n * 1_000);
            Some(format!("{at} [simulated] {}", script.lines[index]))
        };
        Some((first..said).filter_map(line).collect())
    }

    fn runs_here(&self, key: &Key) -> bool {
        let node = self.objects.get(key).and_then(|pod| pod["spec"]["nodeName"].as_str());
        key.kind == "Pod" && node.is_some_and(|node| self.kubelets.contains(node))
    }

    /// The script of a pod's first container's image.
    fn script_of(&self, key: &Key) -> Script {
        let image =
            self.objects.get(key).and_then(|pod| pod["spec"]["containers"][0]["image"].as_str());
        image.and_then(|image| self.scripts.get(image)).cloned().unwrap_or_default()
    }
}

/// The exit code of containers whose sandbox is lost.
const LOST_CODE: i32 = 137;

fn start(pod: &mut Value, now: Now) {
    let at = time::rfc3339(now.wall_ms);
    let running = json!({ "running": { "startedAt": at } });
    let old = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    let first = containers(&pod["spec"]["initContainers"]).into_iter().map(|(name, image)| {
        let ended =
            json!({ "exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at });
        json!({ "name": name, "image": image, "imageID": format!("simulated:{image}"),
            "ready": true, "restartCount": 0, "state": { "terminated": ended } })
    });
    let first: Vec<_> = first.collect();
    if !first.is_empty() {
        pod["status"]["initContainerStatuses"] = first.into();
    }
    let statuses = containers(&pod["spec"]["containers"]).into_iter().map(|(name, image)| {
        let before = old.iter().find(|status| status["name"] == name);
        let count = before.map_or(json!(0), |status| status["restartCount"].clone());
        let last = before.map_or(Value::Null, |status| status["lastState"].clone());
        json!({
            "name": name, "image": image, "imageID": format!("simulated:{image}"),
            "containerID": format!("simulated://{name}"), "ready": true, "started": true,
            "restartCount": count, "state": running, "lastState": last,
            "simulatedStartMs": now.wall_ms,
        })
    });
    pod["status"]["containerStatuses"] = statuses.collect();
    pod["status"]["phase"] = json!("Running");
    if pod["status"]["startTime"].is_null() {
        pod["status"]["startTime"] = json!(at);
    }
    set_conditions(pod, &at, true);
}

fn end(pod: &mut Value, now: Now, code: i32) {
    let at = time::rfc3339(now.wall_ms);
    let mut statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    for status in &mut statuses {
        status["state"] = terminated(status, &at, code);
        status["ready"] = json!(false);
        status["simulatedEndMs"] = json!(now.wall_ms);
    }
    pod["status"]["containerStatuses"] = Value::Array(statuses);
    pod["status"]["phase"] = json!(if code == 0 { "Succeeded" } else { "Failed" });
    set_conditions(pod, &at, false);
}

/// Ended, and waiting to be started again.
fn restart(pod: &mut Value, now: Now, code: i32) {
    let at = time::rfc3339(now.wall_ms);
    let mut statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    for status in &mut statuses {
        status["lastState"] = terminated(status, &at, code);
        status["state"] = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        status["ready"] = json!(false);
        status["restartCount"] = json!(status["restartCount"].as_u64().unwrap_or(0) + 1);
    }
    pod["status"]["containerStatuses"] = Value::Array(statuses);
    set_conditions(pod, &at, false);
}

fn is_waiting(pod: &Value) -> bool {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    statuses.into_iter().any(|status| !status["state"]["waiting"].is_null())
}

fn terminated(status: &Value, at: &str, code: i32) -> Value {
    let reason = if code == 0 { "Completed" } else { "Error" };
    let started = &status["state"]["running"]["startedAt"];
    json!({ "terminated": {
        "exitCode": code, "reason": reason, "startedAt": started, "finishedAt": at,
    } })
}

fn containers(list: &Value) -> Vec<(String, String)> {
    let list = list.as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.map(|container| (text(&container["name"]), text(&container["image"]))).collect()
}

fn set_conditions(pod: &mut Value, at: &str, ready: bool) {
    let status = |good: bool| if good { "True" } else { "False" };
    let one = |of: &str, good: bool| json!({ "type": of, "status": status(good), "lastTransitionTime": at });
    pod["status"]["conditions"] = json!([
        one("PodScheduled", true),
        one("PodReadyToStartContainers", ready),
        one("Initialized", true),
        one("ContainersReady", ready),
        one("Ready", ready),
    ]);
}
