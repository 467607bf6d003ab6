//! The Services of a namespace that pods leave, and where their pods are, as the session of a
//! lease hears of them: whole once both are known, and then each change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_offload::address::MappedRange;
use mercato_offload::forge::{Refusal, SERVICE_NAME, export_service, export_slice};
use mercato_offload::home::Input;
use mercato_offload::key::{Item, ObjectKey, ObjectKind, key};
use mercato_protocol::id::Digest;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::bodies::Bodies;
use crate::watch::Change;

/// What becomes of endpoints that guests do not know, after how many there are.
const LEFT_OUT: &str = "left out over there: guests reach pods of this cluster's pod network, and \
    guests of the same provider";

/// By which ranges the guests of a lease know pods: home's, and each other.
pub(super) type Ranges = watch::Receiver<Vec<MappedRange>>;

/// The way to the session of a lease.
#[derive(Clone)]
pub(super) struct Reflection {
    pub(super) bodies: Bodies,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) ranges: Ranges,
    /// Tells the owner of a Service what guests do not know of it.
    pub(super) left_out: LeftOut,
}

/// Takes a Service, and what is left out of it.
pub(super) type LeftOut = Arc<dyn Fn(ObjectKey, Refusal) + Send + Sync>;

/// What the session knows of one namespace.
pub(super) struct Reflected {
    to: Reflection,
    namespace: String,
    /// Of what would be sent.
    told: BTreeMap<ObjectKey, Digest>,
    /// As they are at home: with other ranges something else is sent. Bounded as what an API server
    /// holds of a namespace.
    slices: BTreeMap<String, Value>,
    /// Services of which guests do not know all endpoints, as it was looked at last.
    left_out: BTreeMap<String, Missed>,
    /// Whether the first list of each kind has come.
    listed: BTreeMap<ObjectKind, bool>,
}

/// So many endpoints of a Service are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missed {
    endpoints: usize,
    is_told: bool,
}

impl Reflected {
    pub(super) fn new(to: Reflection, namespace: &str) -> Self {
        let listed = [ObjectKind::Service, ObjectKind::EndpointSlice].map(|kind| (kind, false));
        Self {
            to,
            namespace: namespace.to_owned(),
            told: BTreeMap::new(),
            slices: BTreeMap::new(),
            left_out: BTreeMap::new(),
            listed: listed.into(),
        }
    }

    /// This became of Services of the namespace.
    pub(super) async fn on_services(&mut self, change: &Change<(String, Value)>) {
        let sent = |(name, service): &(String, Value)| (name.clone(), export_service(service));
        match change {
            Change::Synced(all) => {
                let all = all.iter().map(sent).collect();
                self.list(ObjectKind::Service, all).await;
            }
            Change::Changed(one) => {
                let (name, sent) = sent(one);
                self.tell(ObjectKind::Service, &name, sent).await;
            }
            Change::Deleted((name, _)) => self.tell(ObjectKind::Service, name, None).await,
        }
    }

    /// This became of slices of their endpoints.
    pub(super) async fn on_slices(&mut self, change: Change<(String, Value)>) {
        match change {
            Change::Synced(all) => {
                self.slices = all.into_iter().collect();
                let all = self.slices.iter().map(|(name, slice)| (name.clone(), self.sent(slice)));
                let all = all.collect();
                self.list(ObjectKind::EndpointSlice, all).await;
            }
            Change::Changed((name, slice)) => {
                let sent = self.sent(&slice);
                self.slices.insert(name.clone(), slice);
                self.tell(ObjectKind::EndpointSlice, &name, sent).await;
            }
            Change::Deleted((name, _)) => {
                self.slices.remove(&name);
                self.tell(ObjectKind::EndpointSlice, &name, None).await;
            }
        }
    }

    /// Guests know pods by other ranges now.
    pub(super) async fn on_ranges(&mut self) {
        let all: Vec<_> =
            self.slices.iter().map(|(name, slice)| (name.clone(), self.sent(slice))).collect();
        for (name, sent) in all {
            self.tell(ObjectKind::EndpointSlice, &name, sent).await;
        }
    }

    /// Nothing of the namespace is followed any more.
    pub(super) async fn end(self) {
        let namespace = self.namespace.clone();
        self.say(Input::Services { namespace, objects: BTreeMap::new() }).await;
    }

    fn sent(&self, slice: &Value) -> Option<Value> {
        export_slice(slice, &self.to.ranges.borrow()).map(|slice| slice.sent)
    }

    /// Tells owners how many endpoints guests do not know, where that was so the last time, too: a
    /// range that is new is known a moment later.
    pub(super) fn look_for_left_out(&mut self) {
        let mut now: BTreeMap<String, usize> = BTreeMap::new();
        for slice in self.slices.values() {
            let sent = export_slice(slice, &self.to.ranges.borrow());
            let left_out = sent.map_or(0, |sent| sent.left_out);
            let service = slice["metadata"]["labels"][SERVICE_NAME].as_str().unwrap_or_default();
            if left_out > 0 {
                *now.entry(service.to_owned()).or_default() += left_out;
            }
        }
        let before = std::mem::take(&mut self.left_out);
        for (service, endpoints) in now {
            let known = before.get(&service).filter(|known| known.endpoints == endpoints);
            if known.is_some_and(|known| !known.is_told) {
                let key = key(ObjectKind::Service, &self.namespace, &service);
                let reason = format!("{endpoints} {LEFT_OUT}");
                (self.to.left_out)(key, Refusal { path: "endpoints".to_owned(), reason });
            }
            self.left_out.insert(service, Missed { endpoints, is_told: known.is_some() });
        }
    }

    /// These are all of a kind.
    async fn list(&mut self, kind: ObjectKind, all: Vec<(String, Option<Value>)>) {
        let before: Vec<_> = self.told.keys().filter(|key| key.kind == kind).cloned().collect();
        let mut now = BTreeSet::new();
        for (name, sent) in all {
            let key = key(kind, &self.namespace, &name);
            self.keep(&key, sent);
            now.insert(key);
        }
        for gone in before.iter().filter(|key| !now.contains(*key)) {
            self.keep(gone, None);
        }
        self.listed.insert(kind, true);
        if self.is_listed() {
            let objects = self.told.iter().map(|(key, digest)| (key.clone(), *digest)).collect();
            self.say(Input::Services { namespace: self.namespace.clone(), objects }).await;
        }
    }

    async fn tell(&mut self, kind: ObjectKind, name: &str, sent: Option<Value>) {
        let key = key(kind, &self.namespace, name);
        if self.keep(&key, sent) && self.is_listed() {
            let digest = self.told.get(&key).copied();
            self.say(Input::Object { key, digest }).await;
        }
    }

    fn is_listed(&self) -> bool {
        self.listed.values().all(|listed| *listed)
    }

    /// Keeps what would be sent. Whether it is something else than before.
    fn keep(&mut self, key: &ObjectKey, sent: Option<Value>) -> bool {
        let item = Item::Object(key.clone());
        let kept = sent.map(|sent| self.to.bodies.keep(&item, &sent));
        let digest = match kept {
            Some(Ok(digest)) => Some(digest),
            Some(Err(error)) => {
                // Once for each content of it.
                tracing::warn!(%error, %key, "an object cannot cross");
                None
            }
            None => None,
        };
        let before = match digest {
            Some(digest) => self.told.insert(key.clone(), digest),
            None => self.told.remove(key),
        };
        if digest.is_none() && before.is_some() {
            self.to.bodies.forget(&item);
        }
        before != digest
    }

    /// Waits where the session is behind. An error means that it has gone, and this side with it.
    async fn say(&self, input: Input) {
        let _ = self.to.inputs.send(input).await;
    }
}

impl Drop for Reflected {
    fn drop(&mut self) {
        for key in self.told.keys() {
            self.to.bodies.forget(&Item::Object(key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    struct Bed {
        reflected: Reflected,
        inputs: mpsc::Receiver<Input>,
        bodies: Bodies,
        ranges: watch::Sender<Vec<MappedRange>>,
    }

    /// Home's pods are known by addresses that begin with 100.64.
    fn bed() -> Bed {
        let (inputs, told) = mpsc::channel(8);
        let (tell, ranges) = watch::channel(known_as("100.64.0.0/16"));
        let bodies = Bodies::default();
        let left_out: LeftOut = Arc::new(|_, _| ());
        let to = Reflection { bodies: bodies.clone(), inputs, ranges, left_out };
        Bed { reflected: Reflected::new(to, "shop"), inputs: told, bodies, ranges: tell }
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
            (key, digest.map(|digest| self.bodies.object(&digest).unwrap()))
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
        let told = |key| bed.bodies.object(&all[&key]).unwrap();
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
            (0..times).for_each(|_| bed.reflected.look_for_left_out());
            seen.lock().unwrap().drain(..).collect::<Vec<_>>()
        };
        assert_eq!(looks(slice("web-1", "10.1.0.7"), 3), []);
        assert_eq!(looks(slice("web-2", "192.0.2.7"), 1), [], "it may be known in a moment");
        assert_eq!(looks(slice("web-2", "192.0.2.8"), 3), [of_service()]);
        assert_eq!(looks(slice("web-3", "192.0.2.9"), 3), [of_service()], "one more");
        let gone = [slice("web-2", "10.1.0.8"), slice("web-3", "10.1.0.9")];
        assert!(gone.into_iter().all(|known| looks(known, 1).is_empty()));
        assert_eq!(looks(slice("web-2", "192.0.2.7"), 2), [of_service()], "again");
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
}
