//! Whether a Service or a slice of its endpoints is as it was made: each says by a mark what was made of
//! it. Looked at is what was written, and what would lead connections elsewhere. What an API server
//! fills in, and what others add beside it, such as a label, is no change.

use mercato_protocol::id::Digest;
use serde_json::{Map, Value, json};

use super::digest;
use super::labels::{GROUP, MADE, SERVICE_NAME, SLICE_MANAGED_BY};
use crate::key::ObjectKind;

/// Writes the mark on a Service or a slice that is about to be written.
pub(super) fn seal(kind: ObjectKind, object: &mut Value) {
    if let Some(digest) = digest_of_made(kind, object) {
        object["metadata"]["annotations"][MADE] = json!(digest.to_string());
    }
}

/// What its mark says of an object; none: it has no such mark.
pub(super) fn said(object: &Value) -> Option<Digest> {
    object["metadata"]["annotations"][MADE].as_str()?.parse().ok()
}

/// The digest of what was written of a Service or a slice, by whoever it was; none: of another kind.
pub(super) fn digest_of_made(kind: ObjectKind, object: &Value) -> Option<Digest> {
    let mut says = match kind {
        ObjectKind::Service => service(&object["spec"]),
        ObjectKind::EndpointSlice => slice(object),
        ObjectKind::ConfigMap
        | ObjectKind::Secret
        | ObjectKind::ServiceAccountToken
        | ObjectKind::Namespace
        | ObjectKind::Pod
        | ObjectKind::Claim => return None,
    };
    says["marks"] = ["labels", "annotations"].map(|map| ours(&object["metadata"][map])).into();
    Some(digest(&says))
}

/// Whether a label or annotation is one that a guest object has of us, whoever wrote it.
pub fn is_mark(name: &str) -> bool {
    let prefix = name.split_once('/').map(|(prefix, _)| prefix);
    prefix == Some(GROUP) || [SERVICE_NAME, SLICE_MANAGED_BY].contains(&name)
}

fn ours(marks: &Value) -> Value {
    let marks = marks.as_object().into_iter().flatten();
    let ours = marks.filter(|(name, _)| is_mark(name) && *name != MADE);
    ours.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into()
}

/// A selector or addresses of its own would lead guests elsewhere, and so would a policy by which
/// endpoints count that are on the caller's node alone.
fn service(spec: &Value) -> Value {
    let affinity = spec["sessionAffinity"].as_str().unwrap_or("None");
    let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    let seconds = match affinity {
        "None" => None,
        _ => Some(seconds.as_i64().unwrap_or(AFFINITY_SECONDS)),
    };
    json!({
        "type": spec["type"], "families": [spec["ipFamilyPolicy"], spec["ipFamilies"]],
        "headless": spec["clusterIP"] == "None", "affinity": [affinity, seconds],
        "local": spec["internalTrafficPolicy"] == "Local",
        "selector": some(&spec["selector"]), "outside": some(&spec["externalIPs"]),
        "ports": ports(&spec["ports"]),
    })
}

fn slice(slice: &Value) -> Value {
    let endpoint = |endpoint: &Value| {
        let conditions = &endpoint["conditions"];
        let conditions = ["ready", "serving", "terminating"].map(|name| conditions[name].as_bool());
        json!([endpoint["addresses"], conditions, endpoint["hostname"]])
    };
    let endpoints: Vec<Value> = each(&slice["endpoints"]).map(endpoint).collect();
    json!({ "type": slice["addressType"], "endpoints": endpoints, "ports": ports(&slice["ports"]) })
}

/// With what the API server fills in.
fn ports(ports: &Value) -> Value {
    let port = |port: &Value| {
        let text = |name: &str, default: &str| port[name].as_str().unwrap_or(default).to_owned();
        json!([text("name", ""), port["port"], text("protocol", "TCP"), port["appProtocol"]])
    };
    each(ports).map(port).collect::<Vec<_>>().into()
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// What an API server leaves out where it is empty.
fn some(value: &Value) -> Option<&Value> {
    let is_empty = match value {
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.is_null(),
    };
    (!is_empty).then_some(value)
}

/// What the API server fills in where an affinity names no time.
const AFFINITY_SECONDS: i64 = 10_800;
