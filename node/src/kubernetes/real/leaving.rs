//! Namespaces whose pods may leave home, or stay there from now on: the daemon's rights, the marks, and
//! pods that would wait in vain.

use mercato_kubelet::offload_namespace::{free, opt_in, opt_out, opted_in};
use mercato_kubelet::{Failure, Grant};
use mercato_offload::placement::export::{Leave, OptIn};
use mercato_protocol::workload::is_reserved;

use super::shared::Shared;
use crate::admin::Offload;
use crate::limits;

/// Lets the pods of a namespace leave home, or keeps them there by its strategy.
pub(super) async fn offload(shared: &Shared, offload: Offload) -> Result<(), String> {
    let Offload { namespace, how, further } = offload;
    how.name.place(&namespace)?;
    let how = if further {
        let before = opted_in(&shared.cluster, &namespace).await;
        how.further(before.map_err(|failure| failure.to_string())?)
    } else {
        how
    };
    let known = shared.opt_ins.known().borrow().clone();
    let wanted = Leave::Now(how.clone());
    if known.is_some_and(|known| known.leave(&namespace) == wanted) {
        // An earlier time, or an earlier start, may not have come to the end of it.
        return freed(shared, &namespace, &how).await;
    }
    if is_reserved(&namespace) {
        return Err(format!("namespace {namespace} is the cluster's own: it stays at home"));
    }
    // It is marked only where the rights are had.
    let bound = shared.account.bind(&shared.cluster, &namespace, Grant::Namespace).await;
    bound.map_err(|failure| unbound(&namespace, &how, &failure))?;
    shared.freed.forget(&namespace);
    let marked = opt_in(&shared.cluster, &namespace, &how);
    settled(shared, &namespace, &wanted, marked).await?;
    freed(shared, &namespace, &how).await
}

/// Keeps the pods of a namespace at home from now on. Ends those that wait for a virtual node in vain;
/// gives the names of those that nobody makes again.
pub(super) async fn unoffload(shared: &Shared, namespace: String) -> Result<Vec<String>, String> {
    shared.freed.forget(&namespace);
    let marked = opt_out(&shared.cluster, &namespace);
    settled(shared, &namespace, &Leave::Never, marked).await?;
    let freed = free(&shared.cluster, &namespace, None).await;
    freed.map_err(|failure| in_vain(&namespace, &failure))
}

/// Waits until a namespace that was marked is followed as it was marked.
async fn settled(
    shared: &Shared,
    namespace: &str,
    wanted: &Leave,
    marked: impl Future<Output = Result<(), Failure>> + Send,
) -> Result<(), String> {
    let mut known = shared.opt_ins.known();
    marked.await.map_err(|failure| failure.to_string())?;
    let holds = known
        .wait_for(|known| known.as_ref().is_some_and(|known| known.leave(namespace) == *wanted));
    match tokio::time::timeout(limits::OPT_IN, holds).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(format!("namespace {namespace} is marked, and not ready yet")),
    }
}

/// Frees pods that wait for virtual nodes by what was said of their namespace before, or says so of them,
/// until that is done once.
async fn freed(shared: &Shared, namespace: &str, how: &OptIn) -> Result<(), String> {
    let known = shared.opt_ins.known().borrow().clone();
    let is_there = |namespace: &str| {
        known.as_ref().is_some_and(|known| known.leave(namespace) != Leave::Never)
    };
    shared.freed.keep(is_there);
    let freed = shared.freed.free_once(&shared.cluster, namespace, how).await;
    freed.map_err(|failure| in_vain(namespace, &failure))
}

fn in_vain(namespace: &str, failure: &Failure) -> String {
    format!("pods of namespace {namespace} may wait for virtual nodes in vain: {failure}")
}

/// Why the daemon has no rights in a namespace, and how its people give them.
fn unbound(namespace: &str, how: &OptIn, failure: &Failure) -> String {
    if !failure.message.contains("mercato-consent") {
        return failure.to_string();
    }
    let strategy = how.strategy;
    let access = if how.api_access { "home" } else { "none" };
    format!(
        "namespace {namespace} has no NamespaceOffload, by which its people agree: \
        echo '{{\"apiVersion\":\"mercato.dev/v1alpha1\",\"kind\":\"NamespaceOffload\",\
        \"metadata\":{{\"name\":\"default\",\"namespace\":\"{namespace}\"}},\
        \"spec\":{{\"strategy\":\"{strategy:?}\",\"apiAccess\":\"{access}\"}}}}' | kubectl apply -f - ; \
        or for all namespaces: kubectl apply -f config/deploy/optional/offload-all.yaml"
    )
}
