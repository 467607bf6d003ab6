//! `mercato federation token`: what lets one cluster join.

use mercato_config::Seconds;
use mercato_protocol::certificate::Role;
use mercato_protocol::id::FederationId;
use mercato_protocol::text::Slug;

use super::screen::Screen;
use crate::admin::{Answer, Class, OperatorApi, Problem, Request, unexpected};
use crate::present::text::moment;

/// A day: the longest that a token is good.
const DAY: Seconds = Seconds(86_400);

/// Has the registrar make a token, and prints it.
pub(super) async fn create(
    api: &dyn OperatorApi,
    screen: &Screen,
    federation: FederationId,
    organisation: Option<Slug>,
    mut roles: Vec<Role>,
    Seconds(for_s): Seconds,
) -> Result<String, Problem> {
    if for_s == 0 || for_s > DAY.0 {
        return Err(Problem::new(Class::Usage, "a token is valid for at most one day")
            .todo("say how long: --for 4h"));
    }
    roles.sort_unstable();
    roles.dedup();
    let request = Request::Token { federation, organisation, roles, for_s };
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
