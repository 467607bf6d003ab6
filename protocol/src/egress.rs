//! A way out to the Internet: what a contract gives its guests, and what an advertisement offers.
//! Nothing is said where there is none.

use std::fmt;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::codec::wire_union;
use crate::codec::{CodecError, Extension, Reader, Wire, Writer, ensure, wire_enum, wire_map};
use crate::limits;
use crate::outside::is_outside;

/// Whom guests of a contract reach on the Internet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Egress {
    /// Nobody, which no word says.
    #[default]
    None,
    /// Whoever has an address in one of these ranges.
    Named(Outside),
    /// Everybody who is anybody there.
    Internet,
}

/// How wide a way out is, narrowest first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum EgressKind {
    /// There is no way out.
    #[default]
    None,
    /// To ranges that are named.
    Named,
    /// To all of the Internet.
    Internet,
}

/// Ranges of the Internet: one to [`limits::EGRESS_RANGES`], those of IPv4 first, ascending by
/// address, none within another, and each is [`is_outside`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<IpNet>", into = "Vec<IpNet>")]
pub struct Outside(Box<[IpNet]>);

/// Why ranges are not those of a way out.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum OutsideError {
    /// No range is named at all.
    #[error("no range is named")]
    Nothing,
    /// More ranges are named than may be.
    #[error("more than {} ranges", limits::EGRESS_RANGES)]
    TooMany,
    /// It has bits behind its prefix.
    #[error("{0} has bits behind its prefix")]
    HostBits(IpNet),
    /// It has an address that nobody on the Internet has.
    #[error("{0} is nobody's on the Internet")]
    Nobody(IpNet),
}

/// The widest way out that a provider offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EgressOffer {
    /// To these ranges, or some of them.
    Named(Outside),
    /// To all of the Internet, or ranges of it.
    Internet,
}

/// What of a way out that is asked for is not offered.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EgressLack {
    /// None is offered at all.
    #[error("offers no egress")]
    All,
    /// It is offered to ranges that are named alone.
    #[error("offers egress to named ranges alone")]
    Internet,
    /// This range is in none that is offered.
    #[error("does not offer egress to {0}")]
    Range(IpNet),
}

impl Outside {
    /// Those ranges in their order; what comes twice, or is within another, once.
    pub fn of(ranges: impl IntoIterator<Item = IpNet>) -> Result<Self, OutsideError> {
        let mut sorted: Vec<_> = ranges.into_iter().collect();
        sorted.sort_unstable();
        let mut kept: Vec<IpNet> = Vec::new();
        for range in sorted {
            if range.trunc() != range {
                return Err(OutsideError::HostBits(range));
            }
            if !is_outside(range) {
                return Err(OutsideError::Nobody(range));
            }
            // A shorter prefix comes before a longer one of the same address.
            if kept.last().is_none_or(|last| !last.contains(&range)) {
                kept.push(range);
            }
        }
        match kept.len() {
            0 => Err(OutsideError::Nothing),
            n if n > limits::EGRESS_RANGES => Err(OutsideError::TooMany),
            _ => Ok(Self(kept.into())),
        }
    }

    /// Each of the ranges, in ascending order.
    pub fn ranges(&self) -> &[IpNet] {
        &self.0
    }

    /// The first of these ranges that has an address which none of its own has.
    fn lacks(&self, asked: &Self) -> Option<IpNet> {
        // Neighbours become one range, so that what they have together is in one.
        let own = IpNet::aggregate(&self.0.to_vec());
        asked.0.iter().find(|range| !own.iter().any(|own| own.contains(*range))).copied()
    }
}

impl TryFrom<Vec<IpNet>> for Outside {
    type Error = OutsideError;

    fn try_from(ranges: Vec<IpNet>) -> Result<Self, OutsideError> {
        Self::of(ranges)
    }
}

impl From<Outside> for Vec<IpNet> {
    fn from(ranges: Outside) -> Self {
        ranges.0.into()
    }
}

/// With commas, as a person writes them.
impl fmt::Display for Outside {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, range) in self.0.iter().enumerate() {
            write!(to, "{}{range}", if n > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl Egress {
    /// How wide the way out is.
    pub fn kind(&self) -> EgressKind {
        match self {
            Self::None => EgressKind::None,
            Self::Named(_) => EgressKind::Named,
            Self::Internet => EgressKind::Internet,
        }
    }

    /// The ranges that it names, if it names any.
    pub fn ranges(&self) -> &[IpNet] {
        match self {
            Self::Named(ranges) => ranges.ranges(),
            Self::None | Self::Internet => &[],
        }
    }

    fn given(&self) -> Option<Given> {
        match self {
            Self::None => None,
            Self::Named(ranges) => Some(Given::Named { ranges: ranges.clone() }),
            Self::Internet => Some(Given::Internet),
        }
    }

    fn of(given: Option<Given>) -> Self {
        match given {
            None => Self::None,
            Some(Given::Named { ranges }) => Self::Named(ranges),
            Some(Given::Internet) => Self::Internet,
        }
    }
}

impl fmt::Display for Egress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => to.write_str("none"),
            Self::Named(ranges) => ranges.fmt(to),
            Self::Internet => to.write_str("internet"),
        }
    }
}

impl EgressKind {
    /// Each of them, narrowest first.
    pub const ALL: [Self; 3] = [Self::None, Self::Named, Self::Internet];

    /// As an owner writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Named => "named",
            Self::Internet => "internet",
        }
    }
}

impl EgressOffer {
    /// How wide it is; never none.
    pub fn kind(&self) -> EgressKind {
        match self {
            Self::Named(_) => EgressKind::Named,
            Self::Internet => EgressKind::Internet,
        }
    }

    /// Whether this is as much as is asked for, or more: each address that is asked for is one that
    /// is offered.
    pub fn grants(&self, asked: &Egress) -> bool {
        self.lack(asked).is_none()
    }

    /// What of this is not offered; none: nothing lacks.
    pub fn lack(&self, asked: &Egress) -> Option<EgressLack> {
        match (self, asked) {
            (_, Egress::None) | (Self::Internet, Egress::Named(_) | Egress::Internet) => None,
            (Self::Named(own), Egress::Named(asked)) => own.lacks(asked).map(EgressLack::Range),
            (Self::Named(_), Egress::Internet) => Some(EgressLack::Internet),
        }
    }

    /// The same of what is offered, if anything is.
    pub fn lack_of(offered: Option<&Self>, asked: &Egress) -> Option<EgressLack> {
        match offered {
            Some(offered) => offered.lack(asked),
            None => (*asked != Egress::None).then_some(EgressLack::All),
        }
    }
}

impl fmt::Display for EgressOffer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(ranges) => ranges.fmt(to),
            Self::Internet => to.write_str("internet"),
        }
    }
}

/// The list of them, in the one order that each has.
impl Wire for Outside {
    fn encode(&self, to: &mut Writer) {
        self.0.to_vec().encode(to);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let said = Vec::<IpNet>::decode(from)?;
        let plain = Self::of(said.iter().copied()).map_err(|error| match error {
            OutsideError::Nothing => CodecError::Invalid("no range is named"),
            OutsideError::TooMany => {
                CodecError::TooLong { what: "ranges", limit: limits::EGRESS_RANGES }
            }
            OutsideError::HostBits(_) => CodecError::Invalid("a range with bits of a host"),
            OutsideError::Nobody(_) => CodecError::Invalid("a range of nobody's on the Internet"),
        })?;
        ensure(*plain.0 == *said, "ranges twice, out of order, or within each other")?;
        Ok(plain)
    }
}

/// What terms say, where they say something.
#[derive(Clone)]
enum Given {
    Named { ranges: Outside },
    Internet,
}

wire_union!(Given { 1 => Named { 1 => ranges }, 2 => Internet {} });

impl Extension for Egress {
    fn to_value(&self) -> Option<Vec<u8>> {
        self.given().to_value()
    }

    fn from_value(bytes: &[u8]) -> Result<Self, CodecError> {
        Option::<Given>::from_value(bytes).map(Self::of)
    }
}

/// As a field: none is left out.
impl Wire for Egress {
    fn encode(&self, to: &mut Writer) {
        self.given().encode(to);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        Option::<Given>::decode(from).map(Self::of)
    }

    fn is_absent(&self) -> bool {
        *self == Self::None
    }

    fn absent() -> Option<Self> {
        Some(Self::None)
    }
}

/// As an advertisement says it.
struct Offered {
    most: Most,
    ranges: Option<Outside>,
}

enum Most {
    Named,
    Internet,
}

wire_enum!(Most { 1 => Named, 2 => Internet });
wire_map!(Offered { 1 => most, 2 => ranges });

impl Wire for EgressOffer {
    fn encode(&self, to: &mut Writer) {
        let offered = match self {
            Self::Named(ranges) => Offered { most: Most::Named, ranges: Some(ranges.clone()) },
            Self::Internet => Offered { most: Most::Internet, ranges: None },
        };
        offered.encode(to);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        match Offered::decode(from)? {
            Offered { most: Most::Named, ranges: Some(ranges) } => Ok(Self::Named(ranges)),
            Offered { most: Most::Internet, ranges: None } => Ok(Self::Internet),
            Offered { most: Most::Named, ranges: None } => {
                Err(CodecError::Invalid("egress to named ranges, of which none is named"))
            }
            Offered { most: Most::Internet, ranges: Some(_) } => {
                Err(CodecError::Invalid("egress to all of the Internet, and to ranges of it"))
            }
        }
    }
}
