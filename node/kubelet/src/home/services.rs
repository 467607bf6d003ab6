//! The services of the namespaces that pods leave, followed as a kubelet follows them, so
//! that no pod waits for a request of its own; with their endpoints, for guests to reach.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use mercato_offload::forge::ServiceEnv;
use mercato_offload::placement::export::Crossing;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::environments::{Environment, Environments};
use super::reflected::{Reflected, Reflection};
use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::{ENDPOINT_SLICE, SERVICE};
use crate::apiserver::life::Life;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits;
use crate::pace::{Backoff, every};
use crate::repeated::Repeated;
use crate::warn_once;

type Told = watch::Sender<Option<Environment>>;

/// What pods of a namespace are told of its services. Ends when dropped.
pub(super) struct Services {
    cluster: Cluster,
    reflection: Reflection,
    environments: Arc<Environments>,
    /// By namespace; bounded by those of the node's pods, and those that are open to it.
    followed: BTreeMap<String, Followed>,
}

/// The services of a namespace, followed until this is dropped or the namespace's life is over.
struct Followed {
    life: Life,
    /// A pod had to start without.
    missed: bool,
    crossing: watch::Sender<Crossing>,
    known: watch::Receiver<Option<Environment>>,
    _following: AbortOnDropHandle<()>,
}

impl Services {
    pub(super) fn new(
        cluster: Cluster,
        reflection: Reflection,
        environments: Arc<Environments>,
    ) -> Self {
        Self { cluster, reflection, environments, followed: BTreeMap::new() }
    }

    /// So much of a namespace crosses from now on. It is followed from then on, if it was not.
    pub(super) fn cross(&mut self, life: &Life, crossing: Crossing) {
        let namespace = life.namespace();
        if let Some(followed) = self.followed.get(namespace).filter(|it| it.life == *life) {
            followed.crossing.send_if_modified(|before| {
                let differs = *before != crossing;
                *before = crossing;
                differs
            });
            return;
        }
        let (cluster, reflection) = (self.cluster.clone(), self.reflection.clone());
        let environments = self.environments.clone();
        let followed = Followed::start(cluster, reflection, environments, life.clone(), crossing);
        self.followed.insert(namespace.to_owned(), followed);
    }

    /// The namespaces that are followed.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &String> {
        self.followed.keys()
    }

    /// Waits for the services of a namespace that pods leave, if they are not known yet.
    /// So much of one crosses that is not followed yet.
    pub(super) async fn environment(&mut self, life: &Life, crossing: Crossing) -> Environment {
        let namespace = life.namespace();
        if self.followed.get(namespace).is_none_or(|followed| followed.life != *life) {
            self.cross(life, crossing);
        }
        let Some(followed) = self.followed.get_mut(namespace) else {
            return Environment::default();
        };
        let known = followed.known.wait_for(Option::is_some);
        match tokio::time::timeout(limits::SERVICES_WAIT, known).await {
            Ok(Ok(environment)) => environment.clone().unwrap_or_default(),
            Ok(Err(_)) if life.is_over() => Environment::default(),
            Ok(Err(_)) | Err(_) => {
                if !std::mem::replace(&mut followed.missed, true) {
                    // Once for a namespace.
                    tracing::warn!(
                        namespace,
                        "services unknown: pods start without their variables"
                    );
                }
                Environment::default()
            }
        }
    }

    /// No pod of that namespace is on the node any more. Whether its services were followed.
    pub(super) fn forget(&mut self, namespace: &str) -> bool {
        self.environments.forget(namespace);
        self.followed.remove(namespace).is_some()
    }
}

impl Followed {
    fn start(
        cluster: Cluster,
        reflection: Reflection,
        environments: Arc<Environments>,
        life: Life,
        crossing: Crossing,
    ) -> Self {
        let (told, known) = watch::channel(None);
        let (crossing, crosses) = watch::channel(crossing);
        let following = follow(cluster, reflection, crosses, environments, life.clone(), told);
        let following = AbortOnDropHandle::new(tokio::spawn(following));
        Self { life, missed: false, crossing, known, _following: following }
    }
}

fn follow(
    cluster: Cluster,
    reflection: Reflection,
    mut crosses: watch::Receiver<Crossing>,
    environments: Arc<Environments>,
    life: Life,
    told: Told,
) -> BoxFuture<'static, ()> {
    async move {
        let api = api_server(&cluster).await;
        let (mut services, mut ranges) = (BTreeMap::new(), reflection.ranges.clone());
        let crossing = crosses.borrow_and_update().clone();
        let mut reflected = Reflected::new(reflection, life.namespace(), crossing);
        let all = |kind| changes(&cluster, kind, Selection::within(&life), named);
        let (mut of_services, mut of_slices) = (all(SERVICE), all(ENDPOINT_SLICE));
        let mut look = every(limits::LEFT_OUT_LOOK);
        loop {
            tokio::select! {
                biased;
                Ok(()) = crosses.changed() => {
                    let crossing = crosses.borrow_and_update().clone();
                    reflected.on_crossing(crossing, &services).await;
                }
                change = of_services.next() => {
                    let Some(change) = change else { break };
                    reflected.on_services(&change).await;
                    match change {
                        Change::Synced(all) => services = all.into_iter().collect(),
                        Change::Changed((name, service)) => drop(services.insert(name, service)),
                        Change::Deleted((name, _)) => drop(services.remove(&name)),
                    }
                    let known = Arc::new(ServiceEnv::of(services.values(), api.as_ref()));
                    environments.set(life.namespace(), &known).await;
                    told.send_replace(Some(known));
                }
                change = of_slices.next() => {
                    let Some(change) = change else { break };
                    reflected.on_slices(change).await;
                }
                _ = look.tick() => reflected.look_for_left_out(&services),
                // An error means that all of this side ends.
                Ok(()) = ranges.changed() => reflected.on_ranges().await,
            }
        }
        reflected.end().await;
    }
    .boxed()
}

fn named(object: Value) -> (String, Value) {
    (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), object)
}

/// The API server's own service, which stays as it is for the life of a cluster.
async fn api_server(cluster: &Cluster) -> Option<Value> {
    let mut repeated = Repeated::default();
    let mut backoff = Backoff::new(limits::CONFIRM_RETRY, limits::CONFIRM_RETRY_MAX);
    loop {
        match cluster.get(SERVICE, Some("default"), "kubernetes").await {
            Ok(service) => return service,
            Err(failure) => {
                warn_once!(repeated, failure; "the API server's own service is unknown");
            }
        }
        backoff.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::home::Input;
    use mercato_offload::key::Item;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::super::reflected::Ranges;
    use super::*;
    use crate::apiserver::life::Lives;
    use crate::bodies::Bodies;
    use crate::testing::{scripted, status, until};

    fn reflection(bodies: Bodies, inputs: mpsc::Sender<Input>, ranges: Ranges) -> Reflection {
        let (notes, left_out) = (Arc::new(|_: &Value| Vec::new()), Arc::new(|_, _| ()));
        Reflection { bodies, inputs, ranges, leads: watch::Sender::default(), notes, left_out }
    }

    #[tokio::test]
    async fn services_are_followed_as_long_as_their_namespace_lives_and_pods_are_in_it() {
        let cluster = scripted(|_, path, _| match path {
            _ if path.contains("watch=") => status(403, "services is forbidden"),
            _ if path.contains("/services?") => {
                (200, json!({ "metadata": { "resourceVersion": "9" }, "items": [] }))
            }
            _ => status(404, "not found"),
        });
        let mut lives = Lives::default();
        lives.set([("shop".to_owned(), 1), ("web".to_owned(), 1)]);
        let [shop, web] = ["shop", "web"].map(|name| lives.get(name).unwrap().clone());
        let (inputs, _told) = mpsc::channel(8);
        let (_tell, ranges) = watch::channel(Vec::new());
        let reflection = reflection(Bodies::default(), inputs, ranges);
        let environments =
            Arc::new(Environments::new(reflection.bodies.clone(), reflection.inputs.clone()));
        let mut services = Services::new(cluster, reflection, environments);
        services.environment(&shop, Crossing::Whole).await;
        services.environment(&web, Crossing::Whole).await;
        lives.set([("web".to_owned(), 1)]);
        let ends = || services.followed["shop"]._following.is_finished();
        until("nothing of shop is followed any more", ends).await;
        // Nothing is waited for any more.
        assert!(services.environment(&shop, Crossing::Whole).await.is_empty());
        assert!(!services.followed["web"]._following.is_finished());
        services.forget("web");
        services.forget("shop");
        assert!(services.followed.is_empty());
    }

    #[tokio::test]
    async fn a_namespace_whose_life_ends_has_no_services_any_more() {
        let cluster = scripted(|_, path, _| {
            let of = |object: Value| {
                (200, json!({ "metadata": { "resourceVersion": "9" }, "items": [object] }))
            };
            match path {
                _ if path.contains("watch=") => status(503, "not watched in this test"),
                _ if path.contains("/services?") => of(json!({ "metadata": { "name": "web" },
                    "spec": { "ports": [{ "port": 80 }] } })),
                _ if path.contains("/endpointslices?") => of(json!({ "addressType": "IPv4",
                    "metadata": { "name": "web-1",
                        "labels": { "kubernetes.io/service-name": "web" } } })),
                _ => status(404, "not found"),
            }
        });
        let mut lives = Lives::default();
        lives.set([("shop".to_owned(), 1)]);
        let life = lives.get("shop").unwrap().clone();
        let (inputs, mut told) = mpsc::channel(8);
        let (_tell, ranges) = watch::channel(Vec::new());
        let bodies = Bodies::default();
        let reflection = reflection(bodies.clone(), inputs, ranges);
        let environments =
            Arc::new(Environments::new(reflection.bodies.clone(), reflection.inputs.clone()));
        let mut services = Services::new(cluster, reflection, environments);
        services.environment(&life, Crossing::Whole).await;
        let all = told.recv().await;
        let Some(Input::Services { objects, .. }) = all else { panic!("{all:?}") };
        let items: Vec<_> = objects.into_keys().map(Item::Object).collect();
        assert_eq!(items.len(), 2);
        assert!(items.iter().all(|item| bodies.has_one_of(item)));
        lives.set([]);
        let (namespace, objects) = ("shop".to_owned(), BTreeMap::new());
        assert_eq!(told.recv().await, Some(Input::Services { namespace, objects }));
        let ends = || services.followed["shop"]._following.is_finished();
        until("nothing of shop is followed any more", ends).await;
        assert!(!items.iter().any(|item| bodies.has_one_of(item)));
    }
}
