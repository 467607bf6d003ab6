//! Watching objects of one kind: lists, then follows, survives `410 Gone`,
//! broken connections and an API server that is away, and says after each list
//! that it is complete.

mod object;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;

use object::Object;
pub(crate) use object::trim;

use crate::cluster::Cluster;
use crate::kind::Kind;
use crate::limits;

/// What became of the objects of a selection.
#[derive(Debug)]
pub(crate) enum Change<T> {
    /// All of them: whatever is not here is gone.
    Synced(Vec<T>),
    /// One was made or changed.
    Changed(T),
    /// One was deleted.
    Deleted(T),
}

impl<T> Change<Option<T>> {
    /// Of what could be read.
    pub(crate) fn known(self) -> Option<Change<T>> {
        Some(match self {
            Self::Synced(all) => Change::Synced(all.into_iter().flatten().collect()),
            Self::Changed(one) => Change::Changed(one?),
            Self::Deleted(one) => Change::Deleted(one?),
        })
    }
}

/// Which objects of a kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
}

impl Selection {
    pub(crate) fn namespace(namespace: &str) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::default() }
    }

    pub(crate) fn labels(labels: String) -> Self {
        Self { labels: Some(labels), ..Self::default() }
    }

    pub(crate) fn fields(fields: String) -> Self {
        Self { fields: Some(fields), ..Self::default() }
    }
}

/// Follows a selection for ever. Each object is reduced by `read` as it comes,
/// so that no more is held than is wanted.
pub(crate) fn changes<T: Send + 'static>(
    cluster: &Cluster,
    kind: Kind,
    which: Selection,
    read: impl Fn(Value) -> T + Send + 'static,
) -> BoxStream<'static, Change<T>> {
    let resource = kind.resource();
    let api: Api<Object> = match &which.namespace {
        Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &resource),
        None => Api::all_with(cluster.client(), &resource),
    };
    let config = watcher::Config {
        label_selector: which.labels,
        field_selector: which.fields,
        page_size: Some(limits::LIST_PAGE),
        ..watcher::Config::default()
    };
    let raw = move |object: Object| read(object.typed(kind));
    let mut listed = Vec::new();
    watcher(api, config)
        .default_backoff()
        .filter_map(move |event| {
            let change = match event {
                Ok(watcher::Event::Init) => {
                    listed.clear();
                    None
                }
                Ok(watcher::Event::InitApply(object)) => {
                    listed.push(raw(object));
                    None
                }
                Ok(watcher::Event::InitDone) => Some(Change::Synced(std::mem::take(&mut listed))),
                Ok(watcher::Event::Apply(object)) => Some(Change::Changed(raw(object))),
                Ok(watcher::Event::Delete(object)) => Some(Change::Deleted(raw(object))),
                // After a while without a change; a list follows.
                Err(watcher::Error::WatchError(status)) if status.code == 410 => None,
                Err(error) => {
                    tracing::warn!(%error, kind = kind.plural, "a watch was interrupted");
                    None
                }
            };
            futures::future::ready(change)
        })
        .boxed()
}
