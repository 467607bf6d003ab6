//! What guests ask for, and what they may use.

use serde_json::{Value, json};

use super::*;

/// It asks for what home's scheduler has counted: nothing, where it does not say.
#[test]
fn requests_are_the_pods_own_and_no_container_has_more_than_was_bought() {
    let bought = GuestContext {
        default_requests: map([("cpu", "0"), ("memory", "0")]),
        default_limits: map([("memory", "4294967296")]),
        ..guest_context()
    };
    let made = |resources: Value, whole: Value| {
        let mut home = home_pod();
        home["spec"]["containers"][0]["resources"] = resources;
        if !whole.is_null() {
            home["spec"]["resources"] = whole;
        }
        let sent = export_pod(&home, &home_context(Tokens::All));
        let guest = forge(&Item::Pod(id()), &sent, &content(&sent), &bought).unwrap();
        guest["spec"]["containers"][0]["resources"].clone()
    };
    let none = json!({ "cpu": "0", "memory": "0" });
    let most = json!({ "memory": "4294967296" });
    assert_eq!(made(json!({}), Value::Null), json!({ "requests": none, "limits": most }));
    let own = json!({ "requests": { "cpu": "1" }, "limits": { "memory": "1Gi" } });
    let asks = json!({ "cpu": "1", "memory": "1Gi" });
    let limits = json!({ "memory": "1Gi" });
    assert_eq!(made(own, Value::Null), json!({ "requests": asks, "limits": limits }));
    // A limit of the pod as a whole may be below that of the node.
    let whole = json!({ "limits": { "memory": "64Mi" }, "requests": { "memory": "32Mi" } });
    let within = made(json!({}), whole);
    assert_eq!(within["requests"], none);
    assert!(within["limits"].as_object().is_none_or(serde_json::Map::is_empty), "{within}");
}

/// Otherwise a scheduler, for which no node gets fuller, would choose the same one each time.
#[test]
fn guests_that_ask_for_nothing_are_spread_over_nodes() {
    let spread = |resources: Value| {
        let mut home = home_pod();
        for list in ["containers", "initContainers"] {
            for container in home["spec"][list].as_array_mut().into_iter().flatten() {
                container["resources"] = resources.clone();
            }
        }
        let guest = forged(&export_pod(&home, &home_context(Tokens::All))).unwrap();
        guest["spec"]["topologySpreadConstraints"].clone()
    };
    let nothing = spread(json!({}));
    assert_eq!(nothing[0]["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(nothing[0]["whenUnsatisfiable"], "ScheduleAnyway");
    let of_contract = json!({ "mercato.dev/contract": guest_context().contract.to_string() });
    assert_eq!(nothing[0]["labelSelector"]["matchLabels"], of_contract);
    assert_eq!(spread(json!({ "requests": { "cpu": "10m" } })), Value::Null);
}
