//! Services and slices that somebody has changed or deleted over here.

use mercato_offload::put_back::Meddling;

use super::*;

/// An API server that keeps one object, as it writes it, and what was done there.
#[derive(Default)]
struct Server {
    there: Option<Value>,
    namespace_since: &'static str,
    /// It leaves this out of whatever is written.
    drops: Option<&'static str>,
    writes: Vec<String>,
    events: Vec<Value>,
}

struct Kept {
    bed: Bed,
    server: Arc<Mutex<Server>>,
}

fn kept(server: Server) -> Kept {
    let server = Arc::new(Mutex::new(server));
    let of = server.clone();
    let cluster = scripted(move |method, path, body| {
        if path.contains("watch=") || path.contains("limit=") {
            return status(503, "not watched in this test");
        }
        let mut server = of.lock().unwrap();
        let place = path.split('?').next().unwrap_or_default();
        match (method.as_str(), place.rsplit('/').next().unwrap_or_default()) {
            ("GET", "shop-rome") => {
                (200, json!({ "metadata": { "creationTimestamp": server.namespace_since } }))
            }
            ("POST", "events") => {
                server.events.push(body.clone());
                (201, body)
            }
            ("GET", _) => server.there.clone().map_or_else(|| status(404, "no"), |it| (200, it)),
            _ => {
                let mut stored = body;
                stored["metadata"]["uid"] = "s1".into();
                if let Some(field) = server.drops {
                    stored["spec"].as_object_mut().unwrap().remove(field);
                }
                server.writes.push(method.to_string());
                server.there = Some(stored.clone());
                (200, stored)
            }
        }
    });
    let bodies = Bodies::default();
    let (side, inputs) = start(cluster, context(), bodies.clone(), LeaseStored::alone(CONTRACT_ID));
    let bed = Bed { side, inputs, bodies, writes: Writes::default(), only_at: Arc::default() };
    Kept { bed, server }
}

fn service() -> (Item, Value) {
    let body = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "ports": [{ "port": 80 }] } });
    (Item::Object(key(ObjectKind::Service, "shop", "web")), body)
}

impl Kept {
    async fn apply(&mut self) {
        let (item, body) = service();
        assert_eq!(self.bed.apply(&item, &body).await, Input::Written(item));
    }

    /// The object as the API server has it is what the session wants.
    fn is_as_wanted(&self) -> bool {
        let (_, body) = service();
        let there = self.server.lock().unwrap().there.clone().unwrap();
        self.bed.side.shared.observe(&there).unwrap().digest == forge::digest(&body)
    }

    fn edit(&self, edit: impl FnOnce(&mut Value)) {
        edit(self.server.lock().unwrap().there.as_mut().unwrap());
    }

    async fn told(&self) -> Vec<Meddling> {
        // What is told is told once the session has heard.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.bed.side.shared.kept.recent().into_iter().map(|one| one.change).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_somebody_changed_is_not_what_is_wanted_and_is_told_once_put_back() {
    let mut kept = kept(Server::default());
    kept.apply().await;
    assert!(kept.is_as_wanted());
    kept.edit(|service| {
        service["metadata"]["labels"]["team"] = "a".into();
        service["spec"]["clusterIP"] = "10.96.0.7".into();
        service["spec"]["internalTrafficPolicy"] = "Cluster".into();
        service["spec"]["ports"][0]["targetPort"] = 80.into();
        service["spec"]["ports"][0]["protocol"] = "TCP".into();
    });
    assert!(kept.is_as_wanted(), "what the API server fills in, and a label of others");
    kept.edit(|service| service["spec"]["ports"][0]["port"] = 81.into());
    kept.edit(|service| {
        service["metadata"]["managedFields"] = json!([{ "manager": "kubectl-edit",
            "time": "2026-01-01T00:00:00Z", "fieldsV1": { "f:spec": {} } }]);
    });
    assert!(!kept.is_as_wanted());
    kept.apply().await;
    assert!(kept.is_as_wanted());
    let there = kept.server.lock().unwrap().there.clone().unwrap();
    assert_eq!(there["spec"]["ports"][0]["port"], 80);
    assert_eq!(there["metadata"]["labels"]["team"], "a", "what others added stays");
    assert_eq!(kept.told().await, [Meddling::Edited(Some("kubectl-edit".to_owned()))]);
    let events = kept.server.lock().unwrap().events.clone();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["involvedObject"]["name"], "web");
    kept.edit(|service| service["metadata"]["annotations"] = Value::Null);
    assert!(
        kept.bed.side.shared.observe(&kept.server.lock().unwrap().there.clone().unwrap()).is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_stores_otherwise_is_no_edit() {
    let mut kept = kept(Server { drops: Some("ipFamilyPolicy"), ..Server::default() });
    kept.apply().await;
    assert!(kept.is_as_wanted());
    kept.edit(|service| service["spec"]["externalIPs"] = json!(["192.0.2.1"]));
    assert!(!kept.is_as_wanted());
    kept.apply().await;
    assert!(kept.is_as_wanted());
    assert_eq!(kept.told().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_was_deleted_is_told_unless_its_namespace_was() {
    for (since, told) in [("2026-01-01T00:00:00Z", 1), ("2026-01-03T00:00:00Z", 0)] {
        let mut kept = kept(Server { namespace_since: since, ..Server::default() });
        kept.bed.side.shared.edits.on_deleted(&service().0, "2026-01-02T00:00:00Z");
        kept.apply().await;
        let expected = vec![Meddling::Deleted; told];
        assert_eq!(kept.told().await, expected, "{since}");
    }
}
