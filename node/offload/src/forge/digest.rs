//! One digest for one content, however its JSON is written.

use std::fmt;

use mercato_protocol::id::Digest;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The SHA-256 of the JSON with sorted keys and without spaces: of an exported object,
/// or of a status.
pub fn digest(value: &Value) -> Digest {
    let mut text = Vec::new();
    write(value, &mut text);
    Digest::of(&text)
}

/// Sorted here, since serde_json keeps the order of the text if any crate of the build
/// asks it to.
fn write(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Array(list) => {
            text.push(b'[');
            for value in list {
                write(value, text);
                text.push(b',');
            }
            text.push(b']');
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push(b'{');
            for (name, value) in fields {
                plain(name, text);
                text.push(b':');
                write(value, text);
                text.push(b',');
            }
            text.push(b'}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => plain(value, text),
    }
}

fn plain(value: &impl serde::Serialize, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("plain JSON always encodes into memory");
}

/// The same of a JSON text whose keys are sorted, without building anything of it. `None` of any
/// other text.
pub fn digest_of_text(text: &[u8]) -> Option<Digest> {
    let mut sorted = Vec::with_capacity(text.len() + text.len() / 8);
    let mut from = serde_json::Deserializer::from_slice(text);
    Sorted(&mut sorted).deserialize(&mut from).ok()?;
    from.end().ok()?;
    Some(Digest::of(&sorted))
}

/// Writes each value that it visits as [`write`] does.
struct Sorted<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Sorted<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Sorted<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON with sorted keys")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        plain(&(), self.0);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        plain(&value, self.0);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        plain(&value, self.0);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        plain(&value, self.0);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        plain(&value, self.0);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        plain(&value, self.0);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        while list.next_element_seed(Sorted(self.0))?.is_some() {
            self.0.push(b',');
        }
        self.0.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.push(b'{');
        let mut last: Option<String> = None;
        while let Some(name) = map.next_key::<String>()? {
            if last.as_ref().is_some_and(|last| *last >= name) {
                return Err(A::Error::custom("keys out of order"));
            }
            plain(&name, self.0);
            self.0.push(b':');
            map.next_value_seed(Sorted(self.0))?;
            self.0.push(b',');
            last = Some(name);
        }
        self.0.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i16>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_text_has_the_digest_of_what_it_says(value in any_value()) {
            let text = serde_json::to_string(&value).unwrap();
            let sorted = digest_of_text(text.as_bytes());
            prop_assert_eq!(sorted, Some(digest(&value)));
        }
    }

    #[test]
    fn of_what_is_not_sorted_or_no_json_there_is_none() {
        for text in [r#"{"b":1,"a":2}"#, r#"{"a":1,"a":2}"#, "{", "[1] 2", ""] {
            assert_eq!(digest_of_text(text.as_bytes()), None, "{text}");
        }
    }
}
