//! An object as it comes from a watch: its own JSON, read once, without what only the
//! API server needs of it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::apiserver::kind::Kind;

/// An object, and of its metadata what the watch itself reads.
#[derive(Clone, Debug)]
pub(super) struct Object {
    metadata: ObjectMeta,
    json: Value,
}

impl Object {
    /// Its JSON; in a list its type is left out.
    pub(super) fn typed(self, kind: Kind) -> Value {
        let mut json = self.json;
        json["apiVersion"] = kind.api_version().into();
        json["kind"] = kind.kind.into();
        json
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut json = Value::deserialize(deserializer)?;
        trim(&mut json);
        let text = |name: &str| json["metadata"][name].as_str().map(str::to_owned);
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, json })
    }
}

/// Leaves out what is a third of a pod and of use to the API server alone.
pub(crate) fn trim(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

impl Resource for Object {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.kind)
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.group)
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.version)
    }

    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.api_version)
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&kind.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::apiserver::kind::POD;

    #[test]
    fn an_object_is_read_as_it_is_but_for_managed_fields() {
        let pod = json!({
            "metadata": { "name": "web", "resourceVersion": "7", "managedFields": [{}],
                "unheardOf": 1 },
            "spec": { "containers": [] } });
        let object: Object = serde_json::from_value(pod).unwrap();
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        let typed = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "web", "resourceVersion": "7", "unheardOf": 1 },
            "spec": { "containers": [] } });
        assert_eq!(object.typed(POD), typed);
        assert!(serde_json::from_value::<Object>(json!({})).is_ok());
    }
}
