//! NamespaceOffload: what `mercato offload` does, kept so for as long as the object is
//! there.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_kubelet::resources::{
    Condition, EventType, NamespaceOffload, NamespaceOffloadStatus, Objects, Strategy, is_deleted,
};
use mercato_kubelet::{RepeatedEach, warn_once};
use mercato_protocol::id::ClusterId;

use super::service::{Serve, Service, news, say};
use crate::admin::{Offload, Problem, Request};

pub(super) struct Offloads {
    pub(super) service: Service,
    pub(super) failing: RepeatedEach,
}

impl Serve for Offloads {
    type Kind = NamespaceOffload;

    fn serve<'a>(&'a mut self, objects: &'a mut Objects<NamespaceOffload>) -> BoxFuture<'a, ()> {
        async move {
            self.failing.begin();
            for object in objects.all().unwrap_or_default() {
                if let Err(why) = self.one(objects, &object).await {
                    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
                    let repeated = self.failing.of(namespace);
                    warn_once!(repeated, why; namespace, "a NamespaceOffload does not hold yet");
                }
            }
        }
        .boxed()
    }
}

impl Offloads {
    async fn one(
        &self,
        objects: &mut Objects<NamespaceOffload>,
        object: &NamespaceOffload,
    ) -> Result<(), Problem> {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        if is_deleted(object) {
            let as_ever = || Offload { namespace: namespace.clone(), ..Offload::default() };
            let request = match self.service.offloads_all {
                true => Request::Offload(as_ever()),
                false => Request::Unoffload(namespace),
            };
            self.service.api.tell(request).await?;
            return Ok(objects.hold(object, false).await?);
        }
        objects.hold(object, true).await?;
        let spec = &object.spec;
        let place = match spec.strategy {
            Strategy::Local => "at home",
            Strategy::Remote => "elsewhere",
            Strategy::Both => "at home or elsewhere",
        };
        let how = spec.opt_in();
        let called = how.name.place(&namespace).ok().flatten();
        let there = called.map(|name| format!(", there in namespace {name}"));
        let offload = Offload { namespace, how, further: false };
        let done = self.service.api.tell(Request::Offload(offload)).await;
        let (ready, why) = match done {
            Ok(()) => {
                (true, ("Offloaded", format!("new pods run {place}{}", there.unwrap_or_default())))
            }
            Err(problem) => (false, ("NotReady", problem.what)),
        };
        let kind = if ready { EventType::Normal } else { EventType::Warning };
        let before = object.status.clone().unwrap_or_default();
        let generation = object.metadata.generation.unwrap_or_default();
        let conditions = Condition::ready(ready, why, generation, &before.conditions);
        let news = news(kind, &before.conditions, &conditions);
        let status = NamespaceOffloadStatus { to: to_line(&spec.to), conditions };
        Ok(say(objects, object, status, news).await?)
    }
}

/// For a table: as short as ids are typed.
fn to_line(to: &[String]) -> String {
    let short = |one: &String| one.parse().map_or(one.clone(), |id: ClusterId| id.short());
    let all: Vec<String> = to.iter().map(short).collect();
    if all.is_empty() { "all".to_owned() } else { all.join(",") }
}
