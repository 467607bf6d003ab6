//! Guest objects other than pods, and the one entry for all of them.

use mercato_protocol::id::Digest;
use serde_json::{Map, Value, json};

use super::claim::forge_claim;
use super::rule::{Fields, refusal};
use super::schema::{CONFIG_MAP, SECRET};
use super::service::{forge_service, forge_slice};
use super::{Content, GuestContext, Refusal, forge_pod, metadata};
use crate::key::{Item, ObjectKind};
use crate::limits;
use crate::message::Route;

/// The guest object of whatever came: `body` as home exported it, whose digest the caller has checked.
///
/// # Errors
///
/// The field, or the whole, that the lease does not allow.
pub fn forge(
    item: &Item,
    body: &Value,
    content: &Content,
    ctx: &GuestContext,
) -> Result<Value, Refusal> {
    if !is_shallow(body, limits::JSON_DEPTH) {
        return Err(refusal("", "is nested too deep"));
    }
    let key = match item {
        Item::Pod(id) => return forge_pod(id, body, content, ctx),
        Item::Object(key) => key,
    };
    let Content { digest, route, .. } = content;
    let digest = *digest;
    match key.kind {
        ObjectKind::ConfigMap => forge_config_map(item, body, digest, route, ctx),
        ObjectKind::Secret | ObjectKind::ServiceAccountToken => {
            forge_secret(item, body, digest, route, ctx)
        }
        ObjectKind::Service => forge_service(item, body, digest, route, ctx),
        ObjectKind::EndpointSlice => forge_slice(item, body, digest, route, ctx),
        ObjectKind::Claim => forge_claim(item, body, digest, route, ctx),
        ObjectKind::Namespace | ObjectKind::Pod => {
            Err(refusal("kind", "is not an object that crosses by itself"))
        }
    }
}

/// The guest config map of a home config map.
///
/// # Errors
///
/// The field that is not known.
pub fn forge_config_map(
    item: &Item,
    home: &Value,
    digest: Digest,
    route: &Route,
    ctx: &GuestContext,
) -> Result<Value, Refusal> {
    forge_object(&CONFIG_MAP, item, home, digest, route, ctx)
}

/// The guest secret of a home secret or token. Not immutable: what was deleted and made
/// again at home is an update over there.
///
/// # Errors
///
/// The field that is not known, or a type that is a credential of the home cluster.
pub fn forge_secret(
    item: &Item,
    home: &Value,
    digest: Digest,
    route: &Route,
    ctx: &GuestContext,
) -> Result<Value, Refusal> {
    forge_object(&SECRET, item, home, digest, route, ctx).map_err(|mut refusal| {
        // Which one, and what its pods do instead.
        if refusal.path == "type" {
            let name = home["type"].as_str().unwrap_or_default();
            let line = if name == OF_ACCOUNT { PROJECTED } else { OPAQUE };
            refusal.reason = format!("{name} {}; {line}", refusal.reason);
        }
        refusal
    })
}

/// The type of secret that holds the token of a service account, and what pods have in its place.
const OF_ACCOUNT: &str = "kubernetes.io/service-account-token";
const PROJECTED: &str = "mount a projected serviceAccountToken in its place, with spec.apiAccess: home in \
                         the NamespaceOffload";
/// What pods have in place of another one that never leaves.
const OPAQUE: &str = "put what guests need of it into a Secret of type Opaque";

fn forge_object(
    fields: &Fields,
    item: &Item,
    home: &Value,
    digest: Digest,
    route: &Route,
    ctx: &GuestContext,
) -> Result<Value, Refusal> {
    let mut object = fields.filter(home, ctx.pod_security)?;
    let marks = metadata::metadata(item, &Value::Null, digest, route, Map::new(), ctx)?;
    object["apiVersion"] = json!("v1");
    object["kind"] = json!(fields.of);
    object["metadata"] = Value::Object(marks);
    Ok(object)
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(list) => depth > 0 && list.iter().all(|value| is_shallow(value, depth - 1)),
        Value::Object(map) => depth > 0 && map.values().all(|value| is_shallow(value, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}
