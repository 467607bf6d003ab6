//! A text, read from left to right.

use super::SyntaxError;

/// What is left of a text.
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
    example: &'static str,
}

/// A number as it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal {
    digits: u128,
    decimals: u32,
    /// Where in the text it began.
    at: usize,
}

impl Decimal {
    /// So many units, rounded down.
    pub(crate) fn floor(self, unit: u64) -> Option<u64> {
        let scale = 10u128.checked_pow(self.decimals)?;
        u64::try_from(self.digits.checked_mul(u128::from(unit))? / scale).ok()
    }

    /// Whether that is a whole number of units, be it too large to be counted.
    pub(crate) fn is_whole(self, unit: u64) -> bool {
        let scale = 10u128.checked_pow(self.decimals);
        let all = self.digits.checked_mul(u128::from(unit));
        scale.is_some_and(|scale| all.is_none_or(|all| all.is_multiple_of(scale)))
    }

    /// So many units, if that is a whole number.
    pub(crate) fn exact(self, unit: u64) -> Option<u64> {
        let scale = 10u128.checked_pow(self.decimals)?;
        let whole = self.digits.checked_mul(u128::from(unit))?.is_multiple_of(scale);
        whole.then(|| self.floor(unit))?
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, example: &'static str) -> Self {
        Self { text, at: 0, example }
    }

    /// Reads the whole of `text` with `read`; nothing may be left.
    pub(crate) fn whole<T>(
        text: &'a str,
        example: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        let mut reader = Self::new(text, example);
        let value = read(&mut reader)?;
        reader.spaces();
        if reader.rest().is_empty() { Ok(value) } else { Err(reader.error("nothing more")) }
    }

    /// Pairs such as `KEY=VALUE, KEY=VALUE`, in their order.
    pub(crate) fn pairs<V>(
        &mut self,
        mut each: impl FnMut(&mut Self, &'a str, usize) -> Result<V, SyntaxError>,
    ) -> Result<Vec<V>, SyntaxError> {
        let mut values = Vec::new();
        loop {
            self.spaces();
            let at = self.at;
            let key = self.word(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
            self.expect('=')?;
            self.spaces();
            values.push(each(self, key, at)?);
            self.spaces();
            if !self.take(',') {
                return Ok(values);
            }
        }
    }

    /// The example of what is read from here on.
    pub(crate) fn example(&mut self, example: &'static str) {
        self.example = example;
    }

    /// Where it is, in bytes.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// What was read since that place.
    pub(crate) fn since(&self, at: usize) -> &'a str {
        &self.text[at..self.at]
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn spaces(&mut self) {
        self.word(char::is_whitespace);
    }

    /// As many characters as suit.
    pub(crate) fn word(&mut self, suits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !suits(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    pub(crate) fn take(&mut self, wanted: char) -> bool {
        let there = self.rest().starts_with(wanted);
        if there {
            self.at += wanted.len_utf8();
        }
        there
    }

    pub(crate) fn expect(&mut self, wanted: char) -> Result<(), SyntaxError> {
        if self.take(wanted) { Ok(()) } else { Err(self.error(&format!("{wanted:?}"))) }
    }

    /// Digits, perhaps with a point among them.
    pub(crate) fn number(&mut self) -> Result<Decimal, SyntaxError> {
        let at = self.at;
        let whole = self.word(|c| c.is_ascii_digit());
        let mut part = "";
        if !whole.is_empty() && self.take('.') {
            part = self.word(|c| c.is_ascii_digit());
            if part.is_empty() {
                return Err(self.error("a digit"));
            }
        }
        if whole.is_empty() {
            let negative = self.rest().starts_with('-');
            let expected = if negative { "a number that is not negative" } else { "a number" };
            return Err(self.error(expected));
        }
        let digits = format!("{whole}{part}").parse();
        let decimals = u32::try_from(part.len()).ok();
        match (digits, decimals) {
            (Ok(digits), Some(decimals)) => Ok(Decimal { digits, decimals, at }),
            _ => Err(self.error_at(at, "a smaller number")),
        }
    }

    /// What is wrong at this place.
    pub(crate) fn error(&self, expected: &str) -> SyntaxError {
        self.error_at(self.at, expected)
    }

    /// What is wrong with a number.
    pub(crate) fn bad(&self, number: Decimal, expected: &str) -> SyntaxError {
        self.error_at(number.at, expected)
    }

    pub(crate) fn error_at(&self, at: usize, expected: &str) -> SyntaxError {
        let text = self.text.to_owned();
        let (at, expected) = match self.comma_of_decimals(at) {
            Some(comma) if comma == at => (at, POINT.to_owned()),
            Some(_) => (at, format!("{expected}, or {POINT}")),
            None => (at, expected.to_owned()),
        };
        SyntaxError { text, at, expected, example: self.example }
    }

    /// A comma between two digits, at this place or before the word that ends there: many write
    /// decimals so.
    fn comma_of_decimals(&self, at: usize) -> Option<usize> {
        let before = self.text.get(..at)?;
        let comma = match self.rest_at(at).starts_with(',') {
            true => at,
            false => {
                before.trim_end_matches(|c: char| c.is_ascii_alphanumeric()).len().checked_sub(1)?
            }
        };
        let is_digit = |c: char| c.is_ascii_digit();
        let (whole, decimals) = (self.text.get(..comma)?, self.rest_at(comma).strip_prefix(',')?);
        (whole.ends_with(is_digit) && decimals.starts_with(is_digit)).then_some(comma)
    }

    fn rest_at(&self, at: usize) -> &'a str {
        self.text.get(at..).unwrap_or_default()
    }
}

/// What stands before the decimals of a number.
const POINT: &str = "a point before decimals, not a comma";
