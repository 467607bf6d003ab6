//! Joining a federation, as the command line and a daemon that starts do it.

use mercato_agent::Papers;
use mercato_protocol::id::FederationId;
use mercato_protocol::join::JoinToken;

use super::{Announced, OperatorApi, Problem, Request};

/// Joins by a token; or goes by the certificates of a federation that DNS tells of, once
/// `accept` has agreed to its fingerprint. Which federation it is.
pub(crate) async fn join(
    api: &dyn OperatorApi,
    what: &str,
    accept: impl FnOnce(&Announced) -> Result<(), Problem>,
) -> Result<FederationId, Problem> {
    if what.starts_with("mercato-join-") {
        api.tell(Request::Join(what.to_owned())).await?;
        let token: JoinToken = what.parse().map_err(|error| Problem::failed(format!("{error}")))?;
        return Ok(token.federation);
    }
    let announced = api.lookup(what.to_owned()).await?;
    let joined = api.federations().await?;
    if joined
        .iter()
        .any(|one| one.id == announced.id && one.domain.as_ref() == Some(&announced.domain))
    {
        return Ok(announced.id);
    }
    accept(&announced)?;
    let Announced { domain, id, root, .. } = announced;
    api.tell(Request::Enter(Papers::of_domain(root, domain))).await?;
    Ok(id)
}
