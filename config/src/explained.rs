//! What is wrong with a configuration file, in the words of a person who writes one.

use std::borrow::Cow;

use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter};

/// Where a text is wrong, and how: its line with a mark below.
pub(crate) fn explained(error: &Error) -> String {
    let text = error.render_with_formatter(&Words);
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // It says where the text is from, which only the caller knows.
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("--> <input>"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The words of YAML's users in the place of its grammar's.
struct Words;

impl MessageFormatter for Words {
    fn format_message<'a>(&self, error: &'a Error) -> Cow<'a, str> {
        let Error::Unexpected { expected, .. } = error else {
            return DefaultMessageFormatter.format_message(error);
        };
        match *expected {
            "sequence start" => "expected a list, such as [one, two]".into(),
            "mapping start" => "expected keys with values, such as {key: value}".into(),
            _ => DefaultMessageFormatter.format_message(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Settings;

    #[test]
    fn a_person_reads_what_was_expected_and_where() {
        let said = |yaml: &str| Settings::parse("m.yaml", yaml).unwrap_err().to_string();
        let list = said("lan: on\npeers: rome\n");
        assert!(list.starts_with("m.yaml: line 2 column 8: expected a list"), "{list}");
        assert!(list.contains("| peers: rome\n"), "{list}");
        let keys = said("gateway: [1]\n");
        assert!(keys.starts_with("m.yaml: line 1 column 10: expected keys with values"), "{keys}");
        for said in [list, keys, said("shares: 1\n"), said("a: [\n"), said("health: 1\n")] {
            for word in ["error:", "<input>", "sequence start", "mapping start"] {
                assert!(!said.contains(word), "{word}: {said}");
            }
        }
    }
}
