//! Config maps that come while they are asked for, against an API server that answers late.

use std::time::Duration;

use axum::body::Body as Answer;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use mercato_offload::home::Input;
use mercato_offload::key::key;
use mercato_offload::placement::export::{OptIn, Scope};
use mercato_protocol::id::ClusterId;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, watch};

use super::super::{ClusterClaims, HomeConfig, HomeSide};
use super::*;
use crate::bodies::Bodies;
use crate::offload_namespace::OptedIn;

/// One event of a watch, as the API server sends it.
fn event(what: &str, version: u32, value: &str) -> String {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "k": value },
        "metadata": { "name": "conf", "namespace": "shop", "resourceVersion": version.to_string() } });
    format!("{}\n", json!({ "type": what, "object": object }))
}

/// An API server whose answers to single questions and whose changes come when they are told to.
struct Api {
    /// Answers to questions for single objects, in turn, each for one permit.
    answers: Mutex<Vec<Option<Value>>>,
    permits: Semaphore,
    asked: watch::Sender<usize>,
    events: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
}

impl Api {
    async fn answer(&self, path: &str) -> Response<Answer> {
        let with = |status: u16, object: &Value| {
            let body = Answer::from(object.to_string());
            Response::builder().status(status).body(body).unwrap()
        };
        if path.contains("/configmaps/conf") {
            // It is read as it is asked for, and told late.
            let found = self.answers.lock().unwrap().remove(0);
            self.asked.send_modify(|asked| *asked += 1);
            self.permits.acquire().await.unwrap().forget();
            return match found {
                Some(object) => with(200, &object),
                None => with(404, &crate::testing::status(404, "not found").1),
            };
        }
        if path.contains("/configmaps/") {
            return std::future::pending().await;
        }
        let is_maps = path.contains("/configmaps?");
        if path.contains("watch=") {
            let events = if is_maps { self.events.lock().unwrap().take() } else { None };
            let lines = futures::stream::unfold(events, async |events| {
                let Some(mut events) = events else { return std::future::pending().await };
                let line = events.recv().await?;
                Some((Ok::<_, std::io::Error>(line), Some(events)))
            });
            return Response::new(Answer::from_stream(lines));
        }
        let list = json!({ "kind": "List", "metadata": { "resourceVersion": "9" }, "items": [] });
        with(200, &list)
    }
}

struct Bed {
    side: HomeSide,
    inputs: mpsc::Receiver<Input>,
    bodies: Bodies,
    api: Arc<Api>,
    events: mpsc::UnboundedSender<String>,
    _opted_in: watch::Sender<Known>,
}

/// A pod already waits for `conf`, which is not there; the watch has begun, and `answers` are what
/// is answered to whoever asks for it by name.
async fn bed(answers: Vec<Option<Value>>) -> Bed {
    let (events, receiver) = mpsc::unbounded_channel();
    let api = Arc::new(Api {
        answers: Mutex::new(answers),
        permits: Semaphore::new(0),
        asked: watch::Sender::default(),
        events: Mutex::new(Some(receiver)),
    });
    let answering = api.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let api = answering.clone();
        async move {
            let path = request.uri().path_and_query().map_or("", |path| path.as_str());
            Ok::<_, std::convert::Infallible>(api.answer(path).await)
        }
    });
    let cluster = Cluster::new(Client::new(service, "default"));
    let ready = [("shop".to_owned(), OptIn::default())].into();
    let known = Some(Arc::new(OptedIn::ready(Scope::Labelled, ready)));
    let (opted_in, receiver) = watch::channel(known);
    let config = HomeConfig {
        node: "turin".into(),
        contract: mercato_protocol::id::ContractId([0x2f; 16]),
        provider: ClusterId([0x4f; 32]),
        host_ip: "10.0.0.1".parse().unwrap(),
        audiences: BTreeSet::new(),
        domain: None,
        api: None,
    };
    let bodies = Bodies::default();
    let claims = ClusterClaims::new(cluster.clone(), receiver.clone()).into();
    let (mut side, inputs) = HomeSide::start(cluster, config, bodies.clone(), receiver, claims);
    side.watch(key(ObjectKind::ConfigMap, "shop", "first"));
    let mut bed = Bed { side, inputs, bodies, api, events, _opted_in: opted_in };
    assert_eq!(bed.told().await, ("first".to_owned(), None), "as the list says");
    bed.side.watch(conf());
    bed
}

fn conf() -> ObjectKey {
    key(ObjectKind::ConfigMap, "shop", "conf")
}

fn object(value: &str) -> Value {
    serde_json::from_str::<Value>(&event("ADDED", 10, value)).unwrap()["object"].take()
}

impl Bed {
    /// The next object that is told of: its name, and what it says.
    async fn told(&mut self) -> (String, Option<Value>) {
        loop {
            let input = tokio::time::timeout(Duration::from_secs(10), self.inputs.recv()).await;
            if let Some(Input::Object { key, digest }) = input.expect("an object is told of") {
                let body = digest.map(|digest| self.bodies.object(&digest).here().unwrap());
                return (key.name, body.map(|body| body["data"]["k"].clone()));
            }
        }
    }

    async fn asked(&self, times: usize) {
        let mut asked = self.api.asked.subscribe();
        let asking = asked.wait_for(|asked| *asked >= times);
        tokio::time::timeout(Duration::from_secs(10), asking).await.unwrap().unwrap();
    }

    fn answers(&self) {
        self.api.permits.add_permits(1);
    }
}

fn said(value: &str) -> (String, Option<Value>) {
    ("conf".to_owned(), Some(value.into()))
}

#[tokio::test]
async fn an_answer_that_is_older_than_what_the_watch_says_does_not_count() {
    // Not there yet; there, and changed since.
    for late in [None, Some(object("old"))] {
        let mut bed = bed(vec![late, Some(object("last"))]).await;
        bed.asked(1).await;
        bed.events.send(event("ADDED", 10, "new")).unwrap();
        assert_eq!(bed.told().await, said("new"));
        bed.answers();
        // Who asks anew is answered, and nothing came in between.
        bed.side.watch(conf());
        bed.asked(2).await;
        bed.answers();
        assert_eq!(bed.told().await, said("last"));
    }
}

#[tokio::test]
async fn what_the_watch_has_passed_is_asked_for() {
    let mut bed = bed(vec![Some(object("there")), None]).await;
    bed.asked(1).await;
    bed.answers();
    assert_eq!(bed.told().await, said("there"));
    bed.side.unwatch(&conf());
    bed.side.watch(conf());
    bed.asked(2).await;
    bed.answers();
    assert_eq!(bed.told().await, ("conf".to_owned(), None));
}
