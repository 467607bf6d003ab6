//! What the webhook reads of an `AdmissionReview`. Anybody may send one, so that it costs little:
//! few come at a time, only what the answer needs is kept of them, and that is counted as it is
//! read. A JSON tree of a whole review would take up to ninety times the memory of its text.

mod kept;
mod spec;

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use futures::StreamExt;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use self::kept::Kept;
use self::spec::Spec;
use crate::apiserver::callers::Caller;
use crate::limits;
use crate::names::PLACED;

/// What an answer needs of a review.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Review {
    pub(super) uid: String,
    pub(super) namespace: String,
    /// The pod, as far as it says where it runs and whose it is.
    pub(super) pod: Value,
}

/// Reads reviews, a few at a time, whoever sends them.
#[derive(Clone)]
pub(super) struct Reader {
    /// Places for bodies that come. Most are small,
    bodies: Arc<Semaphore>,
    /// and those that are not need one of these as well, so that no crowd of them keeps the
    /// small ones waiting.
    large: Arc<Semaphore>,
}

impl Default for Reader {
    fn default() -> Self {
        let places = |n| Arc::new(Semaphore::new(n));
        Self {
            bodies: places(limits::ADMISSION_BODIES),
            large: places(limits::ADMISSION_LARGE_BODIES),
        }
    }
}

impl Reader {
    /// The review, if it comes within the time that an API server waits for its answer.
    pub(super) async fn read(&self, caller: &Caller, body: Body) -> Result<Review, StatusCode> {
        let reading = async {
            let _leave = caller.waits().await;
            let _place = self.bodies.acquire().await;
            let (mut text, mut large) = (Vec::new(), None);
            let mut parts = body.into_data_stream();
            while let Some(part) = parts.next().await {
                let part = part.map_err(|_| StatusCode::BAD_REQUEST)?;
                let length = text.len() + part.len();
                if length > limits::ADMISSION_BODY {
                    return Err(StatusCode::PAYLOAD_TOO_LARGE);
                }
                if length > limits::ADMISSION_SMALL_BODY && large.is_none() {
                    large = Some(self.large.acquire().await);
                    text.reserve_exact(limits::ADMISSION_BODY - text.len());
                }
                text.extend_from_slice(&part);
            }
            Review::parse(&text).ok_or(StatusCode::BAD_REQUEST)
        };
        let read = tokio::time::timeout(limits::ADMISSION_TIMEOUT, reading).await;
        read.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT))
    }
}

impl Review {
    /// None: it is no review, or says more than a pod's scheduling takes.
    fn parse(text: &[u8]) -> Option<Self> {
        let Sent { request } = serde_json::from_slice(text).ok()?;
        let Object { metadata, spec } = request.object.unwrap_or_default();
        let (metadata, spec) = (metadata.unwrap_or_default(), spec.unwrap_or_default());
        let pod = json!({
            "metadata": {
                "ownerReferences": metadata.owner_references.0,
                "annotations": metadata.annotations.map(|Annotations(ours)| ours),
            },
            "spec": spec.0,
        });
        let text = |field: &Kept| field.0.as_str().map(str::to_owned);
        let namespace = text(&request.namespace).unwrap_or_default();
        Some(Self { uid: text(&request.uid)?, namespace, pod })
    }
}

#[derive(Deserialize)]
struct Sent {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    uid: Kept,
    #[serde(default)]
    namespace: Kept,
    #[serde(default)]
    object: Option<Object>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    owner_references: Kept,
    annotations: Option<Annotations>,
}

/// Annotations, as far as they are the webhook's: nothing else of them is kept.
#[derive(Default)]
struct Annotations(Map<String, Value>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Annotations {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the annotations of a pod")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut all: A) -> Result<Self, A::Error> {
        while let Some(name) = all.next_key::<String>()? {
            if name == PLACED {
                let Kept(value) = all.next_value()?;
                self.0.insert(name, value);
            } else {
                all.next_value::<IgnoredAny>()?;
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::spec::PLACING;
    use super::*;

    fn review(field: &str, value: &str) -> String {
        format!(
            r#"{{"kind":"AdmissionReview","request":{{"uid":"7","namespace":"shop","oldObject":null,
            "object":{{"metadata":{{"name":"web"}},"spec":{{"{field}":{value}}}}}}}}}"#
        )
    }

    #[test]
    fn what_the_answer_needs_is_read_and_nothing_else() {
        let read = |field: &str, value: &str| Review::parse(review(field, value).as_bytes());
        let tolerations =
            r#"[{"key":"gpu","operator":"Exists","tolerationSeconds":30,"x":[1.5,true]}]"#;
        let kept = read("tolerations", tolerations).unwrap();
        assert_eq!((kept.uid.as_str(), kept.namespace.as_str()), ("7", "shop"));
        let expected: Value = serde_json::from_str(tolerations).unwrap();
        assert_eq!(kept.pod["spec"]["tolerations"], expected);
        assert_eq!(read("nodeName", "\"n\"").unwrap().pod["spec"]["nodeName"], "n");
        let much = format!("[{}0]", "{\"a\":0},".repeat(500_000));
        let ignored = read("containers", &much).unwrap();
        assert_eq!(ignored.pod["spec"].get("containers"), None);
        for field in PLACING {
            assert_eq!(read(field, &much), None, "{field}");
            let long = format!("\"{}\"", "x".repeat(limits::ADMISSION_FIELD));
            assert_eq!(read(field, &long), None, "{field}");
        }
        let metadata = |annotations: &str| {
            let object = format!(r#"{{"metadata":{{"annotations":{annotations}}}}}"#);
            let text = format!(r#"{{"request":{{"uid":"7","object":{object}}}}}"#);
            Some(Review::parse(text.as_bytes())?.pod["metadata"]["annotations"].clone())
        };
        let long = "x".repeat(limits::ADMISSION_FIELD);
        let many = format!(r#"{{"a":"{long}","{PLACED}":"remote","b":"c"}}"#);
        assert_eq!(metadata(&many), Some(json!({ PLACED: "remote" })));
        assert_eq!(metadata(&format!(r#"{{"{PLACED}":"{long}"}}"#)), None);
        assert_eq!((metadata("{}"), metadata("null")), (Some(json!({})), Some(Value::Null)));
        for nothing in ["{}", "", r#"{"request":{}}"#, r#"{"request":{"uid":7}}"#, "[[[["] {
            assert_eq!(Review::parse(nothing.as_bytes()), None, "{nothing}");
        }
        let small = Review::parse(br#"{"request":{"uid":"7","object":null}}"#).unwrap();
        assert_eq!(small.namespace, "");
    }

    fn never(text: Vec<u8>) -> Body {
        let never = futures::stream::pending::<std::io::Result<Vec<u8>>>();
        let text = futures::stream::iter([Ok(text)]);
        Body::from_stream(text.chain(never))
    }

    #[tokio::test]
    async fn bodies_that_do_not_come_are_few_and_not_waited_for() {
        let reader = Reader::default();
        let mut reading = tokio::task::JoinSet::new();
        let mut read_never = |caller: &Caller| {
            let (reader, caller) = (reader.clone(), caller.clone());
            reading.spawn(async move { reader.read(&caller, never(Vec::new())).await });
        };
        let one = Caller::of_test();
        (0..100).for_each(|_| read_never(&one));
        let left = || reader.bodies.available_permits();
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(left(), limits::ADMISSION_BODIES - limits::UNKNOWN_REQUESTS, "of one address");
        // Another address does not wait for that one.
        let other = reader.read(&Caller::of_test(), Body::from(review("x", "0"))).await;
        assert!(other.is_ok());
        (0..100).for_each(|_| read_never(&Caller::of_test()));
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(left(), 0, "of all");
        let patience = 5 * limits::ADMISSION_TIMEOUT;
        let ended = tokio::time::timeout(patience, reading.join_all()).await.unwrap();
        assert!(ended.iter().all(|read| *read == Err(StatusCode::REQUEST_TIMEOUT)));
        assert_eq!(left(), limits::ADMISSION_BODIES);
    }

    #[tokio::test]
    async fn large_bodies_that_do_not_come_keep_no_small_one_waiting() {
        let reader = Reader::default();
        let mut reading = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (reader, caller) = (reader.clone(), Caller::of_test());
            let text = vec![b' '; limits::ADMISSION_SMALL_BODY + 1];
            reading.spawn(async move { reader.read(&caller, never(text)).await });
        }
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!(reader.large.available_permits(), 0);
        let small = reader.read(&Caller::of_test(), Body::from(review("x", "0"))).await;
        assert!(small.is_ok());
    }

    #[tokio::test]
    async fn a_body_has_a_bound() {
        let body = |bytes: usize| {
            let review = review("x", "0");
            let spaces = " ".repeat(bytes - review.len());
            Body::from(review + &spaces)
        };
        let (reader, caller) = (Reader::default(), Caller::of_test());
        assert!(reader.read(&caller, body(limits::ADMISSION_BODY)).await.is_ok());
        let large = reader.read(&caller, body(limits::ADMISSION_BODY + 1)).await;
        assert_eq!(large, Err(StatusCode::PAYLOAD_TOO_LARGE));
    }
}
