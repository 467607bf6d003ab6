//! The metadata of guest objects: which labels and annotations cross, and our marks.

use serde_json::{Map, Value, json};

use super::keys::{LONGEST, guest_key};
use super::labels::*;
use super::rule::refusal;
use super::{GuestContext, Refusal, is_counted};
use crate::key::{Item, ObjectKind};
use crate::message::Route;
use mercato_protocol::id::Digest;

/// Bytes of all annotations of an object that an API server takes (Kubernetes'
/// `TotalAnnotationSizeLimitB`), and what is left of them to the provider's own, such as
/// those of its network.
const ALL_ANNOTATIONS: usize = 256 << 10;
const LEFT_TO_THE_PROVIDER: usize = 16 << 10;

/// Metadata of a guest object: name, namespace, what crosses, our marks, and further
/// annotations of ours. `home` is the body that home sends of a pod; null of anything else. A pod
/// carries our finalizer if somebody counts how it ends.
pub(super) fn metadata(
    item: &Item,
    home: &Value,
    digest: Digest,
    route: &Route,
    further: Map<String, Value>,
    ctx: &GuestContext,
) -> Result<Map<String, Value>, Refusal> {
    let key = item.key();
    let guest = ctx
        .guest_key(&key)
        .ok_or_else(|| refusal("metadata.namespace", "is not part of the lease"))?;
    let path: Vec<String> = route.path.iter().map(ToString::to_string).collect();
    let own = &home["metadata"];
    let mut labels = labels(&own["labels"])?;
    labels.insert(CONTRACT.into(), json!(ctx.contract.to_string()));
    let mut annotations = further;
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
        if let Some(generation) = own["generation"].as_u64() {
            annotations.insert(HOME_GENERATION.into(), json!(generation.to_string()));
        }
        if is_counted(home) {
            metadata.insert("finalizers".into(), json!([FINALIZER]));
        }
    }
    add_annotations(&mut annotations, &own["annotations"]);
    metadata.insert("name".into(), json!(guest.name));
    metadata.insert("namespace".into(), json!(guest.namespace));
    metadata.insert("labels".into(), Value::Object(labels));
    metadata.insert("annotations".into(), Value::Object(annotations));
    Ok(metadata)
}

/// What an object of that kind is called in [`HOME_KIND`].
pub(crate) fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Namespace => "Namespace",
        ObjectKind::Pod => "Pod",
        ObjectKind::ConfigMap => "ConfigMap",
        ObjectKind::Secret => "Secret",
        ObjectKind::ServiceAccountToken => "ServiceAccountToken",
        ObjectKind::Service => "Service",
        ObjectKind::EndpointSlice => "EndpointSlice",
        ObjectKind::Claim => "PersistentVolumeClaim",
    }
}

/// Home's labels, under the keys that they have over there. A pod that a selector may look
/// for is refused rather than stripped of a label.
fn labels(home: &Value) -> Result<Map<String, Value>, Refusal> {
    let mut labels = Map::new();
    for (name, value) in texts(home) {
        let key = guest_key(name).ok_or_else(|| {
            let reason = format!("has a prefix of more than {LONGEST} characters");
            refusal(&format!("metadata.labels[{name}]"), reason)
        })?;
        labels.insert(key.into_owned(), value.clone());
    }
    Ok(labels)
}

/// Adds home's annotations, under the keys that they have over there, as far as there is
/// room: nobody over there reads them, and what a pod reads of its own is in [`super::fields`].
fn add_annotations(annotations: &mut Map<String, Value>, home: &Value) {
    let size = |name: &str, value: &Value| name.len() + value.as_str().map_or(0, str::len);
    let taken: usize = annotations.iter().map(|(name, value)| size(name, value)).sum();
    let mut room = (ALL_ANNOTATIONS - LEFT_TO_THE_PROVIDER).saturating_sub(taken);
    for (name, value) in texts(home) {
        let Some(key) = guest_key(name) else { continue };
        let Some(rest) = room.checked_sub(size(&key, value)) else { continue };
        room = rest;
        annotations.insert(key.into_owned(), value.clone());
    }
}

fn texts(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flatten().filter(|(_, value)| value.is_string())
}
