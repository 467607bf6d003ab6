//! What the provider's kubelets say of the guests of one lease: their events are followed
//! in each guest namespace, and told as inputs of the session. Those of the scheduler and
//! of others speak of the provider's own cluster, and stay there. None is worth a second
//! try, and home bounds how many it takes. What is said of the gate stays here, too.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::SelectAll;
use futures::{FutureExt, StreamExt};
use mercato_offload::forge::{Called, Place, event_message};
use mercato_offload::guest::Input;
use mercato_offload::key::PodId;
use mercato_offload::message::{EventKind, PodEvent};
use mercato_protocol::gate::GuestUid;
use serde_json::Value;

use super::shared::Shared;
use crate::apiserver::kind::EVENT;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::format::clock;
use crate::limits;

pub(super) fn follow(shared: Arc<Shared>) -> BoxFuture<'static, ()> {
    async move {
        let stop = shared.stop.clone();
        let following = async {
            let mut living = shared.living.clone();
            let (mut followed, mut streams) = (Vec::new(), SelectAll::new());
            loop {
                let all = living.borrow_and_update().clone();
                for life in all.iter().filter(|life| !followed.contains(*life)) {
                    let fields = "involvedObject.kind=Pod,source=kubelet".to_owned();
                    let which = Selection::within(life).fields(fields);
                    let said = |event| Said::read(&event);
                    streams.push(changes(&shared.cluster, EVENT, which, said));
                }
                followed = all;
                loop {
                    tokio::select! {
                        Some(change) = streams.next() => tell(&shared, change).await,
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

async fn tell(shared: &Shared, change: Change<Option<Said>>) {
    let said = match change {
        // Some of a list may have been told before; what is old is left out.
        Change::Synced(all) => {
            let since = clock::now_ms().saturating_sub(limits::EVENT_AGE_MS);
            all.into_iter().flatten().filter(|said| said.at_ms >= since).collect()
        }
        Change::Changed(said) => Vec::from_iter(said),
        Change::Deleted(_) => Vec::new(),
    };
    for said in said {
        let pod = shared.guests().pod(&said.guest).cloned();
        if let Some(pod) = pod {
            let event = said.at_home(&pod);
            shared.tell(Input::Event(pod, event)).await;
        }
    }
}

/// One event, as far as it is told.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    /// The uid of the guest pod.
    guest: GuestUid,
    /// Its namespace, at the provider.
    namespace: String,
    event: PodEvent,
    /// When it last came, in ms since 1970.
    at_ms: u64,
}

impl Said {
    fn read(event: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let about = &event["involvedObject"];
        let kind = if event["type"] == "Warning" { EventKind::Warning } else { EventKind::Normal };
        let count = event["count"].as_u64().or(event["series"]["count"].as_u64());
        let message = event_message(&text(&about["fieldPath"]), &text(&event["message"]))?;
        let times = ["lastTimestamp", "eventTime"].map(|name| event[name].as_str());
        Some(Self {
            guest: about["uid"].as_str()?.parse().ok()?,
            namespace: text(&about["namespace"]),
            event: PodEvent {
                kind,
                reason: text(&event["reason"]),
                field: text(&about["fieldPath"]),
                message,
                count: count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1),
            },
            at_ms: times.into_iter().flatten().find_map(clock::parse_ms)?,
        })
    }

    /// As it is told of home's pod.
    fn at_home(self, pod: &PodId) -> PodEvent {
        let called = Called {
            name: &pod.name,
            there: Place { namespace: &self.namespace, uid: self.guest.as_str() },
            home: Place { namespace: &pod.namespace, uid: &pod.uid.0 },
        };
        let message = called.at_home(&self.event.message);
        PodEvent { message, ..self.event }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn started() -> Value {
        json!({ "involvedObject": { "kind": "Pod", "namespace": "shop-rome", "name": "web",
                "uid": "g1", "fieldPath": "spec.containers{app}" },
            "type": "Normal", "reason": "Started", "message": "Container started", "count": 2,
            "lastTimestamp": "2026-01-01T00:00:01Z", "eventTime": null })
    }

    #[test]
    fn home_hears_nothing_of_the_gate() {
        let mut event = started();
        event["involvedObject"]["fieldPath"] = "spec.initContainers{mercato-gate}".into();
        assert_eq!(Said::read(&event), None);
        event["involvedObject"]["fieldPath"] = "spec.initContainers{migrate}".into();
        assert!(Said::read(&event).is_some());
    }

    #[test]
    fn an_event_names_what_home_has() {
        let mut event = started();
        event["message"] =
            "Back-off restarting failed container app in pod web_shop-rome(g1)".into();
        let uid = mercato_offload::key::Uid("u1".into());
        let pod = PodId { uid, namespace: "shop".into(), name: "web".into() };
        let told = Said::read(&event).unwrap().at_home(&pod);
        assert_eq!(told.message, "Back-off restarting failed container app in pod web_shop(u1)");
        assert_eq!((told.reason.as_str(), told.count), ("Started", 2));
    }

    #[test]
    fn an_event_is_read_as_far_as_it_is_told() {
        let said = Said::read(&started()).unwrap();
        assert_eq!((said.guest.as_str(), said.at_ms), ("g1", 1_767_225_601_000));
        assert_eq!(said.namespace, "shop-rome");
        let event = PodEvent {
            kind: EventKind::Normal,
            reason: "Started".into(),
            field: "spec.containers{app}".into(),
            message: "Container started".into(),
            count: 2,
        };
        assert_eq!(said.event, event);
        let mut timeless = started();
        timeless["lastTimestamp"] = Value::Null;
        assert_eq!(Said::read(&timeless), None);
        timeless["eventTime"] = "2026-01-01T00:00:02.5Z".into();
        assert_eq!(Said::read(&timeless).unwrap().at_ms, 1_767_225_602_500);
    }
}
