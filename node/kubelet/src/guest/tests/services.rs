//! Services of guests, and the addresses that they have over here.

use super::*;

fn service(spec: &Value) -> (Item, Value) {
    let body = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": "shop" }, "spec": spec });
    (Item::Object(key(ObjectKind::Service, "shop", "web")), body)
}

/// The guest's Service as it stands, with this address.
fn standing(address: &str) -> Value {
    let (item, body) = service(&json!({ "ports": [{ "port": 80 }] }));
    let forged = forge::forge(&item, &body, &content(&body), &context());
    let mut stored = forged.unwrap();
    stored["metadata"]["uid"] = "s1".into();
    stored["metadata"]["resourceVersion"] = "7".into();
    stored["spec"]["clusterIP"] = address.into();
    stored
}

#[tokio::test]
async fn a_service_keeps_its_address() {
    for (address, spec) in [
        ("10.96.0.7", json!({ "ports": [{ "port": 81 }] })),
        ("None", json!({ "ports": [{ "port": 81 }], "clusterIP": "None" })),
    ] {
        let mut bed = bed(Some(standing(address)), (200, json!({})));
        let (item, body) = service(&spec);
        assert_eq!(bed.apply(&item, &body).await, Input::Written(item));
        let (request, written) = bed.writes.lock().unwrap().remove(0);
        assert!(request.starts_with("PUT /api/v1/namespaces/shop-rome/services/web"), "{request}");
        assert_eq!(written["spec"]["clusterIP"], address);
        assert_eq!(written["spec"]["ports"][0]["port"], 81);
        assert_eq!(written["metadata"]["resourceVersion"], "7", "over what was seen alone");
    }
}

#[tokio::test]
async fn a_service_that_gets_or_loses_its_address_is_made_anew_at_the_next_try() {
    let headless = json!({ "ports": [{ "port": 80 }], "clusterIP": "None" });
    let ports = json!({ "ports": [{ "port": 80 }] });
    for (before, spec) in [("10.96.0.7", headless), ("None", ports)] {
        let there = Arc::new(Mutex::new(Some(standing(before))));
        let (writes, seen) = (Writes::default(), there.clone());
        let written = writes.clone();
        let cluster = scripted(move |method, path, body| {
            if path.contains("watch=") || path.contains("limit=") {
                return status(503, "not watched in this test");
            }
            let mut there = seen.lock().unwrap();
            if method == "GET" {
                let found = there.clone();
                return found.map_or_else(|| status(404, "not found"), |object| (200, object));
            }
            written.lock().unwrap().push((method.to_string(), body.clone()));
            *there = (method != "DELETE").then(|| body.clone());
            (200, body)
        });
        let bodies = Bodies::default();
        let (side, inputs) =
            start(cluster, context(), bodies.clone(), LeaseStored::alone(CONTRACT_ID));
        let mut bed = Bed { side, inputs, bodies, writes, only_at: Arc::default() };
        let (item, body) = service(&spec);
        let later = Input::NotWritten(item.clone(), Failure::Transient);
        assert_eq!(bed.apply(&item, &body).await, later);
        assert_eq!(bed.apply(&item, &body).await, Input::Written(item));
        let writes = std::mem::take(&mut *bed.writes.lock().unwrap());
        let methods: Vec<_> = writes.iter().map(|(method, _)| method.as_str()).collect();
        assert_eq!(methods, ["DELETE", "POST"]);
        assert_eq!(writes[0].1["preconditions"]["uid"], "s1", "no other of the name");
        assert_eq!(writes[1].1["spec"]["clusterIP"], spec["clusterIP"], "as home has it");
    }
}

#[tokio::test]
async fn a_service_of_somebody_elses_is_left_alone() {
    let mut foreign = standing("10.96.0.7");
    foreign["metadata"]["labels"][CONTRACT] = "another".into();
    let mut bed = bed(Some(foreign), (200, json!({})));
    for spec in [json!({ "ports": [{ "port": 80 }] }), json!({ "clusterIP": "None" })] {
        let (item, body) = service(&spec);
        let Input::NotWritten(_, Failure::Refused(why)) = bed.apply(&item, &body).await else {
            panic!("a foreign Service was taken for ours");
        };
        assert_eq!(why.path, "metadata.name");
    }
    assert!(bed.written().is_empty(), "{:?}", bed.written());
}
