//! Joining a federation, as the command line and a daemon that starts do it.

use mercato_agent::Papers;
use mercato_protocol::envelope::Signed;
use mercato_protocol::federation::Root;
use mercato_protocol::id::FederationId;
use mercato_protocol::join::JoinToken;
use mercato_protocol::text::Slug;
use serde::{Deserialize, Serialize};

use super::{Desk, Problem, Request};

/// A federation that DNS tells of. Nothing of it is believed until the owner has compared the
/// fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Announced {
    /// The domain that tells of it.
    pub(crate) domain: String,
    /// What it calls itself.
    pub(crate) name: Slug,
    /// Its fingerprint.
    pub(crate) id: FederationId,
    /// Its first document.
    pub(crate) root: Signed<Root>,
    /// Where its peers are, as multiaddresses, those to be tried first at the front.
    pub(crate) peers: Vec<String>,
}

/// What lets one cluster join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Token {
    /// `mercato-join-…`
    pub(crate) token: String,
    /// Until when it is good.
    pub(crate) expires_ms: u64,
}

/// Joins by a token; or goes by the certificates of a federation that DNS tells of, once
/// `accept` has agreed to its fingerprint. Which federation it is.
pub(crate) async fn join(
    desk: &dyn Desk,
    what: &str,
    accept: impl FnOnce(&Announced) -> Result<(), Problem>,
) -> Result<FederationId, Problem> {
    if what.starts_with("mercato-join-") {
        desk.tell(Request::Join(what.to_owned())).await?;
        let token: JoinToken = what.parse().map_err(|error| Problem::failed(format!("{error}")))?;
        return Ok(token.federation);
    }
    let announced = desk.lookup(what.to_owned()).await?;
    let joined = desk.federations().await?;
    if joined
        .iter()
        .any(|one| one.id == announced.id && one.domain.as_ref() == Some(&announced.domain))
    {
        return Ok(announced.id);
    }
    accept(&announced)?;
    let Announced { domain, id, root, .. } = announced;
    desk.tell(Request::Enter(Papers::of_domain(root, domain))).await?;
    Ok(id)
}
