//! What is claimed about a provider: in its advertisement, and in its certificates.

use serde::{Deserialize, Serialize};

use crate::codec::{wire_enum, wire_map};
use crate::text::Slug;

/// Something that is claimed about a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attribute {
    /// What is claimed, such as `cert.iso27001`.
    pub name: Slug,
    /// Its value; `true` where there is none.
    pub value: String,
    /// Who vouches for the value.
    pub assurance: Assurance,
}

/// Who vouches for an attribute, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Assurance {
    /// The provider claims it itself, unchecked.
    SelfAsserted,
    /// The issuer of its membership certificate.
    Issuer,
    /// A third party has attested it.
    ThirdParty,
}

wire_map!(Attribute { 1 => name, 2 => value, 3 => assurance });
wire_enum!(Assurance { 0 => SelfAsserted, 1 => Issuer, 2 => ThirdParty });
