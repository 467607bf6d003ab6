//! What the session of a lease is told of Services, and what their owners are.

use std::sync::Mutex;

use mercato_offload::forge::told::kept_of_service;
use mercato_offload::placement::export::Listed;
use serde_json::json;

use super::*;

struct Bed {
    reflected: Reflected,
    inputs: mpsc::Receiver<Input>,
    bodies: Bodies,
    ranges: watch::Sender<Vec<MappedRange>>,
    leads: Leads,
}

/// Home's pods are known by addresses that begin with 100.64.
fn bed() -> Bed {
    let (inputs, told) = mpsc::channel(8);
    let (tell, ranges) = watch::channel(known_as("100.64.0.0/16"));
    let bodies = Bodies::default();
    let left_out: LeftOut = Arc::new(|_, _| ());
    let notes: Notes = Arc::new(|service| kept_of_service(service, None, &|_| true));
    let leads = watch::Sender::default();
    let to = Reflection {
        bodies: bodies.clone(),
        inputs,
        ranges,
        leads: leads.clone(),
        notes,
        left_out,
    };
    let reflected = Reflected::new(to, "shop", Crossing::Whole);
    Bed { reflected, inputs: told, bodies, ranges: tell, leads }
}

fn known_as(inner: &str) -> Vec<MappedRange> {
    let local = "10.1.0.0/16".parse().unwrap();
    vec![MappedRange { inner: inner.parse().unwrap(), local }]
}

fn service(port: u16) -> (String, Value) {
    let web = json!({ "metadata": { "namespace": "shop", "name": "web" },
        "spec": { "clusterIP": "10.9.0.7", "ports": [{ "port": port }] } });
    ("web".to_owned(), web)
}

fn slice(name: &str, address: &str) -> (String, Value) {
    let slice = json!({ "addressType": "IPv4", "endpoints": [{ "addresses": [address] }],
        "ports": [{ "port": 80 }],
        "metadata": { "namespace": "shop", "name": name,
            "labels": { "kubernetes.io/service-name": "web" } } });
    (name.to_owned(), slice)
}

fn of_service() -> ObjectKey {
    key(ObjectKind::Service, "shop", "web")
}

fn of_slice(name: &str) -> ObjectKey {
    key(ObjectKind::EndpointSlice, "shop", name)
}

impl Bed {
    /// With this Service and this slice of it, which have been told of.
    async fn listed() -> (Self, BTreeMap<ObjectKey, Digest>) {
        let mut bed = bed();
        bed.reflected.on_services(&Change::Synced(vec![service(80)])).await;
        bed.reflected.on_slices(Change::Synced(vec![slice("web-1", "10.1.0.7")])).await;
        let all = bed.all();
        (bed, all)
    }

    /// What is told next: all that there is.
    fn all(&mut self) -> BTreeMap<ObjectKey, Digest> {
        let Ok(Input::Services { namespace, objects }) = self.inputs.try_recv() else {
            panic!("no list was told");
        };
        assert_eq!(namespace, "shop");
        objects
    }

    /// What is told next: a change of one, with its body.
    fn one(&mut self) -> (ObjectKey, Option<Value>) {
        let Ok(Input::Object { key, digest }) = self.inputs.try_recv() else {
            panic!("no change was told");
        };
        (key, digest.map(|digest| self.bodies.object(&digest).here().unwrap()))
    }

    fn tells_nothing(&mut self) {
        assert_eq!(self.inputs.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }

    fn keeps(&self, key: ObjectKey) -> bool {
        self.bodies.has_one_of(&Item::Object(key))
    }
}

#[tokio::test]
async fn nothing_is_told_before_both_lists_have_come() {
    let mut bed = bed();
    bed.reflected.on_services(&Change::Synced(vec![service(80)])).await;
    bed.tells_nothing();
    bed.reflected.on_services(&Change::Changed(service(81))).await;
    bed.tells_nothing();
    bed.reflected.on_slices(Change::Synced(vec![slice("web-1", "10.1.0.7")])).await;
    let all = bed.all();
    assert_eq!(all.keys().collect::<Vec<_>>(), [&of_service(), &of_slice("web-1")]);
    let told = |key| bed.bodies.object(&all[&key]).here().unwrap();
    assert_eq!(told(of_service())["spec"]["ports"][0]["port"], 81, "as it is by then");
    let address = &told(of_slice("web-1"))["endpoints"][0]["addresses"][0];
    assert_eq!(address, "100.64.0.7", "as guests know it");
    bed.tells_nothing();
}

#[tokio::test]
async fn a_list_that_comes_again_tells_what_is_gone() {
    let (mut bed, before) = Bed::listed().await;
    let now = vec![slice("web-1", "10.1.0.7"), slice("web-2", "10.1.0.8")];
    bed.reflected.on_slices(Change::Synced(now)).await;
    let all = bed.all();
    assert_eq!(all.len(), 3);
    assert!(before.iter().all(|(key, digest)| all[key] == *digest));
    bed.reflected.on_slices(Change::Synced(vec![slice("web-2", "10.1.0.8")])).await;
    let all = bed.all();
    assert_eq!(all.keys().collect::<Vec<_>>(), [&of_service(), &of_slice("web-2")]);
    assert!(!bed.keeps(of_slice("web-1")) && bed.keeps(of_slice("web-2")));
    // One that is gone is not told of by another address either.
    bed.ranges.send_replace(known_as("100.65.0.0/16"));
    bed.reflected.on_ranges().await;
    assert_eq!(bed.one().0, of_slice("web-2"));
    bed.tells_nothing();
}

#[tokio::test]
async fn a_change_is_told_once_and_only_if_something_else_would_be_sent() {
    let (mut bed, _) = Bed::listed().await;
    let mut same = service(80);
    same.1["spec"]["selector"] = json!({ "app": "web" });
    bed.reflected.on_services(&Change::Changed(same)).await;
    bed.tells_nothing();
    bed.reflected.on_services(&Change::Changed(service(81))).await;
    let (key, sent) = bed.one();
    assert_eq!((key, &sent.unwrap()["spec"]["ports"][0]["port"]), (of_service(), &json!(81)));
    let mut name = service(81);
    name.1["spec"]["type"] = json!("ExternalName");
    bed.reflected.on_services(&Change::Changed(name)).await;
    assert_eq!(bed.one(), (of_service(), None), "what is not sent any more is gone");
    bed.reflected.on_services(&Change::Deleted(service(81))).await;
    bed.tells_nothing();
    bed.reflected.on_slices(Change::Deleted(slice("web-1", "10.1.0.7"))).await;
    assert_eq!(bed.one(), (of_slice("web-1"), None));
    assert!(!bed.keeps(of_service()) && !bed.keeps(of_slice("web-1")));
}

#[tokio::test]
async fn by_other_ranges_slices_are_told_anew_and_services_are_not() {
    let (mut bed, _) = Bed::listed().await;
    bed.ranges.send_replace(known_as("100.65.0.0/16"));
    bed.reflected.on_ranges().await;
    let (key, sent) = bed.one();
    assert_eq!(key, of_slice("web-1"));
    assert_eq!(sent.unwrap()["endpoints"][0]["addresses"][0], "100.65.0.7");
    bed.tells_nothing();
    bed.reflected.on_ranges().await;
    bed.tells_nothing();
    bed.ranges.send_replace(Vec::new());
    bed.reflected.on_ranges().await;
    let (_, sent) = bed.one();
    assert_eq!(sent.unwrap()["endpoints"], json!([]), "there, and by no address");
}

#[tokio::test]
async fn an_owner_is_told_once_what_is_left_out() {
    let (mut bed, _) = Bed::listed().await;
    let seen: Arc<Mutex<Vec<ObjectKey>>> = Arc::default();
    let told = seen.clone();
    bed.reflected.to.left_out = Arc::new(move |key, _| told.lock().unwrap().push(key));
    let mut looks = |slice: (String, Value), times: usize| {
        bed.reflected.slices.insert(slice.0, slice.1);
        (0..times).for_each(|_| bed.reflected.look_for_left_out(&BTreeMap::new()));
        seen.lock().unwrap().drain(..).collect::<Vec<_>>()
    };
    assert_eq!(looks(slice("web-1", "10.1.0.7"), 3), []);
    assert_eq!(looks(slice("web-2", "192.0.2.7"), 1), [], "it may be known in a moment");
    assert_eq!(looks(slice("web-2", "192.0.2.8"), 3), [of_service()]);
    assert_eq!(looks(slice("web-3", "192.0.2.9"), 3), [of_service()], "one more");
    let gone = [slice("web-2", "10.1.0.8"), slice("web-3", "10.1.0.9")];
    assert!(gone.into_iter().all(|known| looks(known, 1).is_empty()));
    assert_eq!(looks(slice("web-2", "192.0.2.7"), 2), [of_service()], "again");
    // Without a tunnel nothing is over there of which something could be left out.
    bed.ranges.send_replace(Vec::new());
    bed.reflected.left_out.clear();
    (0..3).for_each(|_| bed.reflected.look_for_left_out(&BTreeMap::new()));
    assert_eq!(*seen.lock().unwrap(), []);
}

#[tokio::test]
async fn what_guests_do_not_have_of_a_service_is_told_once() {
    let (mut bed, _) = Bed::listed().await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = seen.clone();
    bed.reflected.to.left_out = Arc::new(move |key, notes| {
        let mut told = told.lock().unwrap();
        told.extend(notes.into_iter().map(|note| format!("{} {}", key.name, note.field)));
    });
    let (name, mut web) = service(80);
    let mut looks = |web: &Value| {
        let all = BTreeMap::from([(name.clone(), web.clone())]);
        (0..2).for_each(|_| bed.reflected.look_for_left_out(&all));
        seen.lock().unwrap().drain(..).collect::<Vec<_>>()
    };
    assert_eq!(looks(&web), [""; 0]);
    web["spec"]["externalIPs"] = json!(["192.0.2.1"]);
    assert_eq!(looks(&web), ["web spec.externalIPs"]);
    web["spec"]["ports"][0]["protocol"] = json!("SCTP");
    assert_eq!(looks(&web), ["web spec.ports[0].protocol"], "what is known is not told again");
}

#[tokio::test]
async fn with_its_end_an_empty_list_is_told_and_bodies_are_forgotten() {
    let (bed, _) = Bed::listed().await;
    let Bed { reflected, mut inputs, bodies, .. } = bed;
    let all = [of_service(), of_slice("web-1")].map(Item::Object);
    assert!(all.iter().all(|item| bodies.has_one_of(item)));
    reflected.end().await;
    let objects = BTreeMap::new();
    let told = inputs.try_recv();
    assert_eq!(told, Ok(Input::Services { namespace: "shop".to_owned(), objects }));
    assert!(!all.iter().any(|item| bodies.has_one_of(item)));
    // The same where nobody is left to be told.
    let (Bed { reflected, bodies, .. }, _) = Bed::listed().await;
    drop(reflected);
    assert!(!all.iter().any(|item| bodies.has_one_of(item)));
}

#[tokio::test]
async fn of_an_open_namespace_named_services_are_told_and_where_they_lead() {
    let (mut bed, all) = Bed::listed().await;
    let services = BTreeMap::from([service(80)]);
    assert!(bed.leads.borrow().is_empty(), "its guests call all of its pods");
    let open =
        |names: &[&str]| Crossing::Open(Listed::new(names.iter().map(|name| (*name).to_owned())));
    bed.reflected.on_crossing(open(&["other"]), &services).await;
    assert_eq!(bed.all(), BTreeMap::new());
    assert!(bed.leads.borrow().is_empty());
    bed.reflected.on_crossing(open(&["web"]), &services).await;
    assert_eq!(bed.all(), all);
    let leads = |bed: &Bed| -> Vec<String> {
        let leads = bed.leads.borrow();
        leads.get("shop").into_iter().flat_map(|all| all.keys()).map(ToString::to_string).collect()
    };
    assert_eq!(leads(&bed), ["10.1.0.7"]);
    bed.reflected.on_slices(Change::Changed(slice("web-1", "10.1.0.8"))).await;
    assert_eq!(leads(&bed), ["10.1.0.8"]);
    let leads = bed.leads.clone();
    drop(bed);
    assert!(leads.borrow().is_empty());
}
