//! Whether an object is in a cluster as it was written, however the API server writes it.

use mercato_protocol::quantity;
use serde_json::{Value, json};

/// Whether all that is wanted is there, whatever else is. Times aside: they tell when something was
/// written.
pub(super) fn contains(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            let unset = wanted.is_null() || *wanted == json!(false) || *wanted == json!("");
            let found = present.get(name);
            name.ends_with("Time") || found.map_or(unset, |present| contains(present, wanted))
        }),
        (Value::Array(present), Value::Array(wanted)) => {
            wanted.iter().all(|one| present.iter().any(|other| contains(other, one)))
        }
        // The API server writes 1 for 1000m.
        (Value::String(present), Value::String(wanted)) => {
            let amount = quantity::millis(wanted);
            present == wanted || amount.is_some() && amount == quantity::millis(present)
        }
        (present, wanted) => present == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_the_same_however_they_are_written() {
        let same =
            |present, wanted| contains(&json!({ "cpu": present }), &json!({ "cpu": wanted }));
        assert!(same("1", "1000m") && same("web", "web"));
        assert!(!same("2", "1000m") && !same("web", "db") && !same("web", "1"));
    }
}
