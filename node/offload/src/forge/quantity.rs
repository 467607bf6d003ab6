//! Kubernetes quantities, as far as dividing one by another needs them.

/// How many times `divisor` goes into `quantity`, rounded up, as a kubelet shows it.
/// None if either is not a quantity.
pub(super) fn divide(quantity: &str, divisor: &str) -> Option<u128> {
    let (quantity, divisor) = (nano(quantity)?, nano(divisor)?);
    (divisor > 0).then(|| quantity.div_ceil(divisor))
}

/// In billionths, rounded up.
fn nano(text: &str) -> Option<u128> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let scale: u128 = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        "" => 1_000_000_000,
        "k" => 1_000_000_000_000,
        "M" => 1_000_000_000_000_000,
        "G" => 1_000_000_000_000_000_000,
        "T" => 1_000_000_000_000_000_000_000,
        "Ki" => 1_000_000_000 << 10,
        "Mi" => 1_000_000_000 << 20,
        "Gi" => 1_000_000_000 << 30,
        "Ti" => 1_000_000_000 << 40,
        _ => return None,
    };
    if fraction.len() > 9 || whole.len() > 15 {
        return None;
    }
    let value: u128 = format!("{whole}{fraction}").parse().ok()?;
    let power = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    Some((value * scale).div_ceil(power))
}

#[cfg(test)]
mod tests {
    use super::divide;

    #[test]
    fn divides_as_a_kubelet_does() {
        assert_eq!(divide("1500m", "1"), Some(2));
        assert_eq!(divide("1500m", "1m"), Some(1_500));
        assert_eq!(divide("2Gi", "1Mi"), Some(2_048));
        assert_eq!(divide("0.5", "1m"), Some(500));
        assert_eq!(divide("16Gi", "1"), Some(17_179_869_184));
        assert_eq!(divide("much", "1"), None);
        assert_eq!(divide("1", "0"), None);
    }
}
