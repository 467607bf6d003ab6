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

#[cfg(test)]
mod tests {
    #[test]
    fn times_read_as_usual() {
        assert_eq!(super::rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(super::rfc3339(951_827_696_000), "2000-02-29T12:34:56Z");
        assert_eq!(super::rfc3339(1_798_761_599_000), "2026-12-31T23:59:59Z");
    }
}
