//! Kubernetes quantities (`100m`, `1.5Gi`, `2e3`), read by the rules of its
//! `resource.Quantity`. Every crate that reads an amount out of a Kubernetes object
//! reads it here; what people type at the command line is the broker's `syntax`.

/// Longest text that is read: an API server writes some twenty characters.
const LONGEST: usize = 128;

/// Kubernetes keeps nine digits after the point and rounds the rest up.
const DECIMALS: i64 = 9;

/// A whole unit, in billionths of one.
const ONE: i128 = 1_000_000_000;

/// The largest quantity that Kubernetes keeps, in billionths: larger ones become this.
const LARGEST: i128 = i64::MAX as i128 * ONE;

/// An amount, in billionths of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// Reads a quantity as it stands in a Kubernetes object; none if the text is none.
    pub fn read(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if text.len() > LONGEST || whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let (tens, doublings) = scale(suffix)?;
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|d| d - b'0').collect();
        let mut point = i64::try_from(whole.len()).ok()?;
        for _ in 0..doublings {
            point += double(&mut digits);
        }
        let amount = billionths(&digits, point + i64::from(tens) + DECIMALS);
        Some(Self(if negative { -amount } else { amount }))
    }

    /// Billionths of the unit; none below zero, or above what a u64 holds.
    pub fn nanos(self) -> Option<u64> {
        self.in_steps(1)
    }

    /// Thousandths of the unit, rounded up as Kubernetes does; none below zero.
    pub fn millis(self) -> Option<u64> {
        self.in_steps(1_000_000)
    }

    /// Whole units, rounded up: bytes, or a count; none below zero.
    pub fn units(self) -> Option<u64> {
        self.in_steps(1_000_000_000)
    }

    /// How many times `divisor` goes into it, rounded up, as a kubelet shows it to a
    /// container; none unless both are positive.
    pub fn divide(self, divisor: Self) -> Option<u128> {
        let (amount, divisor) = (u128::try_from(self.0).ok()?, u128::try_from(divisor.0).ok()?);
        (divisor > 0).then(|| amount.div_ceil(divisor))
    }

    fn in_steps(self, step: u128) -> Option<u64> {
        u64::try_from(u128::try_from(self.0).ok()?.div_ceil(step)).ok()
    }
}

/// Thousandths of the unit that the text names, rounded up; none if it is no quantity or
/// is below zero.
pub fn millis(text: &str) -> Option<u64> {
    Quantity::read(text)?.millis()
}

/// Billionths of the unit, likewise: what a metrics API counts processors in.
pub fn nanos(text: &str) -> Option<u64> {
    Quantity::read(text)?.nanos()
}

/// Whole units, rounded up, likewise: bytes, or a count.
pub fn units(text: &str) -> Option<u64> {
    Quantity::read(text)?.units()
}

/// A quantity of so many thousandths, as Kubernetes writes it.
pub fn from_millis(millis: u64) -> String {
    if millis.is_multiple_of(1000) { (millis / 1000).to_string() } else { format!("{millis}m") }
}

/// The quantity as an API server writes it: as few digits as there can be without a point, and the
/// suffix of the kind that the text has (`1024Mi` is `1Gi`, `0.5` is `500m`, and each nothing is `0`).
/// None if the text is none.
pub fn canonical(text: &str) -> Option<String> {
    let Quantity(amount) = Quantity::read(text)?;
    let suffix = text.trim_start_matches(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    if amount == 0 {
        return Some("0".to_owned());
    }
    if suffix.ends_with('i') && amount % ONE == 0 && (amount / ONE).abs() >= 1024 {
        let (units, power) = shortened(amount / ONE, 1024, BINARY.len() - 1);
        return Some(format!("{units}{}", BINARY[power]));
    }
    let (mantissa, power) = shortened(amount, 1000, DECIMAL.len() - 1);
    let has_exponent = suffix.len() > 1 && suffix.starts_with(['e', 'E']);
    Some(match (has_exponent, power) {
        (true, UNITS) => mantissa.to_string(),
        (true, power) => {
            let exponent = 3 * (i64::try_from(power).ok()? - i64::try_from(UNITS).ok()?);
            format!("{mantissa}e{exponent}")
        }
        (false, power) => format!("{mantissa}{}", DECIMAL[power]),
    })
}

/// The number without as many factors of `base` as it has, `most` of them at most, and how many.
fn shortened(mut number: i128, base: i128, most: usize) -> (i128, usize) {
    let mut power = 0;
    while number % base == 0 && power < most {
        number /= base;
        power += 1;
    }
    (number, power)
}

/// Suffixes by powers of a thousand, from billionths on.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// The one of units among them.
const UNITS: usize = 3;
/// Suffixes by powers of 1,024, from units on.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Powers of ten and of two that a suffix stands for.
fn scale(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "" => (0, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => (suffix.strip_prefix(['e', 'E'])?.parse().ok()?, 0),
    })
}

/// Doubles a decimal number; returns by how many digits it has grown at the front.
fn double(digits: &mut Vec<u8>) -> i64 {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let doubled = *digit * 2 + carry;
        (*digit, carry) = (doubled % 10, doubled / 10);
    }
    if carry == 0 {
        return 0;
    }
    digits.insert(0, carry);
    1
}

/// The digits before `end` as one number, rounded up by those behind it.
fn billionths(digits: &[u8], end: i64) -> i128 {
    let Some(first) = digits.iter().position(|digit| *digit != 0) else { return 0 };
    let leading = end.saturating_sub(i64::try_from(first).unwrap_or(i64::MAX));
    if leading > 28 {
        return LARGEST;
    }
    let end = usize::try_from(end).unwrap_or(0);
    let digit = |at: usize| i128::from(digits.get(at).copied().unwrap_or(0));
    let kept = (first..end).fold(0, |sum: i128, at| sum * 10 + digit(at));
    let rest = digits.get(end.max(first)..).is_some_and(|rest| rest.iter().any(|d| *d != 0));
    (kept + i128::from(rest)).min(LARGEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Cases of Kubernetes' own tests, in billionths.
    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (text, nanos) in [
            ("0", 0),
            ("0n", 0),
            ("-0Ki", 0),
            ("5n", 5),
            ("4u", 4_000),
            ("3m", 3_000_000),
            ("9", 9 * ONE),
            ("50k", 50_000 * ONE),
            ("1E4", 10_000 * ONE),
            ("1e+3", 1_000 * ONE),
            ("12E-1", ONE * 6 / 5),
            ("1Ki", 1_024 * ONE),
            ("1.5Gi", (3 << 29) * ONE),
            ("0.25Mi", (1 << 18) * ONE),
            ("0.5", ONE / 2),
            (".001", ONE / 1_000),
            ("1.", ONE),
            ("+1", ONE),
            ("-1.1", -ONE * 11 / 10),
            ("1.1Ki", 1_126_400_000_000),
            (".01u", 10),
            (".1n", 1),
            ("1.00000000001", ONE + 1),
            ("1e-400", 1),
            ("3Ei", (3 << 60) * ONE),
            ("10E", LARGEST),
            ("9.22337203685477580701E18", LARGEST),
            ("100000Ei", LARGEST),
            ("1e2147483647", LARGEST),
            ("-10Ei", -LARGEST),
            ("0e2147483647", 0),
        ] {
            assert_eq!(Quantity::read(text), Some(Quantity(nanos)), "{text}");
        }
        for text in [
            "",
            "-",
            ".",
            "Gi",
            "1.1.M",
            "1+1.0M",
            "0.1mi",
            "0.1am",
            "aoeu",
            ".5i",
            "1i",
            "-3.01i",
            "-3.01e-",
            "1e",
            "1e1.5",
            " 1",
            "1 ",
            "1 Gi",
            "1Q",
            "--1",
            "1e99999999999",
        ] {
            assert_eq!(Quantity::read(text), None, "{text:?}");
        }
        assert_eq!(Quantity::read(&"1".repeat(LONGEST + 1)), None, "longer than anybody writes");
    }

    #[test]
    fn the_canonical_form_is_that_of_an_api_server() {
        for (text, written) in [
            ("0k", "0"),
            ("-0Gi", "0"),
            ("0.000e5", "0"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.5Mi", "512Ki"),
            ("1073741824", "1073741824"),
            ("1000", "1k"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("+1.50", "1500m"),
            ("1e3", "1e3"),
            ("12E-1", "1200e-3"),
            ("1E", "1E"),
            ("1e0", "1"),
            ("-2000", "-2k"),
            (".1n", "1n"),
            ("1025Ki", "1025Ki"),
            ("0.7Ki", "716800m"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(written), "{text}");
        }
        assert_eq!((canonical(""), canonical("1Q")), (None, None));
    }

    #[test]
    fn what_is_read_is_rounded_up_and_never_below_zero() {
        assert_eq!((millis("1500u"), units("1500m"), nanos("123n")), (Some(2), Some(2), Some(123)));
        assert_eq!((millis("-1"), units("-1n"), nanos("1E")), (None, None, None));
        let divide = |amount, by| Quantity::read(amount)?.divide(Quantity::read(by)?);
        assert_eq!(divide("1500m", "1"), Some(2));
        assert_eq!(divide("1500m", "1m"), Some(1_500));
        assert_eq!(divide("2Gi", "1Mi"), Some(2_048));
        assert_eq!(divide("16Gi", "1"), Some(17_179_869_184));
        assert_eq!((divide("1", "0"), divide("-1", "1")), (None, None));
    }

    /// A suffix with its fraction: so many times, over so many.
    fn suffixes() -> impl Strategy<Value = (String, i128, i128)> {
        let named = [
            ("n", 1, 1_000_000_000),
            ("u", 1, 1_000_000),
            ("m", 1, 1_000),
            ("", 1, 1),
            ("k", 1_000, 1),
            ("M", 1_000_000, 1),
            ("G", 1_000_000_000, 1),
            ("Ki", 1 << 10, 1),
            ("Mi", 1 << 20, 1),
            ("Gi", 1 << 30, 1),
        ];
        let named = named.map(|(name, times, over)| (name.to_owned(), times, over));
        let exponent = (any::<bool>(), -6..=6_i32).prop_map(|(upper, power)| {
            let ten = 10_i128.pow(power.unsigned_abs());
            let name = format!("{}{power}", if upper { 'E' } else { 'e' });
            if power < 0 { (name, 1, ten) } else { (name, ten, 1) }
        });
        prop_oneof![proptest::sample::select(named.to_vec()), exponent]
    }

    proptest! {
        /// Whatever is written: the exact fraction, rounded away from zero to billionths.
        #[test]
        fn the_value_is_exact(
            negative: bool, whole in 0..1_000_000_i128, fraction in "[0-9]{0,7}",
            (suffix, times, over) in suffixes(),
        ) {
            let sign = if negative { "-" } else { "" };
            let point = if fraction.is_empty() { "" } else { "." };
            let text = format!("{sign}{whole}{point}{fraction}{suffix}");
            let power = 10_i128.pow(u32::try_from(fraction.len()).unwrap());
            let digits = whole * power + fraction.parse::<i128>().unwrap_or(0);
            let (above, below) = (digits * times * 1_000_000_000, power * over);
            let exact = (above + below - 1) / below;
            let exact = Quantity(if negative { -exact } else { exact });
            prop_assert_eq!(Quantity::read(&text), Some(exact), "{}", text);
        }

        /// It says the same, and there is no shorter one of it.
        #[test]
        fn the_canonical_form_is_the_same_amount(text in "[-+]?[0-9]{0,9}(\\.[0-9]{0,6})?(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|e[0-9]|E-[0-9])") {
            let Some(written) = canonical(&text) else {
                prop_assert_eq!(Quantity::read(&text), None);
                return Ok(());
            };
            prop_assert_eq!(Quantity::read(&written), Quantity::read(&text), "{}", &written);
            prop_assert_eq!(canonical(&written), Some(written));
        }

        #[test]
        fn anything_is_read_or_refused(text in "[-+.0-9eEinumkKMGTP]{0,40}|.{0,200}") {
            if let Some(Quantity(nanos)) = Quantity::read(&text) {
                prop_assert!(nanos.unsigned_abs() <= LARGEST.unsigned_abs());
            }
        }

        #[test]
        fn what_is_written_is_read(value in 0..=i64::MAX as u64 / 1_000) {
            prop_assert_eq!(millis(&from_millis(value)), Some(value));
        }
    }
}
