//! The variables of Services that containers with `envFrom` have by a config map of ours: one for each
//! namespace and sort, as the Services of the namespace are now. A kubelet reads it each time that it
//! starts a container, as home's does with the Services themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mercato_offload::body::Way;
use mercato_offload::forge::{ServiceEnv, Variables};
use mercato_offload::home::Input;
use mercato_offload::key::{Item, ObjectKey, ObjectKind, key};
use mercato_offload::placement::export::refusal_text;
use tokio::sync::mpsc;

use crate::bodies::Bodies;

/// What pods of a namespace are started with.
pub(super) type Environment = Arc<ServiceEnv>;

/// By namespace, what its variables are, and which of them somebody needs as an object.
pub(super) struct Environments {
    bodies: Bodies,
    inputs: mpsc::Sender<Input>,
    /// Bounded by the namespaces of the node's pods.
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Default)]
struct Known {
    /// None: it is not known yet.
    environment: Option<Environment>,
    wanted: BTreeSet<Variables>,
}

impl Environments {
    pub(super) fn new(bodies: Bodies, inputs: mpsc::Sender<Input>) -> Self {
        Self { bodies, inputs, known: Mutex::default() }
    }

    /// Those of a namespace are these from now on: tells who needs them.
    pub(super) async fn set(&self, namespace: &str, environment: &Environment) {
        let wanted = {
            let mut known = self.lock();
            let known = known.entry(namespace.to_owned()).or_default();
            known.environment = Some(environment.clone());
            known.wanted.clone()
        };
        for which in wanted {
            self.tell(namespace, which, environment).await;
        }
    }

    /// Somebody needs the object of this name: it is told of now, if it is known, and when it changes.
    pub(super) async fn want(&self, namespace: &str, which: Variables) {
        let known = {
            let mut known = self.lock();
            let known = known.entry(namespace.to_owned()).or_default();
            known.wanted.insert(which);
            known.environment.clone()
        };
        if let Some(environment) = known {
            self.tell(namespace, which, &environment).await;
        }
    }

    /// Nobody needs it any more.
    pub(super) fn unwant(&self, object: &ObjectKey) {
        let Some(which) = of(object) else { return };
        let mut known = self.lock();
        let Some(of_namespace) = known.get_mut(&object.namespace) else { return };
        of_namespace.wanted.remove(&which);
        if of_namespace.wanted.is_empty() && of_namespace.environment.is_none() {
            known.remove(&object.namespace);
        }
    }

    /// The Services of the namespace are not followed any more.
    pub(super) fn forget(&self, namespace: &str) {
        let mut known = self.lock();
        if let Some(of_namespace) = known.get_mut(namespace) {
            of_namespace.environment = None;
            if of_namespace.wanted.is_empty() {
                known.remove(namespace);
            }
        }
    }

    async fn tell(&self, namespace: &str, which: Variables, environment: &ServiceEnv) {
        let key = key(ObjectKind::ConfigMap, namespace, which.object_name());
        let object = environment.object(namespace, which);
        match self.bodies.keep(Way::ToGuest, &Item::Object(key.clone()), &object) {
            // An error means that the driver has gone, and this side with it.
            Ok(digest) => drop(self.inputs.send(Input::Object { key, digest: Some(digest) }).await),
            Err(refusal) => {
                let why = refusal_text(&refusal);
                // Once for each change of the Services that is too large.
                tracing::warn!(%key, why, "variables of Services cannot cross: guests keep those of before");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which variables the object has; none: it is one of home's own.
pub(super) fn of(object: &ObjectKey) -> Option<Variables> {
    Variables::of_object(&object.name).filter(|_| object.kind == ObjectKind::ConfigMap)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WHICH: Variables = Variables { links: true, named: false };

    fn environment(address: &str) -> Environment {
        let web = json!({ "metadata": { "name": "web" },
            "spec": { "clusterIP": address, "ports": [{ "port": 80 }] } });
        Arc::new(ServiceEnv::of([&web], None))
    }

    #[tokio::test]
    async fn who_needs_variables_hears_of_them_once_they_are_known_and_as_they_change() {
        let (inputs, mut told) = mpsc::channel(8);
        let bodies = Bodies::default();
        let environments = Environments::new(bodies.clone(), inputs);
        let key = key(ObjectKind::ConfigMap, "shop", WHICH.object_name());
        assert_eq!(of(&key), Some(WHICH));

        environments.want("shop", WHICH).await;
        assert!(told.try_recv().is_err(), "they are not known yet");
        environments.set("shop", &environment("10.0.0.1")).await;
        let first = told.try_recv().unwrap();
        assert!(matches!(&first, Input::Object { key: of, digest: Some(_) } if *of == key));
        environments.set("shop", &environment("10.0.0.2")).await;
        assert_ne!(told.try_recv().unwrap(), first);

        environments.unwant(&key);
        environments.set("shop", &environment("10.0.0.1")).await;
        assert!(told.try_recv().is_err());
        environments.want("shop", WHICH).await;
        assert_eq!(told.try_recv().unwrap(), first);
        environments.unwant(&key);
        environments.forget("shop");
        assert!(environments.lock().is_empty());
    }
}
