//! The line at the top of each tab: whose daemon it is, as of when, and what is wrong with it.

use askama::Template;

use super::super::memory::Picture;
use super::{Words, clipped};
use crate::present::text::moment;

/// What the tabs ask for once a second.
#[derive(Template)]
#[template(path = "news.html")]
pub(in super::super) struct News {
    number: u64,
    name: Option<String>,
    at: Option<String>,
    trouble: Option<Trouble>,
    attention: usize,
}

struct Trouble {
    since: String,
    words: Words,
}

/// Nothing more is told to this tab.
#[derive(Template)]
#[template(path = "denied_news.html")]
pub(in super::super) struct DeniedNews {
    pub(in super::super) what: &'static str,
    pub(in super::super) todo: &'static str,
}

/// Says how the daemon is.
pub(in super::super) fn news(picture: &Picture) -> News {
    let status = picture.status.as_ref().ok();
    News {
        number: picture.number,
        name: status.map(|status| clipped(&status.name)),
        at: picture.at_ms.map(time_of_day),
        trouble: picture.trouble.as_ref().map(|trouble| Trouble {
            since: time_of_day(trouble.since_ms),
            words: Words::of(&trouble.problem),
        }),
        attention: status.map_or(0, |status| status.attention.len()),
    }
}

/// A moment of today, in UTC.
fn time_of_day(ms: u64) -> String {
    let whole = moment(ms);
    whole.get(11..).unwrap_or(&whole).to_owned()
}
