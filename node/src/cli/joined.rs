//! How a cluster stands in a federation, as `mercato federation` shows it.

use mercato_agent::Joined;
use mercato_protocol::certificate::Role;
use mercato_protocol::id::{ClusterId, FederationId};
use mercato_protocol::text::{Slug, shown};

use super::screen::Screen;
use super::table::pairs;
use crate::admin::{OperatorApi, Problem};
use crate::present::text::{fingerprint, moment, name};

/// Says what this cluster is in a federation now.
pub(super) async fn entered(
    api: &dyn OperatorApi,
    screen: &Screen,
    id: FederationId,
    done: &str,
) -> Result<String, Problem> {
    let joined = api.federations().await?.into_iter().find(|of| of.id == id);
    let joined = joined.ok_or_else(|| Problem::failed("the daemon did not join"))?;
    screen.render(&joined, || {
        let next = if joined.roles.contains(&Role::Registrar) {
            "to let others in: mercato federation token\n"
        } else {
            "other members: mercato federation members\n"
        };
        format!("{done}\n{}{next}", page(&joined))
    })
}

/// How this cluster stands in a federation, a line for each thing.
pub(super) fn page(of: &Joined) -> String {
    let belongs = match of.until_ms {
        Some(until_ms) => format!("as {}, until {}", roles(&of.roles), moment(until_ms)),
        None => "not a member; its members are trusted".to_owned(),
    };
    let list = of.list.map_or_else(
        || "no list seen".to_owned(),
        |(number, next_ms)| format!("list {number}, the next by {}", moment(next_ms)),
    );
    let mut lines = vec![
        ("fingerprint", fingerprint(&ClusterId(of.id.0)).join("\n")),
        ("membership", belongs),
        ("organisation", of.organisation.as_ref().map_or("-".to_owned(), Slug::to_string)),
        ("members", of.members.to_string()),
        ("revocations", list),
    ];
    lines.extend(of.domain.as_deref().map(|domain| ("dns", shown(domain).into_owned())));
    lines.extend(of.refused.as_deref().map(|why| ("not renewed", shown(why).into_owned())));
    format!("{}\n{}", of.name, pairs(&lines))
}

/// What a member may do, in words.
pub(super) fn roles(roles: &[Role]) -> String {
    roles.iter().map(name).collect::<Vec<_>>().join(", ")
}
