//! What an API server answers that opens no stream: in its own words, with home's names.

use http::{Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use mercato_offload::forge::Called;
use mercato_protocol::kubelet_stream::RefusedReason;
use mercato_protocol::text::is_plain;
use serde_json::Value;

use crate::limits;

pub(super) async fn read(answer: Response<Body>, called: &Called<'_>) -> (RefusedReason, String) {
    let status = answer.status();
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let kind = kind.map_or("", |kind| kind.to_str().unwrap_or_default()).to_owned();
    let body = Limited::new(answer.into_body(), limits::REFUSAL_TEXT).collect().await;
    let body = body.map(|collected| collected.to_bytes()).unwrap_or_default();
    refused(status, &kind, &body, called)
}

fn refused(
    status: StatusCode,
    kind: &str,
    body: &[u8],
    called: &Called<'_>,
) -> (RefusedReason, String) {
    let reason = match status.as_u16() {
        400 | 422 => RefusedReason::BadRequest,
        403 => RefusedReason::Forbidden,
        404 => RefusedReason::NotFound,
        _ => RefusedReason::Unavailable,
    };
    let said = match serde_json::from_slice::<Value>(body) {
        Ok(value) => value["message"].as_str().map(str::to_owned),
        // A kubelet says in plain text why it does not upgrade, and its API server passes that on. A
        // page of something else that stands before the API server is none of it.
        Err(_) if kind.is_empty() || kind.starts_with("text/plain") => line(body),
        Err(_) => None,
    };
    match said {
        Some(said) => (reason, called.at_home(&said)),
        None => (reason, format!("the API server answered {status}")),
    }
}

/// The first line that says anything.
fn line(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().map(|char| if is_plain(char) { char } else { ' ' }).collect())
}

#[cfg(test)]
mod tests {
    use mercato_offload::forge::Place;

    use super::*;

    fn said(status: u16, kind: &str, body: &str) -> (RefusedReason, String) {
        let called = Called {
            name: "web",
            there: Place { namespace: "shop-rome", uid: "g1" },
            home: Place { namespace: "shop", uid: "u1" },
        };
        refused(StatusCode::from_u16(status).unwrap(), kind, body.as_bytes(), &called)
    }

    #[test]
    fn a_kubelets_plain_words_are_passed_on() {
        let plain = "text/plain; charset=utf-8";
        let refused = said(500, plain, "container not found (\"init\")\n");
        assert_eq!(refused.0, RefusedReason::Unavailable);
        assert_eq!(refused.1, "container not found (\"init\")");
        let refused = said(500, "", "\n container init not found in pod web_shop-rome\r\nmore\n");
        assert_eq!(refused.1, "container init not found in pod web_shop");
        assert_eq!(said(500, plain, "a\u{1b}[31mred").1, "a [31mred");
        let status = r#"{ "message": "no web_shop-rome(g1)" }"#;
        assert_eq!(said(404, "application/json", status).1, "no web_shop(u1)");
    }

    #[test]
    fn what_is_no_kubelets_word_is_left_out() {
        let none = "the API server answered 502 Bad Gateway";
        for (kind, body) in [
            ("text/html", "<html>\n<h1>Bad Gateway</h1>"),
            ("text/plain", " \n"),
            ("application/json", "{}"),
            ("", ""),
        ] {
            assert_eq!(said(502, kind, body).1, none, "{kind}");
        }
        let bytes = refused(
            StatusCode::BAD_GATEWAY,
            "",
            &[0xff, 0xfe],
            &Called {
                name: "",
                there: Place { namespace: "", uid: "" },
                home: Place { namespace: "", uid: "" },
            },
        );
        assert_eq!(bytes.1, none);
    }
}
