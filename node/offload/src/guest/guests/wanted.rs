//! What home says that it wants.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mercato_protocol::time::Now;

use super::super::object::Object;
use super::super::{Config, Effect};
use super::Guests;
use crate::forge::Content;
use crate::key::{Item, ObjectKey, PodId};
use crate::limits;
use crate::message::{Refusal, Route, ToGuest};
use crate::output::Output;

impl Guests {
    /// What was said on an earlier link is void.
    pub(in crate::guest) fn on_new_link(&mut self) {
        self.pods.on_new_link();
        self.objects.on_new_link();
    }

    /// Takes statements of home's, which came together: a pod is made with the address that is said beside.
    pub(in crate::guest) fn on_statements(
        &mut self,
        now: Now,
        statements: Vec<ToGuest>,
        out: &mut Output<Effect>,
    ) {
        let address = |statement: &ToGuest| {
            let ToGuest::Address { pod, address } = statement else { return None };
            Some((Item::Pod(pod.clone()), *address))
        };
        let addresses: BTreeMap<Item, IpAddr> = statements.iter().filter_map(address).collect();
        for statement in statements {
            match statement {
                ToGuest::Put { item, digest, route, .. } => {
                    let called = addresses.get(&item).copied();
                    self.on_put(now, &item, Content { digest, route, called }, out);
                }
                ToGuest::Delete { pod, grace_s } => self.on_delete(now, &pod, grace_s, out),
                ToGuest::Drop(key) => {
                    let is_new = self.objects.get_mut(&key).map(Object::on_drop);
                    self.on_drop(now, key, is_new, out);
                }
                ToGuest::Discard(key) => {
                    let is_new = self.objects.discard(&key);
                    self.on_drop(now, key, Some(is_new), out);
                }
                ToGuest::Want(id) => {
                    if let Some(pod) = self.pods.named(&id) {
                        pod.on_want();
                        out.changed(Item::Pod(id));
                    }
                }
                ToGuest::Taken(id) => {
                    if let Some(pod) = self.pods.named(&id) {
                        pod.on_taken();
                        self.step(now, &Item::Pod(id), out);
                    }
                }
                ToGuest::Address { pod: id, address } => {
                    if let Some(pod) = self.pods.named(&id) {
                        out.extend(pod.on_address(address));
                        out.changed(Item::Pod(id));
                    }
                }
                ToGuest::Forget(id) => {
                    if let Some(pod) = self.pods.named(&id) {
                        pod.on_forget();
                        self.forget_if_over(&id.uid, out);
                    }
                }
            }
        }
    }

    fn on_put(&mut self, now: Now, item: &Item, content: Content, out: &mut Output<Effect>) {
        let Content { digest, route, called } = content;
        let refusal = self.refuse(&route);
        match item {
            Item::Object(key) => {
                let Some(object) = self.objects.admit(key) else { return };
                object.on_put(digest, &route, refusal);
            }
            Item::Pod(id) => {
                let Some(pod) = self.pods.admit(id) else { return };
                pod.on_put(digest, &route, refusal);
                out.extend(called.and_then(|address| pod.on_address(address)));
            }
        }
        self.retries.clear(item);
        out.changed(item.clone());
        self.step(now, item, out);
    }

    fn on_delete(&mut self, now: Now, id: &PodId, grace_s: u32, out: &mut Output<Effect>) {
        let Some(pod) = self.pods.admit(id) else { return };
        let is_new = pod.on_delete(grace_s);
        let item = Item::Pod(id.clone());
        if is_new {
            self.stop_waiting(&item);
        }
        out.changed(item.clone());
        self.step(now, &item, out);
    }

    /// `is_new`: whether it is dropped only now; none: it is not known.
    fn on_drop(
        &mut self,
        now: Now,
        key: ObjectKey,
        is_new: Option<bool>,
        out: &mut Output<Effect>,
    ) {
        let Some(is_new) = is_new else { return };
        let item = Item::Object(key);
        if is_new {
            self.stop_waiting(&item);
        }
        self.step(now, &item, out);
    }

    fn refuse(&self, route: &Route) -> Option<Refusal> {
        if self.closing {
            return Some(Refusal { path: String::new(), reason: "the lease is over".to_owned() });
        }
        self.config.refuse(route)
    }
}

impl Config {
    /// Why what came this way must not be made here.
    fn refuse(&self, route: &Route) -> Option<Refusal> {
        let Route { origin, path, .. } = route;
        let reason = if path.len() > limits::PATH_CLUSTERS
            || path.first() != Some(origin)
            || path.last() != Some(&self.consumer)
        {
            "the path does not lead from its origin to the consumer"
        } else if path.contains(&self.cluster) {
            "it has been here before"
        } else if path.len() > 1 && !self.transit {
            "the contract does not allow what comes from further away"
        } else {
            return None;
        };
        Some(Refusal { path: String::new(), reason: format!("{reason}: {route}") })
    }
}
