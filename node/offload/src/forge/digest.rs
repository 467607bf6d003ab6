//! One digest for one content, however its JSON is written.

use mercato_protocol::id::Digest;
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
