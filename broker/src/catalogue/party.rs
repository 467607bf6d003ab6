//! Whom a rule of the owner's is about: a cluster, an organisation, or a federation. Who
//! belongs to which is told by certificates of federations that this cluster joined.

use std::fmt;
use std::str::FromStr;

use mercato_protocol::id::ClusterId;
use mercato_protocol::text::Slug;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::trust::Affiliation;

/// Somebody, or all of some kind: `4f3c…`, `org=polito`, `federation=alps`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Party {
    /// One cluster, by its id.
    Cluster(ClusterId),
    /// Every cluster that a joined federation certifies as this organisation's.
    Organisation(Slug),
    /// Every cluster that this joined federation certifies.
    Federation(Slug),
}

/// A text that names nobody.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} names nobody: expected a cluster's id, org=NAME or federation=NAME, names of lower-case letters, \
     digits and hyphens"
)]
pub struct ParsePartyError(String);

impl Party {
    /// Whether it is about that cluster.
    pub(crate) fn is(&self, cluster: &ClusterId, affiliations: &[Affiliation]) -> bool {
        match self {
            Self::Cluster(one) => one == cluster,
            Self::Organisation(name) => {
                affiliations.iter().any(|of| of.organisation.as_ref() == Some(name))
            }
            Self::Federation(name) => affiliations.iter().any(|of| of.name == *name),
        }
    }
}

impl FromStr for Party {
    type Err = ParsePartyError;

    fn from_str(text: &str) -> Result<Self, ParsePartyError> {
        let party = match text.split_once('=') {
            Some(("org", name)) => name.parse().ok().map(Self::Organisation),
            Some(("federation", name)) => name.parse().ok().map(Self::Federation),
            Some(_) => None,
            None => text.parse().ok().map(Self::Cluster),
        };
        party.ok_or_else(|| ParsePartyError(text.chars().take(80).collect()))
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(cluster) => write!(f, "{cluster}"),
            Self::Organisation(name) => write!(f, "org={name}"),
            Self::Federation(name) => write!(f, "federation={name}"),
        }
    }
}

impl TryFrom<String> for Party {
    type Error = ParsePartyError;

    fn try_from(text: String) -> Result<Self, ParsePartyError> {
        text.parse()
    }
}

impl From<Party> for String {
    fn from(party: Party) -> Self {
        party.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mercato_protocol::id::FederationId;

    use super::*;

    #[test]
    fn a_party_reads_back_what_it_prints() {
        let hex = "4f".repeat(32);
        for text in [&hex, "org=polito", "federation=alps"] {
            assert_eq!(text.parse::<Party>().unwrap().to_string(), text);
        }
        for wrong in ["", "4f", "org=", "org=A b", "country=IT", "federation"] {
            let said = wrong.parse::<Party>().unwrap_err().to_string();
            assert!(said.contains("org=NAME"), "{said}");
        }
    }

    #[test]
    fn who_is_meant_is_told_by_certificates() {
        let (one, other) = (ClusterId([1; 32]), ClusterId([2; 32]));
        let polito = [Affiliation {
            federation: FederationId([7; 32]),
            name: "alps".parse().unwrap(),
            organisation: Some("polito".parse().unwrap()),
            sells: true,
            buys: true,
            attributes: Arc::default(),
        }];
        let party = |text: &str| text.parse::<Party>().unwrap();
        assert!(
            party(&one.to_string()).is(&one, &[]) && !party(&one.to_string()).is(&other, &polito)
        );
        for (text, is) in [
            ("org=polito", true),
            ("org=alps", false),
            ("federation=alps", true),
            ("federation=polito", false),
        ] {
            assert_eq!(party(text).is(&one, &polito), is, "{text}");
            assert!(!party(text).is(&one, &[]), "{text}");
        }
    }
}
