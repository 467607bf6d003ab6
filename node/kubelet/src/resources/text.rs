//! Amounts as people write them in manifests: `cpu: 2` is as good as `cpu: "2"`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

/// A text, or a whole number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text(pub String);

/// What may stand there: a plain amount with a suffix or percent sign.
const PATTERN: &str = r"^[0-9]+(\.[0-9]+)?[A-Za-z%]{0,2}$";

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
            "pattern": PATTERN,
        })
    }
}
