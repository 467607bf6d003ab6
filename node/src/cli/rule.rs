//! A rule of what is shared, as it is typed: `federation=italia: ask`. What it does is the broker's.

use std::collections::{BTreeMap, BTreeSet};

use mercato_broker::syntax::PriceChange;
use mercato_broker::{Approve, Party, ShareRule, Standing};
use mercato_config::{FromText as _, Seconds};
use mercato_protocol::egress::EgressKind;
use mercato_protocol::resources::Resource;
use mercato_protocol::terms::Class;

/// A rule, and the names of clusters in it, which only the daemon knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) rule: ShareRule,
    pub(super) names: Vec<String>,
}

const FORM: &str = "write CASES: auto, ask or deny, as in 'federation=italia: ask'";

/// Reads `CASE[ or CASE...][, CASE...]: THEN[ at PRICE]`.
pub(super) fn typed(text: &str) -> Result<Typed, String> {
    let (cases, then) = text.split_once(':').ok_or(FORM)?;
    let (then, price) = match then.split_once(" at ") {
        Some((then, price)) => (then, Some(price)),
        None => (then, None),
    };
    let mut typed = Typed::default();
    typed.rule.then = match then.trim() {
        "auto" => Approve::Auto,
        "ask" => Approve::Ask,
        "deny" => Approve::Deny,
        other => return Err(format!("{other:?} is none of auto, ask and deny: {FORM}")),
    };
    let price = price.map(|price| PriceChange::from_text(price.trim())).transpose();
    typed.rule.price = price.map_err(|error| error.to_string())?;
    let mut said = BTreeMap::new();
    for one in cases.split(',').map(str::trim) {
        let choices: Vec<_> = one.split(" or ").map(str::trim).collect();
        let kinds: Result<BTreeSet<_>, _> =
            choices.iter().map(|choice| case(&mut typed, choice)).collect();
        let kinds: Vec<_> = kinds?.into_iter().collect();
        let [kind] = kinds[..] else { return Err(format!("{one:?}: {OR}")) };
        if choices.len() > 1 && !matches!(kind, Kind::Buyer | Kind::Country | Kind::Resource) {
            return Err(format!("{one:?}: {OR}"));
        }
        if let Some(before) = said.insert(kind, one) {
            return Err(format!(
                "{before:?} and {one:?}: cases between commas all have to hold; {OR}"
            ));
        }
    }
    Ok(typed)
}

const OR: &str = "of several buyers, countries or resources one is enough, as in \
                  'federation=italia or org=polito: ask'";

/// Of what a case says something: of each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Everybody,
    Buyer,
    Standing,
    Country,
    Resource,
    Class,
    Egress,
    Longest,
    Shortest,
}

fn case(typed: &mut Typed, text: &str) -> Result<Kind, String> {
    let rule = &mut typed.rule;
    let seconds = |text: &str| Seconds::from_text(text).map_err(|error| error.to_string());
    let kind = match text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)))
    {
        ("", None) => return Err(format!("a case is missing: {FORM}")),
        ("everybody", None) => Kind::Everybody,
        ("stranger", None) => {
            rule.standing = Some(Standing::Stranger);
            Kind::Standing
        }
        ("trusted", None) => {
            rule.standing = Some(Standing::Trusted);
            Kind::Standing
        }
        ("spot", None) => {
            rule.class = Some(Class::Spot);
            Kind::Class
        }
        ("reserved", None) => {
            rule.class = Some(Class::Reserved);
            Kind::Class
        }
        ("jurisdiction", Some(country)) => {
            rule.jurisdictions.insert(country.to_owned());
            Kind::Country
        }
        ("egress", Some(kind)) => {
            let kind = EgressKind::ALL.into_iter().find(|it| it.word() == kind);
            rule.egress = Some(kind.ok_or("egress is none, named or internet")?);
            Kind::Egress
        }
        ("longest", Some(term)) => {
            rule.longest_s = Some(seconds(term)?.0);
            Kind::Longest
        }
        ("shortest", Some(term)) => {
            rule.shortest_s = Some(seconds(term)?.0);
            Kind::Shortest
        }
        ("federation" | "org", Some(_)) => {
            let party = text.parse::<Party>().map_err(|error| error.to_string())?;
            rule.buyers.insert(party);
            Kind::Buyer
        }
        (name, Some(_)) => {
            return Err(format!(
                "{name:?} is none of federation, org, jurisdiction, egress, longest and shortest: {FORM}"
            ));
        }
        (name, None) => match name.parse::<Resource>() {
            Ok(resource) => {
                rule.resources.insert(resource);
                Kind::Resource
            }
            Err(_) => {
                typed.names.push(name.to_owned());
                Kind::Buyer
            }
        },
    };
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_said() {
        let rule = |text: &str| typed(text).unwrap().rule;
        let members = rule("federation=italia or org=polito: ask");
        assert_eq!(members.then, Approve::Ask);
        let buyers: Vec<_> = members.buyers.iter().map(ToString::to_string).collect();
        assert_eq!(buyers, ["org=polito", "federation=italia"]);
        let strangers = rule("stranger, gpu.h100, spot, longest=4h: deny");
        assert_eq!((strangers.standing, strangers.then), (Some(Standing::Stranger), Approve::Deny));
        assert_eq!((strangers.class, strangers.longest_s), (Some(Class::Spot), Some(14_400)));
        assert_eq!(strangers.resources, ["gpu.h100".parse().unwrap()].into());
        let cheap = rule("jurisdiction=IT, trusted, shortest=7d: auto at cpu=0.01 EUR/h");
        assert_eq!(cheap.price, Some(PriceChange::from_text("cpu=0.01 EUR/h").unwrap()));
        assert_eq!(cheap.jurisdictions, ["IT".to_owned()].into());
        assert_eq!(rule("egress=named: ask").egress, Some(EgressKind::Named));
        assert_eq!(rule("everybody: ask"), ShareRule::default());
        assert_eq!(typed("turin or 4f: auto").unwrap().names, ["turin", "4f"]);
        for (wrong, said) in [
            ("federation=italia", "federation=italia: ask"),
            ("federation=italia: maybe", "\"maybe\" is none of"),
            (": ask", "a case is missing"),
            ("federations=italia: ask", "\"federations\" is none of"),
            ("federation=: ask", "names nobody"),
            ("longest=soon: ask", "expected"),
            ("egress=some: ask", "none, named or internet"),
            ("federation=italia, org=polito: ask", "all have to hold"),
            ("turin, 4f: auto", "all have to hold"),
            ("stranger, trusted: ask", "all have to hold"),
            ("spot or reserved: ask", "one is enough"),
            ("federation=italia or gpu.h100: ask", "one is enough"),
            ("trusted: auto at cheap", "expected"),
        ] {
            let why = typed(wrong).unwrap_err();
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }
}
