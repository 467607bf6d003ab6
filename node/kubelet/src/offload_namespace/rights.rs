//! The daemon's own rights in opted-in namespaces: taken when one is opted in, given back
//! when it is not any more, and gone with the namespace.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::wanted::Wanted;
use super::webhook::{self, Webhook};
use crate::apiserver::account::{Account, Grant};
use crate::apiserver::cluster::Cluster;
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::{NAMESPACE, ROLE_BINDING, WEBHOOK};
use crate::limits;
use crate::names::{self, API_ACCESS_ROLE, CONTRACT, OFFLOAD};
use crate::upkeep::Upkeep;

/// The daemon's rights in namespaces, and the webhook: what the opt-ins demand.
pub(super) struct Rights {
    pub(super) cluster: Cluster,
    account: Account,
    webhook: Option<Webhook>,
    /// By what these stay as they were written.
    kept: Option<Upkeep>,
    /// Namespaces in which there are rights; none before those that an earlier start has left
    /// are given back.
    held: Option<BTreeMap<String, Held>>,
}

/// Rights that the daemon has in one namespace.
#[derive(Debug)]
struct Held {
    /// The namespace's: they go with it, and another of its name has none.
    uid: String,
    /// Whether tokens for home's API server are among them; none: an earlier start may have left
    /// them.
    api_access: Option<bool>,
    /// Since when they are not wanted there any more, if so.
    left: Option<Instant>,
}

impl Rights {
    /// Rights of this account in this cluster; none are held yet.
    pub(super) fn new(
        cluster: Cluster,
        account: Account,
        webhook: Option<Webhook>,
        kept: Option<Upkeep>,
    ) -> Self {
        Self { cluster, account, webhook, kept, held: None }
    }

    /// Whether there are rights in this namespace.
    pub(super) fn holds(&self, namespace: &str, wanted: &Wanted) -> bool {
        let held = self.held.as_ref().and_then(|held| held.get(namespace));
        held.is_some_and(|held| held.uid == wanted.uid && held.left.is_none())
    }

    /// Takes those that are wanted; one namespace in which that fails does not keep the others
    /// waiting. The first failure is the answer.
    pub(super) async fn take(&mut self, wanted: &BTreeMap<String, Wanted>) -> Result<(), Failure> {
        if self.held.is_none() {
            self.give_back_left(wanted).await?;
        }
        let mut taken = Ok(());
        for (name, one) in wanted.iter().filter(|(_, one)| !one.ends) {
            if !self.holds(name, one) {
                match self.bind(name, Grant::Namespace).await {
                    Ok(()) => {
                        let held = Held { uid: one.uid.clone(), api_access: None, left: None };
                        self.held.get_or_insert_default().insert(name.clone(), held);
                    }
                    Err(failure) => taken = taken.and(Err(failure.of(name))),
                }
            }
            let api_access = self.follow_api_access(name, one.how.api_access).await;
            taken = taken.and(api_access.map_err(|failure| failure.of(name)));
        }
        let registered = match &self.webhook {
            Some(webhook) if !wanted.is_empty() => {
                let registered = webhook.register(&self.cluster).await;
                if let (Ok(configuration), Some(kept)) = (&registered, &self.kept) {
                    kept.keep(WEBHOOK, "", names::WEBHOOK, configuration);
                }
                registered.map(drop)
            }
            Some(_) | None if wanted.is_empty() => {
                self.leave("", None);
                webhook::unregister(&self.cluster).await
            }
            Some(_) | None => Ok(()),
        };
        taken.and(registered)
    }

    /// Takes the right to tokens for home's API server in a namespace, or gives it back, as its
    /// owner says. Where it cannot be had, pods leave as well, without those tokens.
    async fn follow_api_access(&mut self, name: &str, wanted: bool) -> Result<(), Failure> {
        let known = self.held.iter().flatten().find(|(known, _)| *known == name);
        if known.is_none_or(|(_, held)| held.api_access == Some(wanted)) {
            return Ok(());
        }
        if wanted {
            self.bind(name, Grant::ApiAccess).await?;
        } else {
            self.leave(name, Some(API_ACCESS_ROLE));
            self.account.unbind(&self.cluster, name, Grant::ApiAccess).await?;
        }
        if let Some(held) = self.held.as_mut().and_then(|held| held.get_mut(name)) {
            held.api_access = Some(wanted);
        }
        Ok(())
    }

    /// Takes rights in a namespace, by a binding that stays; an administrator's account has them without.
    async fn bind(&self, name: &str, grant: Grant) -> Result<(), Failure> {
        self.account.bind(&self.cluster, name, grant).await?;
        let Some(kept) = &self.kept else { return Ok(()) };
        let binding = grant.binding();
        if self.cluster.get(ROLE_BINDING, Some(name), binding).await?.is_some() {
            kept.keep(ROLE_BINDING, name, binding, &self.account.binding(name, grant));
        }
        Ok(())
    }

    /// What was kept in a namespace, or as the cluster's, is kept no longer.
    fn leave(&self, namespace: &str, name: Option<&str>) {
        if let Some(kept) = &self.kept {
            kept.leave(namespace, name);
        }
    }

    async fn unbind(&self, name: &str) -> Result<(), Failure> {
        for grant in [Grant::ApiAccess, Grant::Namespace] {
            self.account.unbind(&self.cluster, name, grant).await?;
        }
        Ok(())
    }

    /// Gives back those that an earlier start has left in other namespaces.
    async fn give_back_left(&mut self, wanted: &BTreeMap<String, Wanted>) -> Result<(), Failure> {
        let others = format!("labelSelector=!{OFFLOAD},!{CONTRACT}");
        for namespace in self.cluster.list(NAMESPACE, None, &others).await? {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
            if !wanted.contains_key(name) {
                self.unbind(name).await?;
            }
        }
        self.held = Some(BTreeMap::new());
        Ok(())
    }

    /// Gives back those that are not wanted any more, once what was begun with them has had
    /// time to end; true if there are none of them.
    pub(super) async fn give_back(
        &mut self,
        wanted: &BTreeMap<String, Wanted>,
    ) -> Result<bool, Failure> {
        let Some(held) = &mut self.held else { return Ok(false) };
        for (name, held) in held.iter_mut() {
            if !wanted.contains_key(name) && held.left.is_none() {
                held.left = Some(Instant::now());
                if let Some(kept) = &self.kept {
                    kept.leave(name, None);
                }
            }
        }
        let over = |name: &String, held: &Held| {
            let waited = held.left.is_some_and(|at| at.elapsed() >= limits::OPT_OUT);
            waited && !wanted.contains_key(name)
        };
        let due: Vec<String> = held
            .iter()
            .filter(|(name, held)| over(name, held))
            .map(|(name, _)| name.clone())
            .collect();
        let mut given_back = Ok(());
        for name in due {
            match self.unbind(&name).await {
                Ok(()) => drop(self.held.as_mut().and_then(|held| held.remove(&name))),
                Err(failure) => given_back = given_back.and(Err(failure)),
            }
        }
        let held = self.held.iter().flatten();
        given_back.map(|()| held.map(|(_, held)| held).all(|held| held.left.is_none()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use mercato_offload::placement::export::OptIn;
    use serde_json::json;

    use super::*;
    use crate::testing::{scripted, status};

    fn wanted(uid: &str) -> Wanted {
        Wanted { how: OptIn::default(), uid: uid.to_owned(), ends: false }
    }

    #[tokio::test]
    async fn a_start_takes_no_rights_from_a_namespace_that_is_or_was_wanted() {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let cluster = scripted(move |method, path, _| {
            seen.lock().unwrap().push(format!("{method} {path}"));
            let all = ["left", "shop"].map(|name| json!({ "metadata": { "name": name } }));
            (200, json!({ "items": all, "status": { "allowed": true } }))
        });
        let account = Account { user: "anna".into() };
        let mut rights = Rights::new(cluster, account, None, None);
        let shop = wanted("1");
        rights.take(&BTreeMap::from([("shop".into(), shop.clone())])).await.unwrap();
        let requests = requests.lock().unwrap();
        let listed =
            "GET /api/v1/namespaces?labelSelector=!mercato.dev/offload,!mercato.dev/contract";
        assert!(requests.iter().any(|request| request.starts_with(listed)), "{requests:?}");
        let deleted = requests.iter().filter_map(|request| request.strip_prefix("DELETE "));
        let gone = [
            binding("left", "mercato-api-access"),
            binding("left", "mercato-namespace"),
            binding("shop", "mercato-api-access"),
        ];
        assert!(deleted.eq(gone), "{requests:?}");
        assert!(rights.holds("shop", &shop));
    }

    /// An API server where no right can be had in `closed`; and what it was asked to bind.
    fn closed_in_one() -> (Rights, Arc<Mutex<Vec<String>>>) {
        let bound = Arc::new(Mutex::new(Vec::<String>::new()));
        let seen = bound.clone();
        let cluster = scripted(move |method, path, body| {
            if method == "GET" || method == "DELETE" {
                return (200, json!({ "items": [] }));
            }
            if path.contains("selfsubjectaccessreviews") {
                let of = body["spec"]["resourceAttributes"]["namespace"].as_str();
                let allowed = seen.lock().unwrap().iter().any(|known| Some(&**known) == of);
                return (201, json!({ "status": { "allowed": allowed } }));
            }
            let of = path.split('/').nth(5).unwrap_or_default().to_owned();
            if of == "closed" {
                return status(403, "it is being terminated");
            }
            seen.lock().unwrap().push(of);
            (200, json!({}))
        });
        (Rights::new(cluster, Account { user: "anna".into() }, None, None), bound)
    }

    #[tokio::test]
    async fn a_namespace_in_which_no_right_can_be_had_does_not_stop_the_others() {
        let (mut rights, bound) = closed_in_one();
        let all = ["closed", "shop"].map(|name| (name.to_owned(), wanted(name)));
        let taken = rights.take(&BTreeMap::from(all)).await;
        assert_eq!(taken.unwrap_err().message, "namespace closed: it is being terminated");
        assert_eq!(*bound.lock().unwrap(), ["shop"]);
        assert!(
            rights.holds("shop", &wanted("shop")) && !rights.holds("closed", &wanted("closed"))
        );
    }

    #[tokio::test]
    async fn rights_go_with_the_namespace_and_none_is_asked_for_in_one_that_ends() {
        let (mut rights, bound) = closed_in_one();
        let one = |wanted: Wanted| BTreeMap::from([("shop".to_owned(), wanted)]);
        rights.take(&one(wanted("1"))).await.unwrap();
        assert!(rights.holds("shop", &wanted("1")));
        assert!(!rights.holds("shop", &wanted("2")), "another of its name has none");
        bound.lock().unwrap().clear();
        rights.take(&one(Wanted { ends: true, ..wanted("2") })).await.unwrap();
        assert!(bound.lock().unwrap().is_empty());
        rights.take(&one(wanted("2"))).await.unwrap();
        assert_eq!(*bound.lock().unwrap(), ["shop"]);
        assert!(rights.holds("shop", &wanted("2")));
    }

    #[tokio::test]
    async fn tokens_for_the_api_server_are_bound_only_while_the_owner_says_so() {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        let cluster = scripted(move |method, path, body| {
            let asked = body["spec"]["resourceAttributes"]["verb"] == "home-api";
            let mut seen = seen.lock().unwrap();
            if path.contains("rolebindings") {
                let name = path.split(['/', '?']).nth(7).unwrap_or_default();
                seen.push(format!("{method} {name}"));
            }
            let bound = seen.last().is_some_and(|last| last == "PATCH mercato-api-access");
            (200, json!({ "items": [], "status": { "allowed": !asked || bound } }))
        });
        let mut rights = Rights::new(cluster, Account { user: "anna".into() }, None, None);
        let mut asked = async |api_access: bool| {
            let how = OptIn { api_access, ..OptIn::default() };
            let shop = Wanted { how, ..wanted("1") };
            rights.take(&BTreeMap::from([("shop".into(), shop)])).await.unwrap();
            std::mem::take(&mut *requests.lock().unwrap())
        };
        assert_eq!(asked(true).await, ["PATCH mercato-api-access"]);
        assert!(asked(true).await.is_empty());
        assert_eq!(asked(false).await, ["DELETE mercato-api-access"]);
        assert!(asked(false).await.is_empty());
    }

    fn binding(namespace: &str, name: &str) -> String {
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/{name}")
    }
}
