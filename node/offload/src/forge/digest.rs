//! One digest for one content, however its JSON is written.

use mercato_protocol::id::Digest;
use serde_json::Value;

/// The SHA-256 of the JSON with sorted keys and without spaces: of an exported object,
/// or of a status.
pub fn digest(value: &Value) -> Digest {
    let mut text = String::new();
    write(value, &mut text);
    Digest::of(text.as_bytes())
}

/// Sorted here, since serde_json keeps the order of the text if any crate of the build
/// asks it to.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Array(list) => {
            text.push('[');
            for value in list {
                write(value, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in fields {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

/// The standard alphabet, padded, as in a secret's `data`.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let six = (word >> (18 - 6 * n)) & 63;
            text.push(if n <= chunk.len() { char::from(ALPHABET[six as usize]) } else { '=' });
        }
    }
    text
}
