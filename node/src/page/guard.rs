//! Who is answered, and who is not: looked at before anything else is.
//!
//! A browser sends this program requests on behalf of any page that a person has open. A name of
//! somebody else's that leads to this machine is found out by `Host`, a page of somebody else's by
//! `Origin` and `Sec-Fetch-Site`, a frame by `Sec-Fetch-Dest`. Data takes the token besides, which no
//! browser sends by itself.

use axum::body::Body;
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};

use super::answer::{html, plain};
use super::screens::{DeniedNews, DeniedScreen, Frame};
use super::token::{Denied, Token};

/// The header that has the token.
pub(super) const TOKEN: &str = "mercato-token";
/// The header of each request that htmx makes, and no link does. One for an earlier screen has the token
/// alone.
const BY_SCRIPT: &str = "hx-request";

/// The names by which a browser may call this program.
#[derive(Clone, Debug)]
pub(super) struct Names([String; 3]);

impl Names {
    /// Those of a listener at this port of the loopback.
    pub(super) fn of(port: u16) -> Self {
        Self(["127.0.0.1", "[::1]", "localhost"].map(|host| format!("{host}:{port}")))
    }

    fn has(&self, host: &[u8]) -> bool {
        self.0.iter().any(|name| name.as_bytes() == host)
    }

    fn is_origin(&self, origin: &HeaderValue) -> bool {
        origin.as_bytes().strip_prefix(b"http://").is_some_and(|host| self.has(host))
    }
}

/// Whether the request may be answered at all.
///
/// # Errors
/// What is answered instead.
#[allow(clippy::result_large_err, reason = "one of a request, and moved once")]
pub(super) fn admit(names: &Names, request: &Request<Body>) -> Result<(), Response<Body>> {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    let is_ours = hosts.next().is_some_and(|host| names.has(host.as_bytes()));
    if !is_ours || hosts.next().is_some() {
        let text = "Mercato's page answers at the address that mercato page has printed, and at no \
                    other name.\n";
        return Err(plain(StatusCode::MISDIRECTED_REQUEST, text));
    }
    let refused = |text: &str| Err(plain(StatusCode::FORBIDDEN, text));
    if headers.get("sec-fetch-dest").is_some_and(|what| FRAMES.contains(&what.as_bytes())) {
        return refused("Mercato's page is not shown inside another.\n");
    }
    if headers.get(ORIGIN).is_some_and(|origin| !names.is_origin(origin)) {
        return refused("This was asked by a page of somebody else's.\n");
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_navigation = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    let of_others = matches!(site, Some(site) if site != b"same-origin" && site != b"none");
    if of_others && (!is_navigation || is_data(headers, request.uri())) {
        return refused("This was asked by a page of somebody else's.\n");
    }
    Ok(())
}

/// What would show the page inside another.
const FRAMES: [&[u8]; 5] = [b"iframe", b"frame", b"embed", b"object", b"fencedframe"];

/// Whether a script asks, rather than a person who follows a link.
pub(super) fn is_by_script(headers: &HeaderMap) -> bool {
    headers.contains_key(BY_SCRIPT) || headers.contains_key(TOKEN)
}

/// Whether the answer would have something that the daemon has said.
pub(super) fn is_data(headers: &HeaderMap, uri: &Uri) -> bool {
    is_by_script(headers) || DATA.contains(&uri.path()) || uri.path().starts_with("/save/")
}

/// Paths that have data for whoever asks.
const DATA: [&str; 3] = ["/news", "/again", "/doctor"];

/// Whether the request shows the token.
///
/// # Errors
/// What is answered instead, to be seen where the answer would have stood.
#[allow(clippy::result_large_err, reason = "one of a request, and moved once")]
pub(super) fn shows_token(token: &Token, request: &Request<Body>) -> Result<(), Response<Body>> {
    let shown = request.headers().get(TOKEN).map(HeaderValue::as_bytes);
    token.check(shown).map_err(|denied| explained(denied, request))
}

fn explained(denied: Denied, request: &Request<Body>) -> Response<Body> {
    let [what, todo] = denied.words();
    let mut response = match request.uri().path() {
        _ if !is_by_script(request.headers()) => {
            plain(StatusCode::FORBIDDEN, format!("{what}\n{todo}\n"))
        }
        "/news" | "/again" => html(&DeniedNews { what, todo }),
        _ => html(&DeniedScreen { frame: Frame::empty("closed"), what, todo }),
    };
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(headers: &[[&str; 2]], path: &str) -> u16 {
        let mut request = Request::get(path);
        for [name, value] in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        admit(&Names::of(7_000), &request).map_or_else(|it| it.status().as_u16(), |()| 200)
    }

    #[test]
    fn no_other_name_and_no_other_page_is_answered() {
        let own = ["host", "127.0.0.1:7000"];
        for host in ["127.0.0.1:7000", "localhost:7000", "[::1]:7000"] {
            assert_eq!(admitted(&[["host", host]], "/"), 200);
        }
        for host in ["", "127.0.0.1", "127.0.0.1:7001", "evil.example:7000", "localhost.:7000"] {
            assert_eq!(admitted(&[["host", host]], "/"), 421, "{host}");
        }
        assert_eq!(admitted(&[], "/"), 421);
        assert_eq!(admitted(&[own, ["host", "evil.example"]], "/"), 421);
        for origin in ["http://evil.example", "null", "https://127.0.0.1:7000", "http://[::1]:1"] {
            assert_eq!(admitted(&[own, ["origin", origin]], "/news"), 403, "{origin}");
        }
        assert_eq!(admitted(&[own, ["origin", "http://localhost:7000"]], "/news"), 200);
        assert_eq!(admitted(&[own, ["sec-fetch-dest", "iframe"]], "/"), 403);
        let site = |site| ["sec-fetch-site", site];
        let navigates = ["sec-fetch-mode", "navigate"];
        assert_eq!(admitted(&[own, site("same-origin")], "/news"), 200);
        assert_eq!(admitted(&[own, site("none"), navigates], "/market"), 200);
        assert_eq!(admitted(&[own, site("same-site")], "/htmx.js"), 403);
        assert_eq!(admitted(&[own, site("cross-site")], "/news"), 403);
        assert_eq!(admitted(&[own, site("cross-site"), navigates], "/market"), 200, "a link");
        assert_eq!(admitted(&[own, site("cross-site"), navigates], "/save/x.csv"), 403);
    }
}
