//! What the types of workload messages alone do not say, and how what is too long to be
//! said is made to fit.

use std::net::IpAddr;

use unicode_normalization::UnicodeNormalization as _;

use super::{
    BodyHead, Frame, Item, Message, ObjectKey, ObjectKind, Outcome, PodEvent, PodId, Refusal,
    ToGuest, ToHome,
};
use crate::codec::{self, CodecError, at_most, ensure};
use crate::limits;
use crate::text::is_plain;

impl codec::Message for Message {
    const MAX_BYTES: usize = limits::WORKLOAD_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        let bodies = self.bodies();
        ensure(bodies.iter().all(|body| body.length > 0), "a body of nothing")?;
        let shorter = |body: &BodyHead| body.packed.is_none_or(|it| it > 0 && it < body.length);
        ensure(bodies.iter().all(shorter), "a body that is packed for nothing")?;
        let total = bodies.iter().map(|body| body.length as usize).fold(0, usize::saturating_add);
        at_most("bytes of all bodies", total, limits::OBJECT_BYTES)?;
        match self {
            Self::ToGuest { frame, .. } => {
                frame.validate()?;
                frame.statements.iter().try_for_each(ToGuest::validate)
            }
            Self::ToHome { frame, .. } => {
                let longest = bodies.iter().map(|body| body.length as usize).max();
                at_most("bytes of a status", longest.unwrap_or(0), limits::STATUS_BYTES)?;
                frame.validate()?;
                frame.statements.iter().try_for_each(ToHome::validate)
            }
        }
    }
}

impl<T> Frame<T> {
    fn validate(&self) -> Result<(), CodecError> {
        at_most("statements", self.statements.len(), limits::FRAME_STATEMENTS)?;
        ensure(self.seq > 0 || self.statements.is_empty(), "statements out of place")
    }
}

impl ToGuest {
    fn validate(&self) -> Result<(), CodecError> {
        match self {
            Self::Put { item, route, place, .. } => {
                item.validate()?;
                let chosen = place.as_deref().is_none_or(may_be_chosen);
                ensure(chosen, "a place that no guest namespace can be")?;
                at_most("clusters of a path", route.path.len(), limits::PATH_CLUSTERS)?;
                ensure(route.path.first() == Some(&route.origin), "the path begins elsewhere")
            }
            Self::Drop(key) => {
                ensure(key.kind != ObjectKind::Claim, "a claim that is dropped")?;
                key.validate()
            }
            Self::Discard(key) => {
                ensure(key.kind == ObjectKind::Claim, "something discarded that is no claim")?;
                key.validate()
            }
            Self::Delete { pod, .. } | Self::Want(pod) | Self::Taken(pod) | Self::Forget(pod) => {
                pod.validate()
            }
            Self::Address { pod, address } => {
                pod.validate()?;
                pods_address(*address)
            }
        }
    }
}

impl ToHome {
    fn validate(&self) -> Result<(), CodecError> {
        match self {
            Self::Have { item, .. } | Self::Refused { item, .. } | Self::Missing(item) => {
                item.validate()
            }
            Self::Status { pod, .. } => pod.validate(),
            Self::Event { pod, event } => {
                pod.validate()?;
                event.validate()
            }
            Self::InForce { pod, address, second } => {
                pod.validate()?;
                let is_first = address.is_some_and(|address| address.is_ipv4());
                ensure(is_first || !second, "a second address without a first one")?;
                address.map_or(Ok(()), pods_address)
            }
            Self::HaveEnd => Ok(()),
        }
    }
}

/// What one pod can have.
fn pods_address(address: IpAddr) -> Result<(), CodecError> {
    let special = match address {
        IpAddr::V4(it) => it.is_link_local() || it.is_broadcast(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    };
    let nobodys = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    ensure(!special && !nobodys, "an address that no pod has")
}

impl Item {
    fn validate(&self) -> Result<(), CodecError> {
        match self {
            Self::Object(key) => key.validate(),
            Self::Pod(pod) => pod.validate(),
        }
    }
}

impl ObjectKey {
    fn validate(&self) -> Result<(), CodecError> {
        let is_uid = || label(&self.name) && self.name.len() <= limits::LABEL_BYTES;
        ensure(
            self.kind != ObjectKind::Claim || is_uid(),
            "a claim that is not called by its uid",
        )?;
        names(&self.namespace, &self.name)
    }
}

impl PodId {
    fn validate(&self) -> Result<(), CodecError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let uid = &self.uid.0;
        ensure(!uid.is_empty() && uid.bytes().all(plain), "a uid that is none")?;
        names(&self.namespace, &self.name)
    }
}

impl PodEvent {
    /// This event, if it is one that can be told of: one word, a container of the pod or
    /// none, and as much of its words as a message may hold, on one line.
    #[must_use]
    pub fn fit(mut self) -> Option<Self> {
        let message = self.message.chars();
        let line = message.map(|char| if is_plain(char) { char } else { ' ' }).collect();
        self.message = clipped(line);
        self.count = self.count.max(1);
        self.validate().is_ok().then_some(self)
    }

    fn validate(&self) -> Result<(), CodecError> {
        let word = |text: &str| {
            (1..=limits::LABEL_BYTES).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        ensure(word(&self.reason), "a reason that is no word")?;
        ensure(self.field.is_empty() || container(&self.field), "a field that is no container")?;
        ensure(self.message.chars().all(is_plain), "hidden characters in an event")?;
        ensure(self.count > 0, "an event that never came")
    }
}

/// Whether it means one container of a pod.
fn container(field: &str) -> bool {
    let lists = ["spec.containers{", "spec.initContainers{", "spec.ephemeralContainers{"];
    let name = lists.iter().find_map(|list| field.strip_prefix(list)?.strip_suffix('}'));
    name.is_some_and(|name| label(name) && name.len() <= limits::LABEL_BYTES)
}

/// Whether it has the form of a DNS label, of any length.
fn label(text: &str) -> bool {
    let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    text.bytes().all(inner) && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether home may choose this name for a guest namespace: a DNS label that is none of
/// Kubernetes' own namespaces.
pub fn may_be_chosen(name: &str) -> bool {
    label(name) && name.len() <= limits::LABEL_BYTES && !is_reserved(name)
}

/// Whether a namespace of this name is the cluster's own, or one that a distribution of
/// Kubernetes, or the daemon, keeps for itself: no guest namespace is called so, none leaves
/// home, and the daemon's account has no rights there (`config/deploy/policies.yaml` says the
/// same to API servers). Policies and controllers of others leave such names out of their
/// checks.
pub fn is_reserved(namespace: &str) -> bool {
    RESERVED.contains(&namespace) || RESERVED_PREFIXES.iter().any(|own| namespace.starts_with(own))
}

/// Namespaces of Kubernetes, of OpenShift and of `config/deploy` that no guest namespace may be called.
const RESERVED: [&str; 4] = ["default", "mercato", "mercato-nodes", "openshift"];
/// Kubernetes reserves the first one; the others are the documented ones of OpenShift,
/// Rancher, GKE, AKS and EKS.
const RESERVED_PREFIXES: [&str; 7] =
    ["kube-", "openshift-", "cattle-", "gke-", "gmp-", "aks-", "amazon-"];

/// Whether Kubernetes could have given them: a DNS label and a DNS subdomain (RFC 1123).
fn names(namespace: &str, name: &str) -> Result<(), CodecError> {
    let fits = namespace.len() <= limits::LABEL_BYTES && name.len() <= limits::SUBDOMAIN_BYTES;
    ensure(fits && label(namespace) && name.split('.').all(label), "a name that is none")
}

impl Outcome {
    /// With as much of its words as a message may hold.
    #[must_use]
    pub fn clipped(self) -> Self {
        match self {
            Self::Succeeded => Self::Succeeded,
            Self::Failed { reason, message } => {
                Self::Failed { reason: clipped(reason), message: clipped(message) }
            }
        }
    }
}

impl Refusal {
    /// With as much of its words as a message may hold.
    #[must_use]
    pub fn clipped(self) -> Self {
        Self { path: clipped(self.path), reason: clipped(self.reason) }
    }
}

/// In normalisation form C, as all text of a message.
fn clipped(text: String) -> String {
    let mut text: String = text.nfc().collect();
    text.truncate(text.floor_char_boundary(limits::TEXT_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        for (namespace, name) in [("shop", "web"), ("a", "kube-root-ca.crt"), ("9", "a.b-c.0")] {
            assert!(names(namespace, name).is_ok(), "{namespace} {name}");
        }
        let long = "a".repeat(254);
        for name in ["", ".", "..", "../x", "a/b", "Web", "-a", "a.", "a..b", "é", "a%2fb", &long]
        {
            assert!(names("shop", name).is_err(), "{name}");
            assert!(names(name, "web").is_err(), "{name}");
        }
        assert!(names("a.b", "web").is_err() && names(&"a".repeat(64), "web").is_err());
    }

    #[test]
    fn no_namespace_of_kubernetes_is_chosen() {
        for name in ["shop", "9", "kube", "default-shop", &"a".repeat(63)] {
            assert!(may_be_chosen(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in ["", "Shop", "a.b", "-a", "../x", "default", "kube-system", "kube-mine", &long]
        {
            assert!(!may_be_chosen(name), "{name}");
        }
        for name in ["mercato", "openshift", "openshift-x", "cattle-system", "gke-x"] {
            assert!(is_reserved(name) && !may_be_chosen(name), "{name}");
        }
    }

    #[test]
    fn a_uid_is_plain() {
        let pod = |uid: &str| PodId {
            uid: super::super::Uid(uid.to_owned()),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        };
        assert!(pod("0b7c-F").validate().is_ok());
        for uid in ["", "a/b", "a.b", "a b", "é"] {
            assert!(pod(uid).validate().is_err(), "{uid:?}");
        }
    }

    #[test]
    fn an_event_is_plain() {
        let event = |reason: &str, field: &str, message: &str| PodEvent {
            kind: super::super::EventKind::Warning,
            reason: reason.to_owned(),
            field: field.to_owned(),
            message: message.to_owned(),
            count: 0,
        };
        let fit = event("BackOff", "spec.initContainers{web-0}", "twice\n\u{1b}[31mred").fit();
        let fit = fit.unwrap();
        assert_eq!((fit.message.as_str(), fit.count), ("twice  [31mred", 1));
        assert!(fit.validate().is_ok());
        assert!(event("BackOff", "", "").validate().is_err(), "it never came");
        assert!(PodEvent { count: 1, ..event("A", "", "\u{9b}") }.validate().is_err());
        for reason in ["", "Back Off", "a/b", "Gr\u{fc}n", &"a".repeat(64)] {
            assert_eq!(event(reason, "", "").fit(), None, "{reason}");
        }
        for field in ["spec", "spec.containers{}", "spec.containers{a}}", "spec.volumes{a}"] {
            assert_eq!(event("Started", field, "").fit(), None, "{field}");
        }
        let long = event("Started", "", &"\u{e9}".repeat(limits::TEXT_BYTES)).fit();
        assert_eq!(long.unwrap().message.len(), limits::TEXT_BYTES);
    }

    #[test]
    fn long_words_are_clipped_between_characters() {
        let long = "é".repeat(limits::TEXT_BYTES);
        let Refusal { path, reason } = Refusal { path: format!("a{long}"), reason: long }.clipped();
        assert_eq!((path.len(), reason.len()), (limits::TEXT_BYTES - 1, limits::TEXT_BYTES));
        let apart = Outcome::Failed { reason: String::new(), message: "e\u{301}".to_owned() };
        let Outcome::Failed { message, .. } = apart.clipped() else { panic!() };
        assert_eq!(message, "é", "as a message has it");
    }
}
