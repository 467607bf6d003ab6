//! The guest's status as it is sent home: in home's own terms where the guest's would
//! mean nothing there.

use serde_json::{Value, json};

use super::gate;
use super::labels::{HOME_GENERATION, LEFT_OUT};
use super::words::Called;

/// The status of a guest pod, for [`super::observe`] and for whoever keeps the bytes.
///
/// Generations are home's: one that the provider's kubelet has not taken in yet is left
/// out, and home keeps the one that it had. A container of `kubectl debug` that the lease
/// does not allow waits, and says why. Of the gate nothing is seen, and messages name home's namespace
/// and uid.
pub fn guest_status(guest: &Value) -> Value {
    let mut status = guest["status"].clone();
    let Some(fields) = status.as_object_mut() else { return status };
    // Of the provider's own nodes. At home a pod's host is its virtual node.
    fields.retain(|name, _| !matches!(name.as_str(), "hostIP" | "hostIPs"));
    gate::hide(fields, guest);
    if let Some(called) = Called::of(guest) {
        called.turn_status(fields);
    }
    if let Some(list) = fields.get_mut("conditions").and_then(Value::as_array_mut) {
        for condition in list.iter_mut().filter_map(Value::as_object_mut) {
            let seen = condition.remove("observedGeneration");
            if let Some(home) = seen.and_then(|seen| home_generation(guest, &seen)) {
                condition.insert("observedGeneration".into(), home);
            }
        }
    }
    // A kubelet that does not say (before 1.33) is taken to have seen what there is.
    let taken = fields.contains_key("startTime");
    let seen = fields.remove("observedGeneration");
    let seen = seen.or_else(|| taken.then(|| guest["metadata"]["generation"].clone()));
    if let Some(home) = seen.and_then(|seen| home_generation(guest, &seen)) {
        fields.insert("observedGeneration".into(), home);
    }
    let left_out = left_out(guest);
    if !left_out.is_empty() {
        let list = fields.entry("ephemeralContainerStatuses").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.extend(left_out);
        }
    }
    status
}

/// Home's generation of the spec, if `seen` is the guest's present one.
fn home_generation(guest: &Value, seen: &Value) -> Option<Value> {
    let metadata = &guest["metadata"];
    let home: u64 = metadata["annotations"][HOME_GENERATION].as_str()?.parse().ok()?;
    (*seen == metadata["generation"]).then(|| json!(home))
}

fn left_out(guest: &Value) -> Vec<Value> {
    let list = guest["metadata"]["annotations"][LEFT_OUT].as_str();
    let list = list.and_then(|text| serde_json::from_str::<Vec<[String; 2]>>(text).ok());
    let waiting = |[name, message]: [String; 2]| {
        json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": "OffloadRefused", "message": message } } })
    };
    list.unwrap_or_default().into_iter().map(waiting).collect()
}
