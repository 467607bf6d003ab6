//! What a pod refers to: config maps, secrets and service-account tokens.

use std::collections::BTreeSet;

use serde_json::Value;

use super::tokens::Tokens;
use crate::key::{ObjectKey, ObjectKind, PodId, Uid, key};

/// A token to be made at home by `TokenRequest`, bound to the pod, and kept fresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// What it is called as an object that crosses.
    pub key: ObjectKey,
    /// The pod that it is bound to.
    pub pod: PodId,
    /// `spec.serviceAccountName` of the pod.
    pub service_account: String,
    /// Whom it is for; none means home's API server.
    pub audience: Option<String>,
    /// How long it lives, in seconds.
    pub expiration_s: u64,
}

/// The lifetime of a token that asks for none, in seconds (Kubernetes' own default).
const EXPIRATION_S: u64 = 3_600;

/// How the names of tokens begin.
const TOKEN: &str = "mercato-token-";

/// The pod itself, from its metadata; none if that is not a stored pod's.
pub fn pod_id(pod: &Value) -> Option<PodId> {
    let text = |name: &str| pod["metadata"][name].as_str().map(str::to_owned);
    Some(PodId { uid: Uid(text("uid")?), namespace: text("namespace")?, name: text("name")? })
}

/// What an exported pod refers to, tokens included.
pub fn needs(pod: &Value) -> Vec<ObjectKey> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut keys = BTreeSet::new();
    visit_names(&mut pod["spec"].clone(), &mut |kind, name| {
        if let Some(name) = name.as_str() {
            keys.insert(key(kind, namespace, name));
        }
    });
    keys.extend(token_requests(pod).into_iter().map(|request| request.key));
    keys.into_iter().collect()
}

/// The tokens that a pod of home mounts once it is exported, if these leave with it.
pub fn token_requests_of(pod: &Value, tokens: &Tokens) -> Vec<TokenRequest> {
    let mut exported = pod.clone();
    retain_tokens(&mut exported["spec"], tokens);
    token_requests(&exported)
}

/// The tokens that an exported pod mounts.
pub fn token_requests(pod: &Value) -> Vec<TokenRequest> {
    let Some(id) = pod_id(pod) else { return Vec::new() };
    let service_account = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    let mut requests = Vec::new();
    visit_tokens(&mut pod["spec"].clone(), &mut |n, source| {
        let token = &source["serviceAccountToken"];
        requests.push(TokenRequest {
            key: key(ObjectKind::ServiceAccountToken, &id.namespace, &token_name(&id.uid, n)),
            pod: id.clone(),
            service_account: service_account.to_owned(),
            audience: audience(token).map(str::to_owned),
            expiration_s: token["expirationSeconds"].as_u64().unwrap_or(EXPIRATION_S),
        });
    });
    requests
}

/// What the `n`th token of a pod is called, at home and, as a secret, over there.
pub fn token_name(pod: &Uid, n: usize) -> String {
    format!("{TOKEN}{pod}-{n}")
}

/// Whose token is called so.
pub fn token_pod(name: &str) -> Option<Uid> {
    let (uid, _) = name.strip_prefix(TOKEN)?.rsplit_once('-')?;
    Some(Uid(uid.to_owned()))
}

/// Every container of a pod's spec, of whatever sort.
pub(super) fn visit_containers(spec: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    for sort in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, sort, visit);
    }
}

/// Every projected token, numbered in order.
pub(super) fn visit_tokens(spec: &mut Value, visit: &mut dyn FnMut(usize, &mut Value)) {
    let mut n = 0;
    each(spec, "volumes", &mut |volume| {
        within(volume, "projected", &mut |projected| {
            each(projected, "sources", &mut |source| {
                if source.get("serviceAccountToken").is_some_and(|token| !token.is_null()) {
                    visit(n, source);
                    n += 1;
                }
            });
        });
    });
}

/// Takes out the tokens that stay at home.
pub(super) fn retain_tokens(spec: &mut Value, tokens: &Tokens) {
    each(spec, "volumes", &mut |volume| {
        within(volume, "projected", &mut |projected| {
            if let Some(sources) = projected["sources"].as_array_mut() {
                sources.retain(|source| {
                    let token = &source["serviceAccountToken"];
                    token.is_null() || tokens.permit(audience(token))
                });
            }
        });
    });
}

/// Whom a projected token is for; none: home's API server.
pub(super) fn audience(token: &Value) -> Option<&str> {
    token["audience"].as_str().filter(|name| !name.is_empty())
}

/// Every name of a config map or a secret.
pub(super) fn visit_names(spec: &mut Value, visit: &mut dyn FnMut(ObjectKind, &mut Value)) {
    use ObjectKind::{ConfigMap, Secret};
    each(spec, "imagePullSecrets", &mut |secret| {
        within(secret, "name", &mut |name| visit(Secret, name));
    });
    let mut named = |value: &mut Value, of: &str, field: &str, kind| {
        within(value, of, &mut |source| within(source, field, &mut |name| visit(kind, name)));
    };
    visit_containers(spec, &mut |container| {
        each(container, "envFrom", &mut |source| {
            named(source, "configMapRef", "name", ConfigMap);
            named(source, "secretRef", "name", Secret);
        });
        each(container, "env", &mut |env| {
            within(env, "valueFrom", &mut |source| {
                named(source, "configMapKeyRef", "name", ConfigMap);
                named(source, "secretKeyRef", "name", Secret);
            });
        });
    });
    each(spec, "volumes", &mut |volume| {
        named(volume, "configMap", "name", ConfigMap);
        named(volume, "secret", "secretName", Secret);
        within(volume, "projected", &mut |projected| {
            each(projected, "sources", &mut |source| {
                named(source, "configMap", "name", ConfigMap);
                named(source, "secret", "name", Secret);
            });
        });
    });
}

/// Every item of the list `field`, if there is one.
pub(super) fn each(value: &mut Value, field: &str, visit: &mut dyn FnMut(&mut Value)) {
    if let Some(list) = value.get_mut(field).and_then(Value::as_array_mut) {
        list.iter_mut().for_each(visit);
    }
}

/// The field, if it is there.
pub(super) fn within(value: &mut Value, field: &str, visit: &mut dyn FnMut(&mut Value)) {
    if let Some(inner) = value.get_mut(field).filter(|inner| !inner.is_null()) {
        visit(inner);
    }
}
