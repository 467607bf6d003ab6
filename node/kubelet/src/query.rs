//! Query strings, both ways: what an API server asks of a kubelet, and what
//! is asked of an API server.

use std::fmt;

/// Parameters in the order they came, escapes undone.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (unescape(key), unescape(value))
                })
                .collect(),
        )
    }

    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    pub(crate) fn one(&self, key: &str) -> Option<&str> {
        self.all(key).next()
    }

    /// As Go's `strconv.ParseBool` reads it, absent meaning no.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.one(key), Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    /// A number, if it is there; an error if it is none.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, String> {
        self.one(key)
            .map(|text| text.parse().map_err(|_| format!("{key}={text} is not a number")))
            .transpose()
    }
}

/// Parameters to be sent, escaped; prints as a query string.
#[derive(Default)]
pub(crate) struct Parameters(String);

impl Parameters {
    pub(crate) fn add(&mut self, key: &str, value: impl fmt::Display) {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(key);
        self.0.push('=');
        self.0.push_str(&escape(&value.to_string()));
    }

    pub(crate) fn add_some(&mut self, key: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn escape(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(
            |byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") },
        )
        .collect()
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|h| std::str::from_utf8(h).ok());
        match (byte, hex.and_then(|h| u8::from_str_radix(h, 16).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_sent_is_read_back(values in proptest::collection::vec(".*", 0..4)) {
            let mut parameters = Parameters::default();
            values.iter().for_each(|value| parameters.add("v", value));
            let text = parameters.to_string();
            let query = Query::parse(Some(&text));
            prop_assert_eq!(query.all("v").collect::<Vec<_>>(), values);
        }

        #[test]
        fn any_query_is_read(text in ".*") {
            let query = Query::parse(Some(&text));
            prop_assert!(query.0.len() <= text.len());
        }
    }
}
