//! The Services of namespaces that pods leave, and where their pods are: all of a namespace's first,
//! then each change.

use std::collections::BTreeMap;

use mercato_offload::address::MappedRange;
use mercato_offload::body::Way;
use mercato_offload::home::Input;
use mercato_offload::key::{Item, ObjectKey, ObjectKind, key};
use mercato_offload::placement::export::Crossing;
use mercato_protocol::id::Digest;

use super::Bodies;
use crate::Cluster;

/// The kinds that are followed, as the model calls them.
const KINDS: [(&str, ObjectKind); 2] =
    [("Service", ObjectKind::Service), ("EndpointSlice", ObjectKind::EndpointSlice)];

/// What the session of a lease knows of them.
#[derive(Debug, Default)]
pub(super) struct Reflected {
    /// By which ranges guests know pods: home's, and each other.
    ranges: Vec<MappedRange>,
    /// What would be sent, by namespace.
    told: BTreeMap<String, BTreeMap<ObjectKey, Digest>>,
    /// How much of each namespace crosses.
    crossings: BTreeMap<String, Crossing>,
    /// Of the cluster, as it was looked at last.
    version: Option<u64>,
    /// What is sent may differ, though no object does.
    again: bool,
    /// The watches break: the next word of a namespace is a whole list.
    relists: bool,
}

impl Reflected {
    pub(super) fn set_ranges(&mut self, ranges: Vec<MappedRange>) {
        self.again |= self.ranges != ranges;
        self.ranges = ranges;
    }

    pub(super) fn relist(&mut self) {
        self.relists = true;
    }

    /// What there is to tell, where so much of these namespaces crosses.
    pub(super) fn news(
        &mut self,
        cluster: &Cluster,
        bodies: &mut dyn Bodies,
        crossings: BTreeMap<String, Crossing>,
    ) -> Vec<Input> {
        let is_quiet = self.is_quiet(cluster) && self.crossings == crossings;
        let again = std::mem::take(&mut self.again);
        let relists = std::mem::take(&mut self.relists);
        self.version = Some(cluster.version());
        if is_quiet && !again && !relists {
            return Vec::new();
        }
        let mut news = Vec::new();
        let mut before = std::mem::take(&mut self.told);
        for (namespace, crossing) in &crossings {
            let now = self.all(cluster, bodies, namespace, crossing);
            match before.remove(namespace).filter(|_| !relists) {
                Some(before) => news.extend(changes(&before, &now)),
                None => {
                    let (namespace, objects) = (namespace.clone(), now.clone());
                    news.push(Input::Services { namespace, objects });
                }
            }
            self.told.insert(namespace.clone(), now);
        }
        self.crossings = crossings;
        let left = before.into_keys();
        news.extend(left.map(|namespace| Input::Services { namespace, objects: BTreeMap::new() }));
        news
    }

    /// Whether nothing has changed since the last look.
    fn is_quiet(&self, cluster: &Cluster) -> bool {
        self.version.is_some_and(|version| {
            KINDS.iter().all(|(kind, _)| {
                let touched = cluster.touched_since(kind, version);
                touched.is_ok_and(|mut touched| touched.next().is_none())
            })
        })
    }

    /// All that would be sent of a namespace.
    fn all(
        &self,
        cluster: &Cluster,
        bodies: &mut dyn Bodies,
        namespace: &str,
        crossing: &Crossing,
    ) -> BTreeMap<ObjectKey, Digest> {
        let mut all = BTreeMap::new();
        for (name, kind) in KINDS {
            let of_it = cluster.objects(name).filter(|(place, _)| place.namespace == namespace);
            for (place, object) in of_it {
                let key = key(kind, namespace, &place.name);
                let sent = if kind == ObjectKind::Service {
                    crossing.service(object)
                } else {
                    crossing.slice(object, &self.ranges).map(|slice| slice.sent)
                };
                let digest = sent.and_then(|sent| {
                    bodies.keep(Way::ToGuest, &Item::Object(key.clone()), &sent).ok()
                });
                all.extend(digest.map(|digest| (key, digest)));
            }
        }
        all
    }
}

fn changes(before: &BTreeMap<ObjectKey, Digest>, now: &BTreeMap<ObjectKey, Digest>) -> Vec<Input> {
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let gone = gone.map(|key| Input::Object { key: key.clone(), digest: None });
    let changed = now.iter().filter(|(key, digest)| before.get(*key) != Some(*digest));
    let changed =
        changed.map(|(key, digest)| Input::Object { key: key.clone(), digest: Some(*digest) });
    gone.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use mercato_offload::body::Found;
    use mercato_offload::forge::{Refusal, digest};
    use mercato_protocol::time::Now;
    use serde_json::{Value, json};

    use super::*;
    use crate::Key;

    #[derive(Default)]
    struct Kept(BTreeMap<Digest, Value>);

    impl Bodies for Kept {
        fn keep(&mut self, _: Way, _: &Item, body: &Value) -> Result<Digest, Refusal> {
            self.0.insert(digest(body), body.clone());
            Ok(digest(body))
        }

        fn get(&self, digest: &Digest) -> Found<Value> {
            self.0.get(digest).cloned().map_or(Found::Missing, Found::Here)
        }
    }

    #[test]
    fn a_namespace_is_told_of_as_a_whole_and_then_by_each_change() {
        let now = Now { mono_ms: 0, wall_ms: 0 };
        let (mut cluster, mut kept) = (Cluster::new("rome"), Kept::default());
        let shop = json!({ "kind": "Namespace", "metadata": { "name": "shop" } });
        let web = json!({ "kind": "Service", "metadata": { "namespace": "shop", "name": "web" },
            "spec": { "ports": [{ "port": 80 }] } });
        let slice = json!({ "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": { "namespace": "shop", "name": "web-1",
                "labels": { "kubernetes.io/service-name": "web" } },
            "endpoints": [{ "addresses": ["10.42.0.7"] }] });
        for object in [shop, web, slice] {
            cluster.create(now, object).unwrap();
        }
        let mut reflected = Reflected::default();
        let shop = || BTreeMap::from([("shop".to_owned(), Crossing::Whole)]);
        let told = reflected.news(&cluster, &mut kept, shop());
        let [Input::Services { objects, .. }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(objects.len(), 2);
        assert_eq!(reflected.news(&cluster, &mut kept, shop()), []);
        let (inner, local) = ("10.203.5.0/24".parse().unwrap(), "10.42.0.0/24".parse().unwrap());
        reflected.set_ranges(vec![MappedRange { inner, local }]);
        let told = reflected.news(&cluster, &mut kept, shop());
        let [Input::Object { digest: Some(digest), .. }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(kept.0[digest]["endpoints"][0]["addresses"][0], "10.203.5.7");
        cluster.delete(now, &Key::new("EndpointSlice", "shop", "web-1"), None, None).unwrap();
        let told = reflected.news(&cluster, &mut kept, shop());
        assert!(matches!(told[..], [Input::Object { digest: None, .. }]), "{told:?}");
        reflected.relist();
        let told = reflected.news(&cluster, &mut kept, shop());
        let [Input::Services { objects, .. }] = &told[..] else { panic!("{told:?}") };
        assert_eq!(objects.len(), 1);
        let (namespace, objects) = ("shop".to_owned(), BTreeMap::new());
        let told = reflected.news(&cluster, &mut kept, BTreeMap::new());
        assert_eq!(told, [Input::Services { namespace, objects }]);
    }
}
