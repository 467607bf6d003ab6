//! Watching objects of one kind: lists, then follows, survives `410 Gone`,
//! broken connections and an API server that is away, and says after each list
//! that it is complete.

mod object;

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::pending;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;

use object::Object;
pub(crate) use object::trim;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::Kind;
use crate::apiserver::life::Life;
use crate::limits;
use crate::repeated::Repeated;
use crate::warn_once;

/// Watches that are open in this process.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// How many watches are open in this process.
pub fn open() -> usize {
    OPEN.load(Ordering::Relaxed)
}

/// One of them, for as long as this is not dropped.
struct Open;

impl Open {
    fn new() -> Self {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What became of the objects of a selection.
#[derive(Debug)]
pub(crate) enum Change<T> {
    /// All of them: whatever is not here is gone.
    Synced(Vec<T>),
    /// One was made or changed.
    Changed(T),
    /// One was deleted; this is its last state.
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
    place: Place,
    labels: Option<String>,
    fields: Option<String>,
}

/// Where objects are looked for.
#[derive(Debug, Clone, Default)]
enum Place {
    /// In the whole cluster, for as long as somebody looks.
    #[default]
    Cluster,
    /// In a namespace that is the cluster's own, and never goes.
    System(&'static str),
    /// In a namespace, for as long as it may be read.
    Namespace(Life),
}

impl Selection {
    /// In a namespace, until its life is over.
    pub(crate) fn within(life: &Life) -> Self {
        Self { place: Place::Namespace(life.clone()), ..Self::default() }
    }

    /// In a namespace that never goes, such as `kube-system`.
    pub(crate) fn system(namespace: &'static str) -> Self {
        Self { place: Place::System(namespace), ..Self::default() }
    }

    /// Of these, those that carry the labels.
    pub(crate) fn labels(self, labels: String) -> Self {
        Self { labels: Some(labels), ..self }
    }

    /// Of these, those with the fields.
    pub(crate) fn fields(self, fields: String) -> Self {
        Self { fields: Some(fields), ..self }
    }
}

/// Follows a selection: for ever, or until the life of its namespace is over. Each object is reduced by `read` as it comes,
/// so that no more is held than is wanted.
pub(crate) fn changes<T: Send + 'static>(
    cluster: &Cluster,
    kind: Kind,
    which: Selection,
    read: impl Fn(Value) -> T + Send + 'static,
) -> BoxStream<'static, Change<T>> {
    let resource = kind.resource();
    let client = cluster.client();
    let (api, over): (Api<Object>, _) = match &which.place {
        Place::Cluster => (Api::all_with(client, &resource), pending().boxed()),
        Place::System(name) => (Api::namespaced_with(client, name, &resource), pending().boxed()),
        Place::Namespace(life) => {
            (Api::namespaced_with(client, life.namespace(), &resource), life.over().boxed())
        }
    };
    let config = watcher::Config {
        label_selector: which.labels,
        field_selector: which.fields,
        page_size: Some(limits::LIST_PAGE),
        ..watcher::Config::default()
    };
    let raw = move |object: Object| read(object.typed(kind));
    let (mut listed, mut repeated, open) = (Vec::new(), Repeated::default(), Open::new());
    watcher(api, config)
        .default_backoff()
        .take_until(over)
        .filter_map(move |event| {
            let _counted = &open;
            // A list begins with each try.
            let answered = event.as_ref().is_ok_and(|event| !matches!(event, watcher::Event::Init));
            if answered && repeated.is_over() {
                tracing::info!(kind = kind.plural, "a watch goes on");
            }
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
                    warn_once!(repeated, error; kind = kind.plural, "a watch was interrupted");
                    None
                }
            };
            futures::future::ready(change)
        })
        .boxed()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::apiserver::kind::SERVICE;
    use crate::apiserver::life::Lives;
    use crate::testing::{scripted, status};

    #[tokio::test]
    async fn a_watch_ends_with_the_life_of_its_namespace() {
        // As once the rights have gone with the namespace.
        let cluster = scripted(|_, _, _| status(403, "services is forbidden"));
        let mut lives = Lives::default();
        lives.set([("shop".to_owned(), 1)]);
        let life = lives.get("shop").unwrap().clone();
        let mut changes = changes(&cluster, SERVICE, Selection::within(&life), |object| object);
        lives.set([("shop".to_owned(), 2)]);
        let told = tokio::time::timeout(Duration::from_secs(10), changes.next()).await;
        assert!(told.unwrap().is_none(), "it goes on with another namespace of the name");
    }
}
