//! The files that the browser is given as they are, each with the tag by which it knows them again.

use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, Response, StatusCode};

/// A file that is the same for everybody, and holds no data.
#[derive(Clone, Copy)]
pub(super) struct Asset {
    /// The path at which the browser asks for it.
    pub(super) path: &'static str,
    kind: &'static str,
    pub(super) text: &'static str,
}

/// All files but the shell.
pub(super) const ASSETS: [Asset; 4] = [
    Asset { path: "/htmx.js", kind: JAVASCRIPT, text: include_str!("assets/htmx.js") },
    Asset { path: "/page.js", kind: JAVASCRIPT, text: include_str!("assets/page.js") },
    Asset { path: "/style.css", kind: "text/css; charset=utf-8", text: STYLE },
    Asset { path: "/icon.svg", kind: "image/svg+xml", text: include_str!("assets/icon.svg") },
];

/// What each screen is put into.
pub(super) const SHELL: Asset =
    Asset { path: "/", kind: "text/html; charset=utf-8", text: include_str!("assets/shell.html") };

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The colours are those of the reports of simnet.
const STYLE: &str = concat!(include_str!("assets/colours.css"), include_str!("assets/style.css"));

impl Asset {
    /// The file, or that the browser has it.
    pub(super) fn response(&self, asked: &HeaderMap) -> Response<Body> {
        let tag = format!("\"{}\"", super::answer::digest(self.text.as_bytes()));
        let has = asked.get(IF_NONE_MATCH).is_some_and(|has| has.as_bytes() == tag.as_bytes());
        let (status, body) = match has {
            true => (StatusCode::NOT_MODIFIED, Body::empty()),
            false => (StatusCode::OK, Body::from(self.text)),
        };
        let response = Response::builder()
            .status(status)
            .header(CONTENT_TYPE, self.kind)
            // Asked for each time: a program of another release may have the same address.
            .header(CACHE_CONTROL, "no-cache")
            .header(ETAG, tag)
            .body(body);
        response.unwrap_or_else(|_| Response::new(Body::empty()))
    }
}
