//! What the daemon's rights were when it asked for something.

use anyhow::Result;
use serde_json::Value;

/// When namespaces were without the bindings of the daemon's rights, since they were being deleted: from
/// when Kubernetes removed them until the daemon has written them again. What is asked for in between
/// cannot know of it.
pub(super) struct WithoutRights(Vec<Going>);

struct Going {
    namespace: Value,
    from: String,
    until: Option<String>,
}

impl WithoutRights {
    /// By the lines of an audit log.
    pub(super) fn of(log: &str) -> Result<Self> {
        let mut all = Vec::<Going>::new();
        for line in log.lines().filter(|line| line.contains("\"rolebindings\"")) {
            let event: Value = serde_json::from_str(line)?;
            let (object, from) = (&event["objectRef"], received(&event).to_owned());
            let namespace = object["namespace"].clone();
            let by = event["user"]["username"].as_str().unwrap_or_default();
            if event["verb"] == "deletecollection" && by.ends_with(":namespace-controller") {
                all.push(Going { namespace, from, until: None });
            } else if event["verb"] == "patch" && event["responseStatus"]["code"] == 201 {
                let open = all.iter_mut().filter(|going| going.namespace == namespace);
                for going in open {
                    going.until.get_or_insert_with(|| from.clone());
                }
            }
        }
        Ok(Self(all))
    }

    pub(super) fn has(&self, event: &Value) -> bool {
        let (namespace, at) = (&event["objectRef"]["namespace"], received(event));
        self.0.iter().any(|going| {
            let is_over = going.until.as_deref().is_some_and(|until| at >= until);
            going.namespace == *namespace && at >= going.from.as_str() && !is_over
        })
    }
}

/// When a request came, in the one form of an audit log, which compares as text.
fn received(event: &Value) -> &str {
    event["requestReceivedTimestamp"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rights_are_away_from_the_end_of_a_namespace_until_they_are_written_again() {
        let event = |verb: &str, by: &str, at: &str, code: u16| {
            json!({ "verb": verb, "user": { "username": by }, "requestReceivedTimestamp": at,
                "objectRef": { "resource": "rolebindings", "namespace": "shop-rome" },
                "responseStatus": { "code": code } })
        };
        let controller = "system:serviceaccount:kube-system:namespace-controller";
        let log = [
            event("patch", "mercato", "15:35:25", 201),
            event("deletecollection", controller, "15:35:50", 200),
            event("patch", "mercato", "15:35:51", 201),
        ];
        let log = log.map(|line| line.to_string()).join("\n");
        let without = WithoutRights::of(&log).unwrap();
        let create = |namespace: &str, at: &str| json!({ "objectRef": { "namespace": namespace }, "requestReceivedTimestamp": at });
        let is_away = |at| without.has(&create("shop-rome", at));
        assert_eq!(["15:35:49", "15:35:50", "15:35:51"].map(is_away), [false, true, false]);
        assert!(!without.has(&create("bank-rome", "15:35:50")));
    }
}
