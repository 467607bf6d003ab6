//! What is kept of a pod's spec: by what the webhook places it, and whatever keeps it at home.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::kept::Kept;
use crate::limits;

/// What a pod is to be, but for [`IGNORED`]: where it may run, and whatever keeps it at home.
#[derive(Default)]
pub(super) struct Spec(pub(super) Map<String, Value>);

/// Fields by which the answer goes: a review is no good where one of them is too large.
pub(super) const PLACING: [&str; 4] = ["nodeName", "nodeSelector", "tolerations", "affinity"];

/// Fields, wherever they stand, that may be long and keep no pod at home.
const IGNORED: [&str; 6] = ["args", "command", "value", "image", "workingDir", "hostAliases"];

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Spec {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what a pod is to be")
    }

    /// Where the others take too much none of them is kept: whoever it goes to refuses it then.
    fn visit_map<A: MapAccess<'de>>(mut self, mut all: A) -> Result<Self, A::Error> {
        let left = Cell::new(limits::ADMISSION_SPEC);
        let mut others = Map::new();
        while let Some(name) = all.next_key::<String>()? {
            if PLACING.contains(&&*name) {
                let Kept(value) = all.next_value()?;
                self.0.insert(name, value);
            } else if let Some(value) = all.next_value_seed(Field { name: &name, left: &left })? {
                others.insert(name, value);
            }
        }
        if left.get() > 0 {
            self.0.append(&mut others);
        }
        Ok(self)
    }
}

/// A field of that name, of which as much is kept as there is room for; none where nothing is left of that.
#[derive(Clone, Copy)]
struct Field<'a> {
    name: &'a str,
    left: &'a Cell<usize>,
}

impl Field<'_> {
    /// Takes the room of a value with a text of this length; whether there is that room.
    fn has_room(self, text: usize) -> bool {
        let left = self.left.get().checked_sub(limits::ADMISSION_VALUE + text);
        self.left.set(left.unwrap_or(0));
        left.is_some_and(|left| left > 0)
    }

    fn one(self, text: usize, value: impl Into<Value>) -> Option<Value> {
        self.has_room(text).then(|| value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<Value>, D::Error> {
        if self.left.get() == 0 || IGNORED.contains(&self.name) {
            return from.deserialize_ignored_any(IgnoredAny).map(|_| None);
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field of a pod")
    }

    fn visit_unit<E: Error>(self) -> Result<Option<Value>, E> {
        Ok(self.one(0, Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<Value>, E> {
        Ok(self.one(0, value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<Value>, E> {
        Ok(self.one(0, value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<Value>, E> {
        Ok(self.one(0, value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<Value>, E> {
        Ok(self.one(0, value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<Value>, E> {
        Ok(self.one(text.len(), text))
    }

    /// What is ignored of a list leaves its place empty, so that the others keep theirs.
    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Option<Value>, A::Error> {
        let is_kept = self.has_room(0);
        let mut values = Vec::new();
        while let Some(value) = all.next_element_seed(self)? {
            values.extend(is_kept.then(|| value.unwrap_or_default()));
        }
        Ok(is_kept.then_some(Value::Array(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Option<Value>, A::Error> {
        let is_kept = self.has_room(0);
        let mut fields = Map::new();
        while let Some(name) = all.next_key::<String>()? {
            let is_kept = is_kept && self.has_room(name.len());
            let value = all.next_value_seed(Field { name: &name, ..self })?;
            fields.extend(value.filter(|_| is_kept).map(|value| (name, value)));
        }
        Ok(is_kept.then_some(Value::Object(fields)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_keeps_a_pod_at_home_is_read_and_the_long_texts_beside_it_are_not() {
        let read = |spec: &Value| {
            let Spec(kept) = serde_json::from_str(&spec.to_string()).unwrap();
            Value::Object(kept)
        };
        let long = "x".repeat(limits::ADMISSION_SPEC);
        let of = |args: &str| {
            json!({ "nodeSelector": { "disk": "ssd" },
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } },
                { "name": "tls", "secret": { "secretName": "tls", "optional": false } }],
            "containers": [{ "name": "web", "args": [args], "env": [{ "name": "A", "value": args }],
                "ports": [{ "containerPort": 80, "hostPort": 80 }] }] })
        };
        let spec = read(&of(&long));
        assert_eq!(spec["volumes"], of("")["volumes"]);
        assert_eq!(spec["containers"][0]["ports"], of("")["containers"][0]["ports"]);
        assert_eq!(spec["containers"][0]["env"], json!([{ "name": "A" }]));
        assert_eq!(spec["nodeSelector"], of("")["nodeSelector"]);
        let mut large = of("");
        large["containers"][0]["lifecycle"] = json!({ "postStart": long });
        assert_eq!(read(&large), json!({ "nodeSelector": { "disk": "ssd" } }));
    }
}
