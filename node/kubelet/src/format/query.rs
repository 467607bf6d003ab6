//! Query strings, both ways: what an API server asks of a kubelet, and what
//! is asked of an API server.

use std::fmt;

/// Parameters in the order they came, escapes undone.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        Self(form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect())
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
        form_urlencoded::Serializer::new(&mut self.0).append_pair(key, &value.to_string());
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_escape_is_two_hexadecimal_digits_and_anything_else_is_as_it_stands() {
        for (text, value) in [
            ("%2f", "/"),
            ("%+f", "% f"),
            ("%-1", "%-1"),
            ("%2", "%2"),
            ("%zz+", "%zz "),
            ("%", "%"),
        ] {
            let query = format!("v={text}");
            assert_eq!(Query::parse(Some(&query)).one("v"), Some(value), "{text}");
        }
    }

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
