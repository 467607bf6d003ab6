//! The metadata of guest objects: which labels and annotations cross, and our marks.

use serde_json::{Map, Value, json};

use super::labels::*;
use super::schema::refusal;
use super::{GuestContext, Refusal};
use crate::key::{Item, ObjectKind};
use crate::message::Route;
use mercato_protocol::id::Digest;

/// Prefixes of annotations that mean something to people or to tools inside the pod. Any
/// other prefix may steer a controller, a runtime or a network of the provider's.
const ANNOTATIONS: [&str; 2] = ["prometheus.io/", "app.kubernetes.io/"];

/// Prefixes of labels that would lend the guest an identity of the provider's.
const RESERVED: &str = "kubernetes.io";

/// Metadata of a guest object: name, namespace, what crosses, and our marks.
pub(super) fn metadata(
    item: &Item,
    home: &Value,
    digest: Digest,
    route: &Route,
    ctx: &GuestContext,
) -> Result<Map<String, Value>, Refusal> {
    let key = item.key();
    let guest = ctx
        .guest_key(&key)
        .ok_or_else(|| refusal("metadata.namespace", "is not part of the lease"))?;
    let path: Vec<String> = route.path.iter().map(ToString::to_string).collect();
    let mut labels = kept(&home["labels"], label_crosses);
    labels.insert(CONTRACT.into(), json!(ctx.contract.to_string()));
    let mut annotations = kept(&home["annotations"], annotation_crosses);
    annotations.extend([
        (HOME_KIND.into(), json!(kind_name(key.kind))),
        (HOME_NAMESPACE.into(), json!(key.namespace)),
        (HOME_NAME.into(), json!(key.name)),
        (ORIGIN.into(), json!(route.origin.to_string())),
        (PATH.into(), json!(path.join(","))),
        (HOPS_LEFT.into(), json!(route.hops.to_string())),
        (DIGEST.into(), json!(digest.to_string())),
    ]);
    let mut metadata = Map::new();
    if let Item::Pod(pod) = item {
        labels.insert(HOME_UID.into(), json!(pod.uid.0));
        if let Some(generation) = home["generation"].as_u64() {
            annotations.insert(HOME_GENERATION.into(), json!(generation.to_string()));
        }
        metadata.insert("finalizers".into(), json!([FINALIZER]));
    }
    metadata.insert("name".into(), json!(guest.name));
    metadata.insert("namespace".into(), json!(guest.namespace));
    metadata.insert("labels".into(), Value::Object(labels));
    metadata.insert("annotations".into(), Value::Object(annotations));
    Ok(metadata)
}

/// What an object of that kind is called in [`HOME_KIND`].
pub(super) fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Namespace => "Namespace",
        ObjectKind::Pod => "Pod",
        ObjectKind::ConfigMap => "ConfigMap",
        ObjectKind::Secret => "Secret",
        ObjectKind::ServiceAccountToken => "ServiceAccountToken",
    }
}

/// Whether a pod's label crosses.
pub(super) fn label_crosses(name: &str) -> bool {
    match name.split_once('/') {
        None => true,
        Some((prefix, _)) => {
            let reserved = prefix == RESERVED || prefix.ends_with(".kubernetes.io");
            let common = prefix == "app.kubernetes.io" || prefix == "statefulset.kubernetes.io";
            !ours(prefix) && !prefix.ends_with("k8s.io") && (!reserved || common)
        }
    }
}

/// Whether a pod's annotation crosses.
pub(super) fn annotation_crosses(name: &str) -> bool {
    !name.contains('/') || ANNOTATIONS.iter().any(|prefix| name.starts_with(prefix))
}

fn ours(prefix: &str) -> bool {
    prefix == GROUP || prefix.strip_suffix(GROUP).is_some_and(|rest| rest.ends_with('.'))
}

fn kept(map: &Value, crosses: fn(&str) -> bool) -> Map<String, Value> {
    let all = map.as_object().into_iter().flatten();
    all.filter(|(name, value)| crosses(name) && value.is_string())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
