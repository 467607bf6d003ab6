//! Times, as Kubernetes writes them.

/// So many milliseconds since 1970 by RFC 3339, in UTC, to the second. Days to dates as in Howard
/// Hinnant's `civil_from_days`.
pub fn rfc3339(wall_ms: u64) -> String {
    let seconds = wall_ms / 1_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    let (hour, minute, second) = (rest / 3_600, rest % 3_600 / 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Milliseconds since 1970 of a time in UTC, as an API server writes it; none if it is no such time, or
/// before. Dates to days as in Howard Hinnant's `days_from_civil`.
pub fn parse_ms(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':')?;
    let is_time = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_time || year > 9_999 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
    let year = if month > 2 { year } else { year - 1 };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    let seconds = (days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(seconds * 1_000 + millis.parse::<u64>().ok()?)
}

/// Three numbers with these between them.
fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let all: Option<Vec<u64>> = text.split(between).map(|one| one.parse().ok()).collect();
    all?.try_into().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_read_as_usual() {
        assert_eq!(super::rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(super::rfc3339(951_827_696_000), "2000-02-29T12:34:56Z");
        assert_eq!(super::rfc3339(1_798_761_599_000), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for days in 0..60_000_u64 {
            let at_ms = days * 86_400_000 + days % 86_400 * 1_000;
            assert_eq!(super::parse_ms(&super::rfc3339(at_ms)), Some(at_ms));
        }
        assert_eq!(super::parse_ms("1970-01-01T00:00:01.25Z"), Some(1_250));
        assert_eq!(super::parse_ms("1970-01-01T00:00:01.123456Z"), Some(1_123));
        for no_time in [
            "",
            "1969-12-31T23:59:59Z",
            "1970-01-01",
            "1970-13-01T00:00:00Z",
            "soon",
            "1970-01-01T00:00:00+01:00",
            "1970-01-01T00:00:00.xZ",
            "99999-01-01T00:00:00Z",
        ] {
            assert_eq!(super::parse_ms(no_time), None, "{no_time}");
        }
    }
}
