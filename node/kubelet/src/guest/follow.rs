//! Guest objects of one lease, followed: pods across the cluster by the
//! contract's label, config maps, secrets, Services and their endpoints in each guest namespace,
//! since the daemon reads no others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use mercato_offload::forge::{GuestContext, home_address};
use mercato_offload::guest::{Input, Observed};
use mercato_offload::key::{Item, ObjectKind};
use mercato_protocol::names::LeaseNames;
use mercato_protocol::node::ServiceAddress;
use serde_json::Value;
use tokio::time::Instant;

use super::names::{Named, names};
use super::shared::Shared;
use crate::apiserver::kind::{CONFIG_MAP, ENDPOINT_SLICE, Kind, POD, SECRET, SERVICE};
use crate::apiserver::life::Life;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits;
use crate::names::CONTRACT;

pub(super) fn follow(shared: Arc<Shared>) -> BoxFuture<'static, ()> {
    async move {
        let stop = shared.stop.clone();
        let following = async {
            let mut living = shared.living.clone();
            let mut seen = Seen::default();
            let mut streams = SelectAll::new();
            seen.add(&shared, &mut streams, POD, None);
            loop {
                let lives = living.borrow_and_update().clone();
                if let Some(whole) = seen.keep(&lives) {
                    shared.tell(whole).await;
                }
                for life in &lives {
                    seen.add(&shared, &mut streams, CONFIG_MAP, Some(life));
                    seen.add(&shared, &mut streams, SECRET, Some(life));
                    seen.add(&shared, &mut streams, SERVICE, Some(life));
                    seen.add(&shared, &mut streams, ENDPOINT_SLICE, Some(life));
                }
                seen.say_addresses(&shared);
                seen.names_changed();
                loop {
                    tokio::select! {
                        () = seen.names_are_due() => seen.say_names(&shared),
                        Some((source, change)) = streams.next() => {
                            let is_service = source.0 == SERVICE;
                            let input = seen.take(source, change);
                            if is_service {
                                seen.say_addresses(&shared);
                            }
                            if let Some(input) = input {
                                shared.tell(input).await;
                            }
                        }
                        changed = living.changed() => {
                            if changed.is_err() {
                                return;
                            }
                            break;
                        }
                    }
                }
            }
        };
        tokio::select! { () = stop.cancelled() => {} () = following => {} }
    }
    .boxed()
}

/// One watch: a kind, and the namespace if it is not the whole cluster.
type Source = (Kind, Option<String>);
/// A guest object; none if it lacks our marks.
type Told = (Source, Change<Option<Read>>);

/// A guest object, as far as it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    /// As the session sees it.
    observed: Observed,
    /// A Service's own, as long as it is there.
    addresses: BTreeSet<ServiceAddress>,
    /// What it says of names.
    named: Option<Named>,
}

/// What each watch has told.
#[derive(Default)]
struct Seen {
    all: BTreeMap<Source, Known>,
    /// When names are said that have changed.
    names_due: Option<Instant>,
}

/// What a watch has told.
struct Known {
    /// Of the namespace, with which it ends.
    life: Option<Life>,
    /// None before its first list.
    all: Option<BTreeMap<Item, Read>>,
}

impl Seen {
    fn add(
        &mut self,
        shared: &Arc<Shared>,
        streams: &mut SelectAll<BoxStream<'static, Told>>,
        kind: Kind,
        life: Option<&Life>,
    ) {
        let source = (kind, life.map(|life| life.namespace().to_owned()));
        if self.all.contains_key(&source) {
            return;
        }
        self.all.insert(source.clone(), Known { life: life.cloned(), all: None });
        let labels = format!("{CONTRACT}={}", shared.context().contract);
        let which = life.map(Selection::within).unwrap_or_default().labels(labels);
        let reader = shared.clone();
        let read = move |object: Value| Read::of(reader.observe(&object)?, &object).into();
        let changes = changes(&shared.cluster, kind, which, read);
        streams.push(changes.map(move |change| (source.clone(), change)).boxed());
    }

    /// Whatever is told of one object is passed on; a list only as part of the
    /// whole, once every watch has had its first.
    fn take(&mut self, source: Source, change: Change<Option<Read>>) -> Option<Input> {
        let known = &mut self.all.get_mut(&source)?.all;
        let mut is_named = true;
        let input = match change {
            Change::Synced(all) => {
                let all = all.into_iter().flatten();
                *known = Some(all.map(|one| (one.observed.item.clone(), one)).collect());
                self.whole()
            }
            Change::Changed(one) => {
                let one = one?;
                let item = one.observed.item.clone();
                let named = one.named.clone();
                let before = known.get_or_insert_default().insert(item, one.clone());
                is_named = before.and_then(|before| before.named) != named;
                Some(Input::Observed(one.observed))
            }
            Change::Deleted(one) => {
                let item = one?.observed.item;
                let before = known.get_or_insert_default().remove(&item);
                is_named = before.is_some_and(|before| before.named.is_some());
                Some(Input::Gone(item))
            }
        };
        if is_named {
            self.names_changed();
        }
        input
    }

    /// Forgets the namespaces that are gone. Where one of them was all that the others waited for, they
    /// are the whole now.
    fn keep(&mut self, lives: &[Life]) -> Option<Input> {
        let before = self.all.len();
        self.all.retain(|_, known| known.life.as_ref().is_none_or(|of| lives.contains(of)));
        (self.all.len() < before).then(|| self.whole()).flatten()
    }

    /// None before every watch has had its first list.
    fn whole(&self) -> Option<Input> {
        let whole: Option<Vec<_>> = self.all.values().map(|known| known.all.as_ref()).collect();
        let whole = whole?.into_iter().flat_map(BTreeMap::values);
        Some(Input::Synced(whole.map(|one| one.observed.clone()).collect()))
    }

    /// They are said in a moment, with what changes until then.
    fn names_changed(&mut self) {
        self.names_due.get_or_insert_with(|| Instant::now() + limits::NAMES_GATHER);
    }

    /// Waits for that moment, if there is one.
    fn names_are_due(&self) -> impl Future<Output = ()> + use<> {
        let due = self.names_due;
        async move {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        }
    }

    /// What is missing from a part is not gone. A namespace that cannot be listed, since it is about to
    /// go or has no rights yet, holds up the names of no other.
    fn say_names(&mut self, shared: &Shared) {
        self.names_due = None;
        let Some(now) = self.names(&shared.context()) else { return };
        shared.names.send_if_modified(|before| {
            let is_new = before.as_deref() != Some(&now);
            *before = Some(Arc::new(now));
            is_new
        });
    }

    /// None before all pods are listed.
    fn names(&self, context: &GuestContext) -> Option<LeaseNames> {
        self.all.get(&(POD, None))?.all.as_ref()?;
        let known = |guest: &String| {
            let of = |kind| self.all.get(&(kind, Some(guest.clone())));
            [SERVICE, ENDPOINT_SLICE].into_iter().all(|kind| of(kind).is_some_and(Known::is_listed))
        };
        let homes: Vec<_> =
            context.namespaces.iter().map(|(home, guest)| (home, known(guest))).collect();
        let unknown: BTreeSet<_> =
            homes.iter().filter(|(_, is_known)| !is_known).map(|(home, _)| home.as_str()).collect();
        let items = self.all.values().filter_map(|known| known.all.as_ref()).flatten();
        let named = items.filter_map(|(item, one)| {
            let home = match item {
                Item::Pod(pod) => &pod.namespace,
                Item::Object(key) if unknown.contains(key.namespace.as_str()) => return None,
                Item::Object(key) => &key.namespace,
            };
            Some((home.as_str(), one.named.as_ref()?))
        });
        let forwards = context.gate.is_none();
        Some(names(context.contract, forwards, &context.ranges, homes.iter().copied(), named))
    }

    /// Before the session hears of it: an address that is given up may be another's soon.
    fn say_addresses(&self, shared: &Shared) {
        let now = self.addresses();
        shared.addresses.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
    }

    fn addresses(&self) -> BTreeSet<ServiceAddress> {
        let all = self.all.values().filter_map(|known| known.all.as_ref());
        all.flat_map(BTreeMap::values).flat_map(|one| &one.addresses).copied().collect()
    }
}

impl Known {
    fn is_listed(&self) -> bool {
        self.all.is_some()
    }
}

impl Read {
    /// The API server writes "None" where a Service has no address, and gives up those of one that
    /// is being deleted. Whoever is in a tunnel has an address of IPv4 for certain.
    fn of(observed: Observed, object: &Value) -> Self {
        let (spec, mut addresses) = (&object["spec"], BTreeSet::new());
        let named = Named::read(&observed.item, object);
        let Item::Object(key) = &observed.item else { return Self { observed, addresses, named } };
        if key.kind == ObjectKind::Service && object["metadata"]["deletionTimestamp"].is_null() {
            let all = spec["clusterIPs"].as_array().into_iter().flatten();
            let parsed = all.filter_map(|address| address.as_str()?.parse().ok());
            let home = home_address(object);
            let of_four = parsed.filter(IpAddr::is_ipv4);
            addresses.extend(of_four.map(|here| ServiceAddress { here, home }));
        }
        Self { observed, addresses, named }
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::key::key;
    use mercato_protocol::id::Digest;
    use serde_json::json;

    use super::*;

    fn observed(name: &str) -> Observed {
        let item = Item::Object(key(ObjectKind::ConfigMap, "shop", name));
        Observed { item, digest: Digest::of(b""), pod: None }
    }

    fn read(name: &str) -> Read {
        Read::of(observed(name), &Value::Null)
    }

    fn service(name: &str, addresses: &[&str], deleted: bool) -> Option<Read> {
        let item = Item::Object(key(ObjectKind::Service, "shop", name));
        let deletion = deleted.then_some("2026-01-01T00:00:00Z");
        let object = json!({ "metadata": { "deletionTimestamp": deletion },
            "spec": { "clusterIP": addresses.first(), "clusterIPs": addresses } });
        Some(Read::of(Observed { item, digest: Digest::of(b""), pod: None }, &object))
    }

    fn seen_of(all: BTreeMap<Source, Known>) -> Seen {
        Seen { all, names_due: None }
    }

    #[test]
    fn services_have_addresses_as_long_as_they_are_there() {
        let source = (SERVICE, Some("shop-rome".to_owned()));
        let mut seen = seen_of([(source.clone(), Known { life: None, all: None })].into());
        let mut after = |change| {
            seen.take(source.clone(), change);
            seen.addresses().into_iter().map(|it| it.here.to_string()).collect::<Vec<_>>()
        };
        let [web, api] = ["10.96.0.7", "10.96.0.8"];
        let both = [web, "fd00:10:96::7"];
        let all = vec![
            service("web", &both, false),
            service("members", &["None"], false),
            service("late", &[], false),
        ];
        assert_eq!(after(Change::Synced(all)), [web]);
        assert_eq!(after(Change::Changed(service("api", &[api], false))), [web, api]);
        assert_eq!(after(Change::Changed(service("web", &both, true))), [api]);
        assert_eq!(after(Change::Deleted(service("api", &[api], false))), [""; 0]);
        assert_eq!(after(Change::Changed(service("web", &[web], false))), [web]);
        assert_eq!(after(Change::Synced(vec![None])), [""; 0]);
        let mut map = observed("web");
        let says = json!({ "spec": { "clusterIPs": [web] } });
        assert!(Read::of(map.clone(), &says).addresses.is_empty(), "it is no Service");
        map.item = service("web", &[], false).unwrap().observed.item;
        assert_eq!(Read::of(map, &says).addresses.len(), 1);
    }

    #[test]
    fn a_namespace_that_is_not_listed_holds_up_no_other() {
        let listed = |one: Option<Read>| {
            let all = one.map(|one| (one.observed.item.clone(), one)).into_iter().collect();
            Known { life: None, all: Some(all) }
        };
        let of = |kind, guest: &str| (kind, Some(guest.to_owned()));
        let all = [
            ((POD, None), listed(None)),
            (of(SERVICE, "shop-rome"), listed(service("web", &["10.96.0.7"], false))),
            (of(ENDPOINT_SLICE, "shop-rome"), listed(None)),
            (of(SERVICE, "bank-rome"), listed(None)),
            (of(ENDPOINT_SLICE, "bank-rome"), Known { life: None, all: None }),
        ];
        let mut seen = seen_of(all.into());
        let mut context = crate::guest::tests::context();
        context.namespaces =
            ["bank", "new", "shop"].map(|home| (home.into(), format!("{home}-rome"))).into();
        let said = seen.names(&context).unwrap();
        let told: Vec<_> = said
            .namespaces
            .iter()
            .map(|it| (it.home.as_str(), it.services.len(), it.is_part))
            .collect();
        assert_eq!(told, [("bank", 0, true), ("new", 0, true), ("shop", 1, false)]);
        seen.all.insert((POD, None), Known { life: None, all: None });
        assert_eq!(seen.names(&context), None, "home's domain is not known yet");
    }

    #[test]
    fn a_part_of_the_list_is_not_the_list() {
        let (pods, maps) = ((POD, None), (CONFIG_MAP, Some("shop-rome".to_owned())));
        let unlisted = || Known { life: None, all: None };
        let of = [(pods.clone(), unlisted()), (maps.clone(), unlisted())];
        let mut seen = seen_of(of.into());
        assert_eq!(seen.take(pods.clone(), Change::Synced(vec![])), None);
        let whole = seen.take(maps.clone(), Change::Synced(vec![Some(read("a")), None]));
        assert_eq!(whole, Some(Input::Synced(vec![observed("a")])));
        let gone = seen.take(maps.clone(), Change::Deleted(Some(read("a"))));
        assert_eq!(gone, Some(Input::Gone(observed("a").item)));
        assert_eq!(seen.take(pods, Change::Synced(vec![])), Some(Input::Synced(vec![])));
        // A further namespace: nothing is the whole again until it is listed.
        seen.all.insert((SECRET, Some("other".into())), unlisted());
        assert_eq!(seen.take(maps, Change::Synced(vec![])), None);
        // It goes before it could be listed: the others are the whole without it.
        let doomed = Life::lasting("doomed");
        seen.all.insert((SERVICE, Some("doomed".into())), Known { life: Some(doomed), all: None });
        seen.all.remove(&(SECRET, Some("other".into())));
        assert_eq!(seen.take((CONFIG_MAP, Some("shop-rome".into())), Change::Synced(vec![])), None);
        assert_eq!(seen.keep(&[]), Some(Input::Synced(vec![])));
        assert_eq!(seen.keep(&[]), None, "it was said");
        // One that is left: nothing of it is the lease's any more.
        let left = (CONFIG_MAP, Some("left".into()));
        assert_eq!(seen.take(left, Change::Changed(Some(read("b")))), None);
    }
}
