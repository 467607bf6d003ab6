//! Slugs, short names with a grammar that is checked once where they are made; blobs, bytes
//! without one; and what a person is shown of text that somebody else wrote.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::id::hex_or_bytes;
use crate::limits;

/// The text is not a slug.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a name: 1 to {max} of a-z, 0-9, '-' and '.', first and last a letter or digit",
    max = limits::SLUG_BYTES
)]
pub struct ParseSlugError(pub String);

/// One to [`limits::SLUG_BYTES`] of `a-z 0-9 - .`, first and last a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(String);

impl Slug {
    /// The name itself, as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Slug {
    type Error = ParseSlugError;

    fn try_from(text: String) -> Result<Self, ParseSlugError> {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let inner = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
        let bytes = text.as_bytes();
        let good = bytes.len() <= limits::SLUG_BYTES
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(inner);
        if good { Ok(Self(text)) } else { Err(ParseSlugError(text)) }
    }
}

impl FromStr for Slug {
    type Err = ParseSlugError;

    fn from_str(text: &str) -> Result<Self, ParseSlugError> {
        text.to_owned().try_into()
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Whether a person sees the character where it stands: not a control character, not one that
/// reverses the direction of text, and not one that shows nothing (the property
/// `Default_Ignorable_Code_Point` of Unicode) or looks like a space without being one.
pub fn is_plain(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || hidden)
}

/// Text that somebody else wrote, on one line: what is not [plain](is_plain) stands there
/// escaped, as `\u{202e}`, so that it neither steers a terminal nor looks like another text.
pub fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let each = |c: char| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() };
    Cow::Owned(text.chars().map(each).collect())
}

/// The same for text of several lines, which stay lines. What somebody else wrote is [`shown`]
/// before it becomes a part of one.
pub fn shown_lines(text: &str) -> String {
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// The text is not one that others could be shown.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ParseTextError {
    /// A control character, or one that is not seen.
    #[error("U+{code:04X} cannot be seen where it is read: leave it out", code = u32::from(*.0))]
    Hidden(char),
    /// The text has too many bytes.
    #[error("{bytes} bytes, at most {max}: shorten it")]
    TooLong {
        /// How many bytes the text has.
        bytes: usize,
        /// How many bytes it may have.
        max: usize,
    },
    /// The text is no name of a cluster.
    #[error(
        "{0:?} is not a name: letters, digits, spaces and any of - _ . ', first and last a \
         letter or digit, for example rome"
    )]
    Name(String),
}

/// What one writes for others to read, a note or a reason: one line of at most
/// [`limits::LINE_BYTES`], of which every character is seen; it may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Line(String);

impl TryFrom<String> for Line {
    type Error = ParseTextError;

    fn try_from(text: String) -> Result<Self, ParseTextError> {
        visible(&text, limits::LINE_BYTES).map(|()| Self(text))
    }
}

impl FromStr for Line {
    type Err = ParseTextError;

    fn from_str(text: &str) -> Result<Self, ParseTextError> {
        text.to_owned().try_into()
    }
}

impl From<Line> for String {
    fn from(line: Line) -> Self {
        line.0
    }
}

fn visible(text: &str, max: usize) -> Result<(), ParseTextError> {
    if text.len() > max {
        return Err(ParseTextError::TooLong { bytes: text.len(), max });
    }
    text.chars().find(|c| !is_plain(*c)).map_or(Ok(()), |c| Err(ParseTextError::Hidden(c)))
}

/// Checks what a cluster is called: letters and digits of any script, inside also spaces and
/// `-_.'`; at most [`limits::NAME_BYTES`].
pub fn check_name(name: &str) -> Result<(), ParseTextError> {
    visible(name, limits::NAME_BYTES)?;
    let edge = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let inner = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_' | '.' | '\'');
    let good = edge(name.chars().next())
        && edge(name.chars().next_back())
        && name.chars().all(inner)
        && !name.contains("..");
    if good { Ok(()) } else { Err(ParseTextError::Name(name.to_owned())) }
}

/// Opaque bytes, cheap to pass on; hex where people read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blob(pub Arc<[u8]>);

impl From<&str> for Blob {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.0.len())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        hex_or_bytes::serialize(&self.0, to)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        hex_or_bytes::deserialize(from).map(|bytes| Self(bytes.into()))
    }
}

/// A pool of an advertisement: unique within its provider.
pub type PoolId = Slug;

/// A GPU model as the one registry spells it (`h100`), or a sold part of one
/// (`h100.1g.10gb`), so that spelling never decides a match.
pub type GpuModel = Slug;

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each kind that deceives: bidirectional, of no width, control, ignorable, blank.
    const HIDDEN: &str = "\u{202e}\u{2066}\u{200f}\u{61c}\u{200b}\u{feff}\u{ad}\u{2060}\u{1b}\u{7}\
        \n\r\t\u{0}\u{9b}\u{2028}\u{2029}\u{a0}\u{3164}\u{2800}\u{e0041}\u{fe0f}";

    #[test]
    fn what_is_not_seen_is_shown_escaped_and_refused_as_ones_own() {
        for hidden in HIDDEN.chars() {
            let text = format!("tu{hidden}rin");
            let shown = shown(&text);
            assert!(shown.chars().all(is_plain) && shown.contains('\\'), "{shown}");
            assert_eq!(text.parse::<Line>(), Err(ParseTextError::Hidden(hidden)));
            assert_eq!(check_name(&text), Err(ParseTextError::Hidden(hidden)));
        }
        assert_eq!(shown("a\u{202e}b\n"), "a\\u{202e}b\\n");
        let plain = "Zürich, 東京 & Ωμέγα: \"50 €\"";
        assert_eq!(shown(plain), plain);
        assert_eq!(String::from(plain.parse::<Line>().unwrap()), plain);
        let long = "a".repeat(limits::LINE_BYTES + 1).parse::<Line>().unwrap_err().to_string();
        assert_eq!(long, "513 bytes, at most 512: shorten it");
        assert!(
            ParseTextError::Hidden('\u{202e}').to_string().starts_with("U+202E cannot be seen")
        );
    }

    #[test]
    fn a_cluster_has_a_name_that_can_be_said() {
        for good in ["rome", "Zürich 2", "東京", "l'aquila", "a.example", "x_1", &"n".repeat(64)]
        {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", " ", "../../etc", "a/b", "a\\b", "-a", "a ", "a..b", ".", "$(id)", "a\"b"] {
            let said = check_name(bad).unwrap_err().to_string();
            assert!(said.contains("is not a name") && said.contains("for example rome"), "{said}");
        }
        assert!(check_name(&"n".repeat(65)).is_err());
    }

    #[test]
    fn slugs_have_a_grammar() {
        for good in ["a", "h100", "h100.1g.10gb", "amd64-8"] {
            assert_eq!(good.parse::<Slug>().unwrap().to_string(), good);
        }
        for bad in ["", "-a", "a.", "H100", "a b", "è", &"x".repeat(33)] {
            assert!(bad.parse::<Slug>().is_err(), "{bad:?}");
        }
    }
}
