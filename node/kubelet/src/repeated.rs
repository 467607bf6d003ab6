//! Failures that come again and again, as long as nothing changes: warned of once.

use std::collections::BTreeMap;
use std::fmt::Display;

/// Why something fails, as it was last told.
#[derive(Debug, Default)]
pub struct Repeated(Option<String>);

impl Repeated {
    /// It failed; whether that is news: it went well before, or failed for another reason.
    pub fn is_news(&mut self, why: &impl Display) -> bool {
        let why = why.to_string();
        let news = self.0.as_ref() != Some(&why);
        self.0 = Some(why);
        news
    }

    /// It went well; whether it had failed before.
    pub fn is_over(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// The same of many objects that are looked at together, again and again, each by its name.
#[derive(Debug, Default)]
pub struct RepeatedEach {
    before: BTreeMap<String, Repeated>,
    failing: BTreeMap<String, Repeated>,
}

impl RepeatedEach {
    /// They are all looked at once more. What does not fail this time is not known any more.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.failing);
    }

    /// Says that the object of this name failed, and gives what is known of its failures.
    pub fn of(&mut self, name: &str) -> &mut Repeated {
        let before = self.before.remove(name);
        self.failing.entry(name.to_owned()).or_insert_with(|| before.unwrap_or_default())
    }
}

/// Warns of a failure where that is news, and tells of it for debugging where it is not:
/// `warn_once!(repeated, failure; field = value, "what could not be done")`.
#[macro_export]
macro_rules! warn_once {
    ($repeated:expr, $why:expr; $($rest:tt)*) => {{
        let why = &$why;
        if $repeated.is_news(why) {
            ::tracing::warn!(%why, $($rest)*);
        } else {
            ::tracing::debug!(%why, $($rest)*);
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_again_is_no_news_until_it_went_well_between() {
        let mut repeated = Repeated::default();
        assert!(!repeated.is_over());
        assert!(repeated.is_news(&"no right"));
        assert!(!repeated.is_news(&"no right"));
        assert!(repeated.is_news(&"no answer"));
        assert!(repeated.is_over());
        assert!(!repeated.is_over());
        assert!(repeated.is_news(&"no answer"));
    }
}
