//! What the provider's kubelet says of a guest, in home's words: its messages name the guest's namespace
//! and uid, by which nobody at home finds anything.

use serde_json::{Map, Value, json};

use super::labels::{HOME_NAMESPACE, HOME_UID};

/// What a guest pod is called at the provider, and at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called<'a> {
    /// Its name, the same in both.
    pub name: &'a str,
    /// Its namespace and its uid at the provider.
    pub there: Place<'a>,
    /// The same two of home's pod.
    pub home: Place<'a>,
}

/// A namespace, and a pod's uid in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The name of the namespace.
    pub namespace: &'a str,
    /// The uid of the pod, or nothing.
    pub uid: &'a str,
}

impl<'a> Called<'a> {
    /// By the marks of a guest pod; none, if it has not all of them.
    pub(super) fn of(guest: &'a Value) -> Option<Self> {
        let metadata = &guest["metadata"];
        let (namespace, uid) = (metadata["namespace"].as_str()?, metadata["uid"].as_str()?);
        let there = Place { namespace, uid };
        let namespace = metadata["annotations"][HOME_NAMESPACE].as_str()?;
        let home = Place { namespace, uid: metadata["labels"][HOME_UID].as_str()? };
        Some(Self { name: metadata["name"].as_str()?, there, home })
    }

    /// A message of the provider's, with home's namespace and uid where it has this guest's. A namespace
    /// may be called as anything else is: it counts only where a kubelet or an API server says one.
    pub fn at_home(&self, message: &str) -> String {
        let Self { name, there, home } = *self;
        // As in a pod's own folder; in `pod "NAME_NAMESPACE(UID)"`; `object "NAMESPACE"/"x"`; and in
        // refusals of an API server.
        let forms: [&dyn Fn(&Place<'_>) -> String; 5] = [
            &|place| format!("/{}_{name}_", place.namespace),
            &|place| format!("{name}_{}", place.namespace),
            &|place| format!("object \"{}\"/", place.namespace),
            &|place| format!("namespace \"{}\"", place.namespace),
            &|place| format!("namespace {}", place.namespace),
        ];
        let named = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        let mut said = message.to_owned();
        let is_called = ![name, there.namespace].contains(&"");
        for form in forms.iter().filter(|_| is_called) {
            said = replaced(&said, &form(&there), &form(&home), named);
        }
        replaced(&said, there.uid, home.uid, |c| c.is_ascii_alphanumeric() || c == '-')
    }

    /// The same for the messages of a status, which the provider's kubelet has written.
    pub(super) fn turn_status(&self, status: &mut Map<String, Value>) {
        let turn = |message: &mut Value| {
            if let Some(text) = message.as_str() {
                *message = json!(self.at_home(text));
            }
        };
        status.get_mut("message").into_iter().for_each(turn);
        for list in LISTS {
            let list = status.get_mut(list).and_then(Value::as_array_mut);
            for one in list.into_iter().flatten() {
                one.get_mut("message").into_iter().for_each(turn);
                // What an ended container has left is its own word.
                one.pointer_mut("/state/waiting/message").into_iter().for_each(turn);
            }
        }
    }
}

/// Lists of a status with messages in them.
const LISTS: [&str; 4] =
    ["conditions", "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

/// With `other` wherever `word` stands by itself: no character of a name before and after it.
fn replaced(text: &str, word: &str, other: &str, of_name: impl Fn(char) -> bool) -> String {
    if word.is_empty() || word == other {
        return text.to_owned();
    }
    let is_open = |c: char| !c.is_ascii_alphanumeric();
    let (begins_open, ends_open) = (word.starts_with(is_open), word.ends_with(is_open));
    let (mut said, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once(word) {
        let last = if before.is_empty() { said.as_str() } else { before };
        let begins = begins_open || !last.ends_with(&of_name);
        let ends = ends_open || !after.starts_with(&of_name);
        said.push_str(before);
        said.push_str(if begins && ends { other } else { word });
        rest = after;
    }
    said.push_str(rest);
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: &str = "62212641-0000-4000-8000-000000000001";
    const HOME: &str = "9e107d9d-0000-4000-8000-000000000002";

    fn called() -> Called<'static> {
        Called {
            name: "web",
            there: Place { namespace: "shop-rome", uid: THERE },
            home: Place { namespace: "shop", uid: HOME },
        }
    }

    #[test]
    fn messages_name_homes_namespace_and_uid() {
        for (said, told) in [
            (
                format!("Back-off restarting failed container a in pod web_shop-rome({THERE})"),
                format!("Back-off restarting failed container a in pod web_shop({HOME})"),
            ),
            (
                format!("back-off 5m0s restarting failed container=a pod=web_shop-rome({THERE})"),
                format!("back-off 5m0s restarting failed container=a pod=web_shop({HOME})"),
            ),
            (
                format!(
                    "container has runAsNonRoot (pod: \"web_shop-rome({THERE})\", container: r)"
                ),
                format!("container has runAsNonRoot (pod: \"web_shop({HOME})\", container: r)"),
            ),
            (
                format!(
                    "/var/log/pods/shop-rome_web_{THERE}/a, /var/lib/kubelet/pods/{THERE}/volumes"
                ),
                format!("/var/log/pods/shop_web_{HOME}/a, /var/lib/kubelet/pods/{HOME}/volumes"),
            ),
        ] {
            assert_eq!(called().at_home(&said), told);
        }
        for (said, told) in [
            (
                "container init not found in pod web_shop-rome",
                "container init not found in pod web_shop",
            ),
            ("object \"shop-rome\"/\"x\" not registered", "object \"shop\"/\"x\" not registered"),
            ("in the namespace \"shop-rome\": no", "in the namespace \"shop\": no"),
            ("namespace shop-rome is being terminated", "namespace shop is being terminated"),
        ] {
            assert_eq!(called().at_home(said), told);
        }
    }

    /// Also where the namespace is called as something else is.
    #[test]
    fn nothing_but_the_guests_own_names_is_replaced() {
        let other = "62212641-0000-4000-8000-000000000001-a";
        for said in [
            "container not found (\"shop-rome\")".to_owned(),
            "Pulling image \"shop-rome/web:1\", x/web_shop-rome:1".to_owned(),
            "containers with unready status: [shop-rome]".to_owned(),
            "pod db_shop-rome, web_shop-rome-2, my-web_shop-rome, web_shop-rome.x".to_owned(),
            "namespace shop-romes, object \"shop\"/\"shop-rome\"".to_owned(),
            format!("pod web_shop-milan({other})"),
            "web_shop-romeweb_shop-rome".to_owned(),
        ] {
            assert_eq!(called().at_home(&said), said);
        }
        let nothing = Place { namespace: "", uid: "" };
        let called = Called { name: "", there: nothing, ..called() };
        assert_eq!(called.at_home("pod_(a) namespace x"), "pod_(a) namespace x");
    }
}
