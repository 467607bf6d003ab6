//! Whether an object is as it was written by server-side apply: in the fields that were written, and in
//! no others. What somebody adds beside them, such as a label, is theirs.

use mercato_protocol::quantity;
use serde_json::{Map, Value};

/// Whether each field that was written has its value. Lists and empty objects are one field each, as
/// they are to the API server: whoever adds to one changes it.
pub fn as_written(present: &Value, written: &Value) -> bool {
    let Some(fields) = written.as_object() else { return present == written };
    fields.iter().all(|(name, written)| match name.as_str() {
        "apiVersion" | "kind" | "status" => true,
        "metadata" => ["labels", "annotations"].iter().all(|marks| {
            let (present, written) = (&present["metadata"][*marks], &written[*marks]);
            written.is_null() || holds(present, written)
        }),
        "webhooks" => are_registered(&present["webhooks"], written),
        name => holds(&present[name], written),
    })
}

fn holds(present: &Value, written: &Value) -> bool {
    match (present, written) {
        (Value::Object(present), Value::Object(written)) if !written.is_empty() => {
            let field = |name: &String| present.get(name).unwrap_or(&Value::Null);
            written.iter().all(|(name, written)| holds(field(name), written))
        }
        (present, written) => is_same(present, written),
    }
}

/// Webhooks have keys, and others may stand beside ours. Some clouds keep every webhook away from namespaces
/// of their own: who narrows one so is not written against.
fn are_registered(present: &Value, written: &Value) -> bool {
    let each = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let present = each(present);
    each(written).iter().all(|written| {
        let mut named = present.iter().filter(|one| one["name"] == written["name"]);
        named.next().is_some_and(|present| {
            let fields = written.as_object().into_iter().flatten();
            fields.into_iter().all(|(name, written)| match name.as_str() {
                "namespaceSelector" => is_as_narrow(&present[name], written),
                name => holds(&present[name], written),
            })
        })
    })
}

fn is_as_narrow(present: &Value, written: &Value) -> bool {
    let terms = |of: &Value| of["matchExpressions"].as_array().cloned().unwrap_or_default();
    let there = terms(present);
    holds(&present["matchLabels"], &written["matchLabels"])
        && terms(written).iter().all(|term| there.iter().any(|one| is_same(one, term)))
}

/// Nothing more and nothing less, however the API server writes it.
fn is_same(present: &Value, written: &Value) -> bool {
    match (present, written) {
        (Value::Object(present), Value::Object(written)) => {
            let all = present.keys().chain(written.keys());
            let of = |map: &Map<String, Value>, name| map.get(name).cloned().unwrap_or_default();
            all.into_iter().all(|name| is_same(&of(present, name), &of(written, name)))
        }
        (Value::Array(present), Value::Array(written)) => {
            let mut both = present.iter().zip(written);
            present.len() == written.len() && both.all(|(one, other)| is_same(one, other))
        }
        // The API server writes 1 for 1000m.
        (Value::String(present), Value::String(written)) => {
            let amount = quantity::millis(written);
            present == written || amount.is_some() && amount == quantity::millis(present)
        }
        (present, written) => present == written || is_unset(present) && is_unset(written),
    }
}

/// What the API server leaves out.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is_set) => !is_set,
        Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mercato_protocol::egress::Egress;
    use mercato_protocol::id::ContractId;
    use mercato_protocol::resources::Resources;
    use mercato_protocol::terms::PodSecurity;
    use serde_json::json;

    use super::*;
    use crate::placement::spec::GuestNamespace;

    fn namespace() -> GuestNamespace {
        GuestNamespace {
            name: "shop-rome".into(),
            home: "shop".into(),
            contract: ContractId([5; 16]),
            quantity: Resources {
                cpu_millis: 1_000,
                memory_bytes: 1 << 30,
                ..Resources::default()
            },
            resources: BTreeMap::new(),
            pod_security: PodSecurity::Baseline,
            ranges: vec!["10.200.0.0/24".parse().unwrap()],
            name_servers: Vec::new(),
            egress: Egress::None,
            gate_port: None,
            login: None,
        }
    }

    /// As an API server keeps it: with what it adds itself.
    fn stored(written: &Value) -> Value {
        let mut stored = written.clone();
        stored["metadata"]["uid"] = "u".into();
        stored["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        stored["status"] = json!({ "hard": {} });
        stored
    }

    #[test]
    fn what_others_add_beside_ours_is_no_edit() {
        for written in
            [namespace().quota(), namespace().limit_range(), namespace().network_policy()]
        {
            let mut present = stored(&written);
            assert!(as_written(&present, &written), "{written}");
            present["metadata"]["labels"]["argocd.argoproj.io/instance"] = "all".into();
            present["metadata"]["annotations"] = json!({ "note": "seen" });
            assert!(as_written(&present, &written), "{written}");
            present["metadata"]["labels"]["mercato.dev/contract"] = "another".into();
            assert!(!as_written(&present, &written), "{written}");
        }
        let written = namespace().quota();
        let mut present = stored(&written);
        present["spec"]["hard"]["requests.storage"] = "1Gi".into();
        present["spec"]["hard"]["requests.cpu"] = "1".into();
        assert!(as_written(&present, &written), "a bound more, and 1 for 1000m");
    }

    #[test]
    fn a_webhook_is_as_it_was_registered_where_others_stand_beside_or_narrow_it() {
        let selector = json!({ "matchLabels": { "mercato.dev/offload": "Remote" },
            "matchExpressions": [{ "key": "mercato.dev/contract", "operator": "DoesNotExist" }] });
        let written = json!({ "webhooks": [{ "name": "remote.offload.mercato.dev",
            "failurePolicy": "Fail", "clientConfig": { "url": "https://x", "caBundle": "a" },
            "namespaceSelector": selector, "rules": [{ "resources": ["pods"], "scope": "*" }] }] });
        let mut present = written.clone();
        present["webhooks"][0]["objectSelector"] = json!({});
        present["webhooks"][0]["timeoutSeconds"] = json!(10);
        let narrower = json!({ "key": "control-plane", "operator": "DoesNotExist" });
        let terms = &mut present["webhooks"][0]["namespaceSelector"]["matchExpressions"];
        terms.as_array_mut().unwrap().push(narrower);
        present["webhooks"].as_array_mut().unwrap().insert(0, json!({ "name": "another" }));
        assert!(as_written(&present, &written));
        type Edit = fn(&mut Value);
        let edits: &[Edit] = &[
            |webhook| webhook["name"] = json!("b"),
            |webhook| webhook["failurePolicy"] = json!("Ignore"),
            |webhook| webhook["clientConfig"]["caBundle"] = json!("b"),
            |webhook| webhook["rules"] = json!([]),
            |webhook| webhook["namespaceSelector"]["matchExpressions"] = json!([]),
            |webhook| webhook["namespaceSelector"]["matchLabels"] = json!({}),
        ];
        for (n, edit) in edits.iter().enumerate() {
            let mut present = present.clone();
            edit(&mut present["webhooks"][1]);
            assert!(!as_written(&present, &written), "edit {n}");
        }
    }

    #[test]
    fn whatever_opens_or_cuts_off_guests_is_an_edit() {
        type Edit = fn(&mut Value);
        let edits: &[Edit] = &[
            |spec| spec["podSelector"] = json!({ "matchLabels": { "a": "b" } }),
            |spec| spec["policyTypes"] = json!(["Ingress"]),
            |spec| spec["ingress"] = json!([]),
            |spec| spec["ingress"].as_array_mut().unwrap().push(json!({})),
            |spec| spec["ingress"][0]["ports"] = json!([{ "port": 80 }]),
            |spec| drop(spec["egress"][0]["to"].as_array_mut().unwrap().pop()),
            |spec| drop(spec.as_object_mut().unwrap().remove("egress")),
        ];
        let written = namespace().network_policy();
        for (n, edit) in edits.iter().enumerate() {
            let mut present = stored(&written);
            edit(&mut present["spec"]);
            assert!(!as_written(&present, &written), "edit {n}");
        }
        let written = namespace().quota();
        for (bound, amount) in [("requests.cpu", json!("2")), ("pods", Value::Null)] {
            let mut present = stored(&written);
            present["spec"]["hard"][bound] = amount;
            assert!(!as_written(&present, &written), "{bound}");
        }
        let written = namespace().limit_range();
        let mut present = stored(&written);
        // Which the API server leaves out.
        present["spec"]["limits"][0].as_object_mut().unwrap().remove("default");
        assert!(as_written(&present, &written));
        present["spec"]["limits"][0]["default"] = json!({ "memory": "1Gi" });
        assert!(!as_written(&present, &written));
    }
}
