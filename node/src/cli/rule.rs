//! A rule of what is shared, as it is typed: `federation=italia: ask`. What it does is the broker's.

use mercato_broker::syntax::PriceChange;
use mercato_broker::{Approve, Party, ShareRule, Standing};
use mercato_config::{FromText as _, Seconds};
use mercato_protocol::resources::Resource;
use mercato_protocol::terms::Class;

/// A rule, and the names of clusters in it, which only the daemon knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) rule: ShareRule,
    pub(super) names: Vec<String>,
}

const FORM: &str = "write CASES: auto, ask or deny, as in 'federation=italia: ask'";

/// Reads `CASE[, CASE...]: THEN[ at PRICE]`.
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
    for one in cases.split(',').map(str::trim) {
        case(&mut typed, one)?;
    }
    Ok(typed)
}

fn case(typed: &mut Typed, text: &str) -> Result<(), String> {
    let rule = &mut typed.rule;
    let seconds = |text: &str| Seconds::from_text(text).map_err(|error| error.to_string());
    match text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value))) {
        ("", None) => return Err(format!("a case is missing: {FORM}")),
        ("everybody", None) => {}
        ("stranger", None) => rule.standing = Some(Standing::Stranger),
        ("trusted", None) => rule.standing = Some(Standing::Trusted),
        ("spot", None) => rule.class = Some(Class::Spot),
        ("reserved", None) => rule.class = Some(Class::Reserved),
        ("jurisdiction", Some(country)) => drop(rule.jurisdictions.insert(country.to_owned())),
        ("longest", Some(term)) => rule.longest_s = Some(seconds(term)?.0),
        ("shortest", Some(term)) => rule.shortest_s = Some(seconds(term)?.0),
        ("federation" | "org", Some(_)) => {
            let party = text.parse::<Party>().map_err(|error| error.to_string())?;
            rule.buyers.insert(party);
        }
        (name, Some(_)) => {
            return Err(format!(
                "{name:?} is none of federation, org, jurisdiction, longest and shortest: {FORM}"
            ));
        }
        (name, None) => match name.parse::<Resource>() {
            Ok(resource) => drop(rule.resources.insert(resource)),
            Err(_) => typed.names.push(name.to_owned()),
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_is_said() {
        let rule = |text: &str| typed(text).unwrap().rule;
        let members = rule("federation=italia, org=polito: ask");
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
        assert_eq!(rule("everybody: ask"), ShareRule::default());
        assert_eq!(typed("turin, 4f: auto").unwrap().names, ["turin", "4f"]);
        for (wrong, said) in [
            ("federation=italia", "federation=italia: ask"),
            ("federation=italia: maybe", "\"maybe\" is none of"),
            (": ask", "a case is missing"),
            ("federations=italia: ask", "\"federations\" is none of"),
            ("federation=: ask", "names nobody"),
            ("longest=soon: ask", "expected"),
            ("trusted: auto at cheap", "expected"),
        ] {
            let why = typed(wrong).unwrap_err();
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }
}
