//! `mercato federation join`: by a registrar's token, or by a domain. Whoever belongs already is
//! asked before a token is spent that may make it another organisation's.

use mercato_agent::Joined;
use mercato_protocol::id::ClusterId;
use mercato_protocol::join::JoinToken;
use mercato_protocol::text::Slug;

use super::joined::entered;
use super::screen::Screen;
use crate::admin::{self, Announced, Invitation, OperatorApi, Problem};
use crate::present::text::{fingerprint, moment};

pub(super) async fn join(
    api: &dyn OperatorApi,
    screen: &Screen,
    what: &Invitation,
) -> Result<String, Problem> {
    let before = belongs(api, what).await?;
    if let Some(before) = &before {
        screen.confirm(&already(before), "spend the token here?")?;
    }
    let accept = |announced: &Announced| {
        let [first, second] = fingerprint(&ClusterId(announced.id.0));
        let said = format!(
            "{} announces the federation {}, whose fingerprint is:\n  {first}\n  {second}\n\
             compare it with the one that its operator publishes (mercato federation shows it)",
            announced.domain, announced.name
        );
        screen.confirm(&said, &format!("trust the clusters that {} certifies?", announced.name))
    };
    let id = admin::join(api, what, accept).await?;
    let done = match before {
        Some(before) => format!("joined again: before, {}", of_organisation(&before)),
        None => "joined".to_owned(),
    };
    entered(api, screen, id, &done).await
}

/// The federation of a token, where this cluster is a member of it.
async fn belongs(api: &dyn OperatorApi, what: &Invitation) -> Result<Option<Joined>, Problem> {
    let Invitation::Token(token) = what else { return Ok(None) };
    // What is no token the daemon refuses, with its words.
    let Ok(token) = token.parse::<JoinToken>() else { return Ok(None) };
    let all = api.federations().await?;
    Ok(all.into_iter().find(|of| of.id == token.federation && of.until_ms.is_some()))
}

/// What a member is told before it spends another token.
fn already(before: &Joined) -> String {
    format!(
        "this cluster is a member of {} already, {}, until {}.\n\
         A token replaces that: organisation, roles and attributes become those that the token\n\
         was made with (federation token --org). One that was made for another cluster is spent\n\
         here, and makes this one a cluster of the other organisation.",
        before.name,
        of_organisation(before),
        before.until_ms.map(moment).unwrap_or_default()
    )
}

fn of_organisation(of: &Joined) -> String {
    let named = |name: &Slug| format!("of organisation {name}");
    of.organisation.as_ref().map_or_else(|| "of no organisation".to_owned(), named)
}
