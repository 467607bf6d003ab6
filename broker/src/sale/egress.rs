//! A way out to the Internet, as its owner sells it: to nobody, to ranges that are named, or to all.
//! It is included in the price; a rule gives another one.

use std::collections::BTreeSet;

use ipnet::IpNet;
use mercato_protocol::ad::AdBody;
use mercato_protocol::contract::Terms;
use mercato_protocol::egress::{EgressKind, EgressLack, EgressOffer, Outside};
use mercato_protocol::negotiation::TerminateReason;
use serde::{Deserialize, Serialize};

use crate::deal::Verdict;
use crate::limits;

/// What the owner says of the way out that is sold with what is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EgressPolicy {
    /// The widest that is sold.
    pub to: EgressKind,
    /// Where it is sold to named ranges alone: which.
    pub named: BTreeSet<IpNet>,
    /// What guests never reach, beside what nobody reaches: ranges of the owner's own.
    pub except: BTreeSet<IpNet>,
}

impl EgressPolicy {
    /// What the types alone do not say.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { to, named, except } = self;
        match (to, named.is_empty()) {
            (EgressKind::Named, true) => {
                return Err("egress to named ranges, of which none is named".to_owned());
            }
            (EgressKind::None | EgressKind::Internet, false) => {
                return Err(format!("egress to {}, and ranges that are named", to.word()));
            }
            (EgressKind::Named, false) | (EgressKind::None | EgressKind::Internet, true) => {}
        }
        if !named.is_empty() {
            Outside::of(named.iter().copied()).map_err(|error| format!("egress: {error}"))?;
        }
        if except.len() > limits::EXCEPTED_RANGES {
            return Err(format!("egress: more than {} ranges excepted", limits::EXCEPTED_RANGES));
        }
        if let Some(range) = except.iter().find(|range| range.trunc() != **range) {
            let plain = range.trunc();
            return Err(format!("egress: {range} has bits behind its prefix: {plain}"));
        }
        let both = named.iter().find(|one| except.iter().any(|except| except.contains(*one)));
        both.map_or(Ok(()), |one| Err(format!("egress: {one} is named, and excepted")))
    }

    /// What an advertisement offers of it; none: nothing.
    pub(super) fn offer(&self) -> Option<EgressOffer> {
        match self.to {
            EgressKind::None => None,
            EgressKind::Named => {
                Outside::of(self.named.iter().copied()).ok().map(EgressOffer::Named)
            }
            EgressKind::Internet => Some(EgressOffer::Internet),
        }
    }
}

/// The refusal of a way out that is not offered; none: it is granted.
pub(super) fn refusal(offered: &AdBody, asked: &Terms) -> Option<Verdict> {
    let what = match EgressOffer::lack_of(offered.egress.as_ref(), &asked.egress)? {
        EgressLack::All => "no egress is offered".to_owned(),
        EgressLack::Internet => "egress is offered to named ranges alone".to_owned(),
        EgressLack::Range(range) => format!("egress to {range} is not offered"),
    };
    let text = format!("these are not the terms on offer: {what}");
    Some(Verdict::Refuse(TerminateReason::TermsRefused, text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(to: EgressKind, named: &[&str], except: &[&str]) -> EgressPolicy {
        let set = |all: &[&str]| all.iter().map(|range| range.parse().unwrap()).collect();
        EgressPolicy { to, named: set(named), except: set(except) }
    }

    #[test]
    fn what_an_owner_cannot_mean_is_refused() {
        let wrong =
            |to, named: &[&str], except: &[&str]| policy(to, named, except).check().unwrap_err();
        let (none, named) = (EgressKind::None, EgressKind::Named);
        for (said, expected) in [
            (wrong(named, &[], &[]), "none is named"),
            (wrong(none, &["203.0.114.0/24"], &[]), "egress to none, and ranges"),
            (wrong(named, &["10.0.0.0/8"], &[]), "10.0.0.0/8 is nobody's on the Internet"),
            (wrong(none, &[], &["10.0.0.1/8"]), "behind its prefix: 10.0.0.0/8"),
            (wrong(named, &["203.0.114.0/24"], &["203.0.0.0/16"]), "is named, and excepted"),
        ] {
            assert!(said.contains(expected), "{said}");
        }
        let right = policy(named, &["203.0.114.0/24"], &["10.0.0.0/8", "203.0.114.7/32"]);
        assert_eq!(right.check(), Ok(()));
        assert_eq!(policy(EgressKind::Internet, &[], &["203.0.114.7/32"]).check(), Ok(()));
    }

    #[test]
    fn it_offers_what_it_says() {
        assert_eq!(policy(EgressKind::None, &[], &[]).offer(), None);
        assert_eq!(policy(EgressKind::Internet, &[], &[]).offer(), Some(EgressOffer::Internet));
        let offer = policy(EgressKind::Named, &["203.0.114.0/24"], &[]).offer();
        assert_eq!(offer.unwrap().to_string(), "203.0.114.0/24");
    }
}
