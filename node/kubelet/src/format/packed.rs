//! Objects that are kept for long, as text: parsed, each map of an object takes more than
//! half a KiB, however little is in it, and a pod has some fifty of them.

use std::sync::Arc;

use serde_json::Value;

/// An object's JSON text. Clones share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed(Arc<str>);

impl Packed {
    /// The text of this object.
    pub fn new(object: &Value) -> Self {
        Self(object.to_string().into())
    }

    /// The object as it was before it was packed.
    pub fn open(&self) -> Value {
        serde_json::from_str(&self.0).expect("it was written from an object")
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_packed_comes_out_again() {
        let pod = json!({ "metadata": { "name": "wéb \"x\"" }, "spec": { "n": [1.5, null] } });
        assert_eq!(Packed::new(&pod).open(), pod);
    }
}
