//! The API servers, for whoever passes on what guests elsewhere say to them: where they are; and what
//! is open to these guests.

use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, future};
use mercato_offload::placement::export::Consent;
use tokio::time::timeout;

use super::shared::Shared;
use crate::limits;

/// As they say themselves, if they answer, and then as the daemon was told.
pub(super) async fn all(shared: Arc<Shared>) -> Vec<(String, u16)> {
    let asked = timeout(limits::API_SERVERS_ANSWER, mercato_kubelet::api_servers(&shared.cluster));
    let said = match asked.await {
        Ok(Ok(said)) => said,
        Ok(Err(failure)) => {
            tracing::debug!(%failure, "the API servers do not say where they are");
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    let mut all: Vec<_> = said.iter().map(|at| (at.ip().to_string(), at.port())).collect();
    all.push(shared.host.clone());
    all
}

/// What the owners of namespaces have opened, now and whenever that changes.
pub(super) fn consent(shared: Arc<Shared>) -> BoxStream<'static, Consent> {
    let known = shared.opt_ins.known();
    let all = stream::unfold((known, true), |(mut known, is_first)| async move {
        if !is_first {
            known.changed().await.ok()?;
        }
        let now = known.borrow_and_update().clone();
        Some((now.map(|known| known.consent()), (known, false)))
    });
    all.filter_map(future::ready).boxed()
}
