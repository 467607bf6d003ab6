//! `mercato federation token`: what lets one cluster join.

use std::str::FromStr;

use mercato_config::Seconds;
use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::certificate::Role;
use mercato_protocol::id::FederationId;
use mercato_protocol::limits::LABEL_BYTES;
use mercato_protocol::text::Slug;

use super::screen::Screen;
use crate::admin::{Answer, Class, OperatorApi, Problem, Request, unexpected};
use crate::present::text::moment;

/// A day: the longest that a token is good.
const DAY: Seconds = Seconds(86_400);

/// What a certificate is to vouch for: NAME=VALUE, or NAME alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vouched(Attribute);

impl FromStr for Vouched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').unwrap_or((text, "true"));
        let name = name.parse::<Slug>().map_err(|error| error.to_string())?;
        if value.is_empty() || value.len() > LABEL_BYTES {
            return Err(format!("a value of 1 to {LABEL_BYTES} bytes follows ="));
        }
        let (value, assurance) = (value.to_owned(), Assurance::Issuer);
        Ok(Self(Attribute { name, value, assurance }))
    }
}

/// As certificates have them: ascending, each once.
pub(super) fn vouched(all: Vec<Vouched>) -> Vec<Attribute> {
    let mut attributes: Vec<Attribute> = all.into_iter().map(|Vouched(one)| one).collect();
    attributes.sort_unstable();
    attributes.dedup();
    attributes
}

/// Has the registrar make a token, and prints it.
pub(super) async fn create(
    api: &dyn OperatorApi,
    screen: &Screen,
    federation: FederationId,
    organisation: Option<Slug>,
    mut roles: Vec<Role>,
    attributes: Vec<Vouched>,
    Seconds(for_s): Seconds,
) -> Result<String, Problem> {
    if for_s == 0 || for_s > DAY.0 {
        return Err(Problem::new(Class::Usage, "a token is valid for at most one day")
            .todo("say how long: --for 4h"));
    }
    roles.sort_unstable();
    roles.dedup();
    let attributes = vouched(attributes);
    let request = Request::Token { federation, organisation, roles, attributes, for_s };
    let answer = api.ask(request).await?;
    let Answer::Token(token) = answer else { return Err(unexpected(&answer)) };
    screen.render(&token, || {
        eprintln!(
            "valid once, until {} UTC; on the other cluster: mercato federation join TOKEN",
            moment(token.expires_ms)
        );
        format!("{}\n", token.token)
    })
}
