//! Who the daemon is in its cluster, and its rights in single namespaces: they
//! are given by RoleBindings to fixed ClusterRoles, which the daemon may bind
//! and nothing more, so that it holds no secret of any other namespace.

use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};

use crate::apiserver::cluster::{Answer, Cluster, Deletion};
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::{ROLE_BINDING, SELF_ACCESS_REVIEW, SELF_REVIEW};
use crate::names::{API_ACCESS_ROLE, FIELD_MANAGER, GROUP, MANAGED_BY, NAMESPACE_ROLE};

/// The account of the daemon at its own API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// `system:serviceaccount:mercato:mercato`, or a user's name.
    pub user: String,
}

/// What the daemon may give itself in one namespace; the RoleBinding has the role's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Its rights in a namespace that leaves home or holds guests.
    Namespace,
    /// Tokens for home's API server: a word that the admission policies ask for.
    ApiAccess,
}

impl Grant {
    /// The ClusterRole, and a right that only it brings: group, resource and verb.
    fn role(self) -> (&'static str, (&'static str, &'static str, &'static str)) {
        match self {
            Self::Namespace => (NAMESPACE_ROLE, ("", "secrets", "get")),
            Self::ApiAccess => (API_ACCESS_ROLE, (GROUP, "tokens", "home-api")),
        }
    }
}

impl Grant {
    /// What its RoleBinding is called.
    pub(crate) fn binding(self) -> &'static str {
        self.role().0
    }
}

impl Account {
    /// Asks the API server which account the daemon's credentials are of.
    pub fn ask(cluster: &Cluster) -> Answer<Self> {
        let review = json!({ "apiVersion": SELF_REVIEW.api_version(), "kind": SELF_REVIEW.kind });
        let answer = cluster.create(SELF_REVIEW, None, review);
        async move {
            let answer = answer.await?;
            let user = answer["status"]["userInfo"]["username"].as_str();
            let unknown = || Failure::refused("the API server does not say who we are");
            Ok(Self { user: user.ok_or_else(unknown)?.to_owned() })
        }
        .boxed()
    }

    /// Gives the account these rights in a namespace, and waits until they hold, so that no request is refused for being early.
    /// Whether something had to be written for that.
    pub fn bind(&self, cluster: &Cluster, namespace: &str, grant: Grant) -> Answer<bool> {
        let (cluster, namespace) = (cluster.clone(), namespace.to_owned());
        let (role, (group, resource, verb)) = grant.role();
        let binding = self.binding(&namespace, grant);
        async move {
            let ns = Some(namespace.as_str());
            if allowed(&cluster, ns, group, resource, None, verb).await? {
                return Ok(false);
            }
            cluster.apply(ROLE_BINDING, ns, role, binding).await?;
            for _ in 0..BINDING_LOOKS {
                if allowed(&cluster, ns, group, resource, None, verb).await? {
                    return Ok(true);
                }
                tokio::time::sleep(BINDING_LOOK).await;
            }
            Err(Failure::transient(format!("the rights in namespace {namespace} do not hold yet")))
        }
        .boxed()
    }

    /// The RoleBinding by which the account has these rights.
    pub(crate) fn binding(&self, namespace: &str, grant: Grant) -> Value {
        json!({
            "metadata": { "namespace": namespace, "labels": { MANAGED_BY: FIELD_MANAGER } },
            "roleRef": {
                "apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": grant.role().0,
            },
            "subjects": [self.subject()],
        })
    }

    /// Takes back the rights that [`Account::bind`] gave; false if there were none.
    pub fn unbind(&self, cluster: &Cluster, namespace: &str, grant: Grant) -> Answer<bool> {
        let (role, _) = grant.role();
        cluster.delete(ROLE_BINDING, Some(namespace), role, Deletion::default())
    }

    fn subject(&self) -> Value {
        let parts =
            self.user.strip_prefix("system:serviceaccount:").and_then(|s| s.split_once(':'));
        match parts {
            Some((namespace, name)) => {
                json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
            }
            None => json!({ "apiGroup": ROLE_BINDING.group, "kind": "User", "name": self.user }),
        }
    }
}

/// Whether the daemon may do something, with all objects or with those of one name; the question itself
/// is never refused.
pub(crate) fn allowed(
    cluster: &Cluster,
    namespace: Option<&str>,
    group: &str,
    resource: &str,
    name: Option<&str>,
    verb: &str,
) -> Answer<bool> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({
        "apiVersion": SELF_ACCESS_REVIEW.api_version(),
        "kind": SELF_ACCESS_REVIEW.kind,
        "spec": { "resourceAttributes": {
            "namespace": namespace.unwrap_or_default(), "group": group, "resource": resource,
            "subresource": subresource, "name": name.unwrap_or_default(), "verb": verb,
        } },
    });
    let answer = cluster.create(SELF_ACCESS_REVIEW, None, review);
    async move { Ok(answer.await?["status"]["allowed"] == true) }.boxed()
}

const BINDING_LOOK: Duration = Duration::from_millis(100);
const BINDING_LOOKS: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_bound_as_one() {
        let account = Account { user: "system:serviceaccount:mercato:daemon".into() };
        let expected =
            json!({ "kind": "ServiceAccount", "namespace": "mercato", "name": "daemon" });
        assert_eq!(account.subject(), expected);
        assert_eq!(Account { user: "anna".into() }.subject()["kind"], "User");
    }
}
