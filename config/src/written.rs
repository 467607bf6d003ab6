//! Settings as they stand in a manifest, and the schema that they have there.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Value, json};

/// A part of the settings as somebody wrote it. It has the schema of `T`, and is read as `T`
/// when it is needed, so that what is wrong with it can be answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent, bound = "")]
pub struct Written<T> {
    value: Value,
    #[serde(skip)]
    read_as: PhantomData<T>,
}

impl<T> Written<T> {
    /// The texts that were written, as `T` is deserialized of: a number is a text, and a field
    /// without a value is absent.
    pub fn texts(&self) -> Value {
        texts(&self.value)
    }
}

fn texts(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::String(number.to_string()),
        Value::Array(all) => all.iter().map(texts).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name.clone(), texts(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

impl<T: JsonSchema> JsonSchema for Written<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// An amount as people write it in manifests: `cpu: 2` is as good as `cpu: "2"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_u64<E>(self, n: u64) -> Result<Text, E> {
                Ok(Text(n.to_string()))
            }

            fn visit_i64<E>(self, n: i64) -> Result<Text, E> {
                Ok(Text(n.to_string()))
            }
        }
        from.deserialize_any(Visitor)
    }
}

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "pattern": r"^[0-9]+(\.[0-9]+)?[A-Za-z%]{0,2}$",
        })
    }
}

/// The pattern of a length of time, such as `1h30m`.
pub const DURATION: &str = "^([0-9]+[wdhms])+$";

/// A rule in CEL that an API server checks, and what it says where it does not hold.
pub(crate) fn validation(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

/// A Kubernetes schema is structural: it drops unknown fields instead of refusing them, and
/// defaults are the daemon's, so that a manifest stays as it was written.
pub(crate) fn structural(schema: &mut Schema) {
    schema.remove("additionalProperties");
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in properties.into_iter().flat_map(|fields| fields.values_mut()) {
        if let Some(field) = field.as_object_mut() {
            field.remove("default");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_text() {
        let written = json!({ "cpu": 2, "price": null, "allow": ["org=polito"], "gpu": "h100=1" });
        let written: Written<Text> = serde_json::from_value(written).unwrap();
        let texts = json!({ "cpu": "2", "allow": ["org=polito"], "gpu": "h100=1" });
        assert_eq!(written.texts(), texts);
    }
}
