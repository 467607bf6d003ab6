//! Kubernetes quantities (`100m`, `1.5Gi`, `2e3`) as whole numbers.

/// Thousandths of the unit, rounded up as Kubernetes does; none if the text is
/// no quantity or is below zero.
pub fn millis(text: &str) -> Option<u64> {
    scaled(text, 1000)
}

/// Billionths of the unit, likewise: what a metrics API counts processors in.
pub fn nanos(text: &str) -> Option<u64> {
    scaled(text, 1_000_000_000)
}

/// Whole units, rounded up: bytes, or a count.
pub fn units(text: &str) -> Option<u64> {
    scaled(text, 1)
}

/// A quantity of so many thousandths.
pub fn from_millis(millis: u64) -> String {
    if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") }
}

fn scaled(text: &str, times: i128) -> Option<u64> {
    let text = text.trim();
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '+').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('+') {
        return None;
    }
    // Nine digits after the point are all that Kubernetes keeps.
    let fraction = &fraction[..fraction.len().min(9)];
    let digits: i128 = format!("{}{fraction:0<9}", whole.trim_start_matches('+')).parse().ok()?;
    let (multiplier, divisor) = scale(suffix)?;
    let divisor = divisor.checked_mul(1_000_000_000)?;
    let value = digits.checked_mul(multiplier)?.checked_mul(times)?;
    u64::try_from(value.checked_add(divisor - 1)? / divisor).ok()
}

fn scale(suffix: &str) -> Option<(i128, i128)> {
    let decimal = |power| (10_i128.pow(power), 1);
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let ten = 10_i128.checked_pow(power.unsigned_abs().min(18))?;
            if power < 0 { (1, ten) } else { (ten, 1) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_the_documentation() {
        for (text, expected) in [
            ("0", 0),
            ("100m", 100),
            ("1", 1000),
            ("0.1", 100),
            ("1.5", 1500),
            ("2e3", 2_000_000),
            ("1E2", 100_000),
            ("1n", 1),
            ("1500u", 2),
            ("12E-1", 1200),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        for (text, expected) in [
            ("64Mi", 64 << 20),
            ("1.5Gi", 3 << 29),
            ("128974848", 128_974_848),
            ("129M", 129_000_000),
            ("128974848000m", 128_974_848),
            ("1k", 1000),
        ] {
            assert_eq!(units(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn usage_is_counted_in_billionths() {
        for (text, expected) in [("0", 0), ("123n", 123), ("250m", 250_000_000), ("3u", 3_000)] {
            assert_eq!(nanos(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_none() {
        for text in ["", "-1", "Gi", "1Q", "1.2.3", "1e", "x", "1 Gi", "99999999999999999999Ei"] {
            assert_eq!(units(text), None, "{text}");
        }
    }

    #[test]
    fn millis_read_back() {
        for value in [0, 1, 999, 1000, 1500, 96_000] {
            assert_eq!(millis(&from_millis(value)), Some(value));
        }
    }
}
