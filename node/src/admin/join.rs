//! Joining a federation, as the command line and a daemon that starts do it.

use std::str::FromStr;

use mercato_agent::{Joined, Papers};
use mercato_protocol::id::FederationId;
use mercato_protocol::join::JoinToken;
use mercato_sources::domain_name;

use super::{Announced, OperatorApi, Problem, Request};

/// By what a federation is joined, as it is typed: a registrar's token, `alps.example`, or
/// `alps.example@FINGERPRINT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Invitation {
    /// Not read yet: whoever joins by it reads it.
    Token(String),
    Domain {
        name: String,
        /// Which federation is meant, if that was said.
        fingerprint: Option<FederationId>,
    },
}

impl FromStr for Invitation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("mercato-join-") {
            return Ok(Self::Token(text.to_owned()));
        }
        let (name, fingerprint) = match text.split_once('@') {
            Some((name, fingerprint)) => (name, Some(fingerprint)),
            None => (text, None),
        };
        let name = domain_name(name).map_err(|error| {
            format!("{error}: name a domain such as alps.example, or give a registrar's token")
        })?;
        let fingerprint = fingerprint.map(|digits| digits.to_ascii_lowercase().parse());
        let fingerprint = fingerprint.transpose().map_err(|error| {
            format!("no fingerprint follows the @: {error}; its operator publishes all of it")
        })?;
        Ok(Self::Domain { name, fingerprint })
    }
}

/// Joins by a token; or goes by the certificates of a federation that DNS tells of, once
/// `accept` has agreed to its fingerprint, if it was not named. Which federation it is.
pub(crate) async fn join(
    api: &dyn OperatorApi,
    invitation: &Invitation,
    accept: impl FnOnce(&Announced) -> Result<(), Problem>,
) -> Result<FederationId, Problem> {
    match invitation {
        Invitation::Token(token) => {
            api.tell(Request::Join(token.clone())).await?;
            let token: JoinToken =
                token.parse().map_err(|error| Problem::failed(format!("{error}")))?;
            Ok(token.federation)
        }
        Invitation::Domain { name, fingerprint } => {
            let announced = api.lookup(name.clone()).await?;
            go_by(api, announced, *fingerprint, accept).await
        }
    }
}

/// Goes by the certificates of a federation that a domain announces: of that with this
/// fingerprint if one was named, else of that which was once accepted under this domain. DNS alone
/// proves nothing: whatever else it announces is refused.
pub(crate) async fn go_by(
    api: &dyn OperatorApi,
    announced: Announced,
    fingerprint: Option<FederationId>,
    accept: impl FnOnce(&Announced) -> Result<(), Problem>,
) -> Result<FederationId, Problem> {
    let joined = api.federations().await?;
    let mut here = joined.iter().filter(|one| is_by(one, &announced.domain));
    match fingerprint {
        Some(expected) if expected != announced.id => {
            return Err(another(&announced, "the one that was named", expected));
        }
        _ if here.clone().any(|one| one.id == announced.id) => return Ok(announced.id),
        Some(_) => {}
        None => match here.next() {
            Some(known) => return Err(another(&announced, "the one that was joined", known.id)),
            None => accept(&announced)?,
        },
    }
    let Announced { domain, id, root, .. } = announced;
    api.tell(Request::Enter(Papers::of_domain(root, domain))).await?;
    Ok(id)
}

/// Whether this federation was joined by that domain.
pub(crate) fn is_by(joined: &Joined, domain: &str) -> bool {
    joined.domain.as_deref() == Some(domain)
}

/// A domain announces another federation than is expected.
fn another(announced: &Announced, which: &str, expected: FederationId) -> Problem {
    let Announced { domain, id, .. } = announced;
    Problem::failed(format!("{domain} announces another federation than {which}"))
        .todo(format!("announced: {id}"))
        .todo(format!("expected:  {expected}"))
        .todo("somebody may answer in the place of its name server: compare both with what the")
        .todo("operator publishes elsewhere. To go by the one that is announced, name it:")
        .todo(format!("mercato federation join {domain}@FINGERPRINT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_a_token_a_domain_or_a_domain_with_its_fingerprint() {
        let read = |text: &str| text.parse::<Invitation>();
        let domain = |fingerprint| Invitation::Domain { name: "alps.example".into(), fingerprint };
        let id = FederationId([0xab; 32]);
        assert_eq!(read("mercato-join-x@y"), Ok(Invitation::Token("mercato-join-x@y".into())));
        assert_eq!(read("Alps.Example."), Ok(domain(None)));
        assert_eq!(read(&format!("alps.example@{id}")), Ok(domain(Some(id))));
        let upper = id.to_string().to_uppercase();
        assert_eq!(read(&format!("alps.example@{upper}")), Ok(domain(Some(id))));
        for (wrong, said) in [
            ("", "is not a domain name"),
            ("@", "is not a domain name"),
            ("alps.example@", "no fingerprint follows the @"),
            ("alps.example@abab", "all of it"),
            ("alps.example@abab@abab", "no fingerprint follows the @"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
