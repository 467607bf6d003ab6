//! The cluster's own nodes and the daemon: how a process on a node finds the daemon, and how the
//! daemon knows which node it is.

use std::net::SocketAddr;

use futures::FutureExt;
use serde_json::{Value, json};

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::events::{self, About, EventType};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::{CONFIG_MAP, TOKEN_REVIEW};
use crate::names::{
    CONTROL, FIELD_MANAGER, MANAGED_BY, NODES_ACCOUNT, NODES_AUDIENCE, NODES_NAMESPACE,
};

/// What the API server adds to a token of a pod (Kubernetes 1.30): the name of the pod's node.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Says to the nodes where the daemon is, and by which certificate (PEM) they know it.
pub fn tell_nodes(cluster: &Cluster, at: SocketAddr, certificate: &str) -> Answer<()> {
    let object = json!({
        "metadata": { "labels": { MANAGED_BY: FIELD_MANAGER } },
        "data": { "address": at.to_string(), "certificate": certificate },
    });
    let said = cluster.apply(CONFIG_MAP, Some(NODES_NAMESPACE), CONTROL, object);
    async move {
        match said.await {
            Ok(_) => Ok(()),
            Err(failure) if matches!(failure.class, Class::Missing | Class::Refused) => {
                let message = format!(
                    "{failure}; what runs on nodes is not installed: kubectl apply -f \
                     config/deploy/optional/nodes.yaml"
                );
                Err(Failure { message, ..failure })
            }
            Err(failure) => Err(failure),
        }
    }
    .boxed()
}

/// Says of a node what happened there, as an event of it, which is shown where it is described.
pub fn tell_of_node(
    cluster: &Cluster,
    node: &str,
    kind: EventType,
    reason: &str,
    message: &str,
) -> Answer<()> {
    let about = About {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: None,
        name: node.to_owned(),
        // As kubelets have it of their nodes, and whoever describes these looks for it.
        uid: Some(node.to_owned()),
    };
    events::write(cluster, about, kind, reason, message)
}

/// The name of the node whose process has this token; or why it is nobody's.
pub fn node_of(cluster: &Cluster, token: &str) -> Answer<String> {
    let review = json!({
        "apiVersion": TOKEN_REVIEW.api_version(),
        "kind": TOKEN_REVIEW.kind,
        "spec": { "token": token, "audiences": [NODES_AUDIENCE] },
    });
    let answer = cluster.create(TOKEN_REVIEW, None, review);
    async move { read(&answer.await?["status"]).map_err(Failure::refused) }.boxed()
}

fn read(status: &Value) -> Result<String, String> {
    let all = |value: &Value| -> Vec<String> {
        let all = value.as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    // One that does not know of audiences vouches for tokens that were made for the API server.
    let is_ours = all(&status["audiences"]).iter().any(|audience| audience == NODES_AUDIENCE);
    if status["authenticated"] != true || !is_ours {
        let why = status["error"].as_str().unwrap_or("it has ended, or is of another cluster");
        return Err(format!("the API server does not know the token: {why}"));
    }
    let name = status["user"]["username"].as_str().unwrap_or_default();
    if name != NODES_ACCOUNT {
        return Err(format!("the token is that of {name}, not of {NODES_ACCOUNT}"));
    }
    all(&status["user"]["extra"][NODE_NAME]).into_iter().next().ok_or_else(|| {
        "the token names no node: it has to be that of a pod, on Kubernetes 1.30 or later"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_that_of_one_node_or_nobodys() {
        let status = json!({
            "authenticated": true,
            "audiences": ["mercato"],
            "user": { "username": NODES_ACCOUNT, "extra": { NODE_NAME: ["n2"] } },
        });
        assert_eq!(read(&status), Ok("n2".to_owned()));
        let with = |pointer: &str, value: Value| {
            let mut status = status.clone();
            *status.pointer_mut(pointer).unwrap() = value;
            read(&status).unwrap_err()
        };
        assert!(with("/authenticated", json!(false)).contains("does not know"));
        assert!(with("/audiences", json!(["https://kubernetes.default.svc"])).contains("know"));
        assert!(with("/audiences", Value::Null).contains("does not know"));
        assert!(with("/user/username", json!("admin")).contains("that of admin"));
        assert!(with("/user/extra", json!({})).contains("names no node"));
        assert!(with("/user/extra", json!({ NODE_NAME: [] })).contains("names no node"));
    }
}
