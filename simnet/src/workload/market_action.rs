//! What market agents do: they speak to their agent, and make and remove pods.

use mercato_agent::Input;
use mercato_cluster_model::sides::admit;
use mercato_cluster_model::{Cluster, Key};
use mercato_offload::placement::export::Scope;
use mercato_protocol::time::Now;
use serde_json::Value;

use crate::verify::{Pods, Violation};

/// One thing to do in one's own cluster.
pub(crate) enum MarketAction {
    /// Says this to the agent.
    Tell(Box<Input>),
    /// Makes pods of these objects.
    Create(Vec<Value>),
    /// Removes those of these pods that are there.
    Remove(Vec<Key>),
}

pub(crate) fn create(kube: &mut Cluster, now: Now, pods: Vec<Value>) -> Result<(), Violation> {
    for pod in pods {
        let pod = admit(kube, Scope::Labelled, pod);
        let made = kube.create(now, pod);
        made.map_err(|error| Violation(format!("a job's pod: {error}")))?;
    }
    Ok(())
}

/// Whoever judges pods is told that nobody waits for their guests.
pub(crate) fn remove(
    kube: &mut Cluster,
    now: Now,
    keys: Vec<Key>,
    judge: &mut Pods,
) -> Result<(), Violation> {
    for key in keys {
        if let Some(pod) = kube.get(&key) {
            judge.force(pod["metadata"]["uid"].as_str().unwrap_or_default());
            let gone = kube.delete(now, &key, None, Some(0));
            gone.map_err(|error| Violation(format!("a job's pod: {error}")))?;
        }
    }
    Ok(())
}
