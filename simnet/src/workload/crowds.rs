//! Pods that are as many as their owner wants by now, whichever they are: what Deployments keep. Home has
//! room for some of them; for the others capacity is bought by itself.

use mercato_cluster_model::sides::admit;
use mercato_cluster_model::{ApiError, Cluster, Key};
use mercato_offload::placement::export::{OptIn, Scope};
use mercato_protocol::time::Now;
use serde_json::{Value, json};

use super::objects::controlled;

const KIND: &str = "Deployment";
/// A label of home's own node, and of no virtual one.
pub(crate) const RACK: &str = "rack";

/// Of which pods it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crowd {
    /// Pods that ask for little.
    Web,
    /// Larger ones, of the same namespace.
    Batch,
    /// Those of a namespace of their own.
    Night,
    /// Those that the scheduler spreads over racks: it takes no virtual node for them, though there is room.
    Vain,
}

impl Crowd {
    /// All crowds that there are.
    pub(crate) const ALL: [Self; 4] = [Self::Web, Self::Batch, Self::Night, Self::Vain];

    fn namespace(self) -> &'static str {
        match self {
            Self::Web | Self::Batch => "shop",
            Self::Night => "night",
            Self::Vain => "vain",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Batch => "batch",
            Self::Night => "night",
            Self::Vain => "vain",
        }
    }

    fn cpu(self) -> &'static str {
        match self {
            Self::Web | Self::Vain => "500m",
            Self::Batch => "1500m",
            Self::Night => "700m",
        }
    }

    fn key(self) -> Key {
        Key::new(KIND, self.namespace(), self.name())
    }

    fn pod(self, number: u64) -> Value {
        let mut pod = json!({
            "kind": "Pod",
            "metadata": { "namespace": self.namespace(), "labels": { "app": self.name() },
                "name": format!("{}-{number}", self.name()), "ownerReferences": controlled() },
            "spec": {
                "restartPolicy": "Always",
                "containers": [{ "name": "web", "image": "web:1",
                    "resources": { "requests": { "cpu": self.cpu(), "memory": "256Mi" } } }],
            },
        });
        if self == Self::Vain {
            pod["spec"]["topologySpreadConstraints"] = json!([{ "maxSkew": 1, "topologyKey": RACK,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": { "app": self.name() } } }]);
        }
        pod
    }
}

/// Lets capacity be bought by itself for the pods of all crowds.
///
/// # Errors
/// Those of [`Cluster::apply`].
pub(super) fn invite(kube: &mut Cluster, now: Now) -> Result<(), ApiError> {
    let how = OptIn { burst: true, ..OptIn::default() };
    for crowd in Crowd::ALL {
        let mut metadata = how.marks();
        metadata["name"] = crowd.namespace().into();
        kube.apply(now, json!({ "kind": "Namespace", "metadata": metadata }))?;
    }
    Ok(())
}

/// There are to be so many of them.
///
/// # Errors
/// Those of [`Cluster::apply`].
pub(super) fn scale(
    kube: &mut Cluster,
    now: Now,
    crowd: Crowd,
    count: u64,
) -> Result<(), ApiError> {
    let Key { kind, namespace, name } = crowd.key();
    let metadata = json!({ "namespace": namespace, "name": name });
    let object = json!({ "kind": kind, "metadata": metadata, "spec": { "replicas": count } });
    kube.apply(now, object).map(drop)
}

/// Makes as many pods of each crowd as there are to be, and removes those that are too many, or over; none
/// are to be any more where all go.
///
/// # Errors
/// Those of [`Cluster::create`] and [`Cluster::delete`].
pub(crate) fn follow_crowds(kube: &mut Cluster, now: Now, all_go: bool) -> Result<(), ApiError> {
    for crowd in Crowd::ALL {
        let Some(deployment) = kube.get(&crowd.key()) else { continue };
        let wanted = deployment["spec"]["replicas"].as_u64().filter(|_| !all_go).unwrap_or(0);
        let mut made = deployment["status"]["made"].as_u64().unwrap_or(0);
        let pods = kube.objects("Pod").filter(|(key, pod)| {
            key.namespace == crowd.namespace()
                && pod["metadata"]["labels"]["app"] == crowd.name()
                && pod["metadata"]["deletionTimestamp"].is_null()
        });
        let is_over = |pod: &Value| pod["status"]["phase"] == "Failed";
        let (over, live): (Vec<_>, Vec<_>) = pods.partition(|(_, pod)| is_over(pod));
        let over: Vec<Key> = over.into_iter().map(|(key, _)| key.clone()).collect();
        // Those that wait go first, and then the youngest.
        let place = |(key, pod): &(&Key, &Value)| {
            (pod["spec"]["nodeName"].is_null(), key.name.len(), key.name.clone())
        };
        let mut live: Vec<_> = live.into_iter().map(|one| (place(&one), one.0.clone())).collect();
        live.sort();
        let there = live.len() as u64;
        let beyond = live.into_iter().map(|(_, key)| key).skip(wanted as usize);
        for key in over.into_iter().chain(beyond) {
            kube.delete(now, &key, None, Some(1))?;
        }
        for _ in there..wanted {
            made += 1;
            let pod = admit(kube, Scope::Labelled, crowd.pod(made));
            kube.create(now, pod)?;
            kube.write_status(now, &crowd.key(), None, json!({ "made": made }))?;
        }
    }
    Ok(())
}
