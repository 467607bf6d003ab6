//! Taints of nodes, as people write them for `kubectl taint`: `sku=gpu`.

/// A taint that keeps pods off (`NoSchedule`), as `key` or `key=value`; the effect may be said.
///
/// # Errors
/// What is wrong with it, and an example.
pub fn taint(text: &str) -> Result<String, String> {
    let (taint, effect) = match text.split_once(':') {
        Some((taint, effect)) => (taint, Some(effect)),
        None => (text, None),
    };
    let (key, value) = match taint.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (taint, None),
    };
    let problem = match (effect, value) {
        (Some(effect), _) if effect != "NoSchedule" => {
            format!("guests tolerate NoSchedule alone, and no {effect:?}")
        }
        _ if !is_key(key) => format!("{key:?} is no key of a taint"),
        (_, Some(value)) if !value.is_empty() && !is_word(value) => {
            format!("{value:?} is no value of a taint")
        }
        _ => return Ok(taint.trim_end_matches('=').to_owned()),
    };
    Err(format!("{text:?} is no taint: {problem}; for example sku=gpu, or example.com/gpu"))
}

/// A name, of up to 63 bytes, behind a domain or none.
fn is_key(key: &str) -> bool {
    let Some((domain, name)) = key.split_once('/') else { return is_word(key) };
    let label = |label: &str| {
        is_word(label) && !label.contains(['.', '_']) && label.to_ascii_lowercase() == label
    };
    domain.len() <= 253 && domain.split('.').all(label) && is_word(name)
}

/// Letters and digits, and between them dashes, dots and underlines: 63 bytes at most.
fn is_word(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let ends = [text.bytes().next(), text.bytes().last()];
    let ends = ends.into_iter().all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()));
    ends && text.len() <= 63 && text.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_is_a_key_with_a_value_or_none() {
        for (text, read) in [
            ("sku=gpu", "sku=gpu"),
            ("sku", "sku"),
            ("sku=", "sku"),
            ("example.com/a.b_C", "example.com/a.b_C"),
            ("nvidia.com/gpu=present:NoSchedule", "nvidia.com/gpu=present"),
            ("dedicated:NoSchedule", "dedicated"),
        ] {
            assert_eq!(taint(text).as_deref(), Ok(read), "{text}");
        }
        let long = "x".repeat(64);
        for (text, says) in [
            ("sku=gpu:NoExecute", "NoSchedule alone, and no \"NoExecute\""),
            ("sku=gpu:PreferNoSchedule", "NoSchedule alone"),
            ("sku=gpu:", "no \"\""),
            ("", "\"\" is no key"),
            ("=gpu", "\"\" is no key"),
            ("sku gpu", "\"sku gpu\" is no key"),
            ("Example.com/a", "is no key"),
            ("a/b/c", "is no key"),
            ("sku=a b", "\"a b\" is no value"),
            ("sku=a=b", "\"a=b\" is no value"),
            (&long, "is no key"),
            (&format!("sku={long}"), "is no value"),
        ] {
            let said = taint(text).unwrap_err();
            assert!(said.contains(says) && said.contains("for example sku=gpu"), "{text}: {said}");
        }
    }
}
