//! What becomes of each field, as tables for people: docs/virtual-node.md has them.

use std::collections::BTreeSet;

use super::rule::{Fields, Rule};
use super::schema::POD;
use super::schema_container::RESOURCES;
use super::schema_status::POD_STATUS;

/// Whose fields a table is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// A pod that leaves home.
    Pod,
    /// A status that comes home.
    Status,
}

/// What becomes of each field of a pod and of its status, as Markdown: a table of each type, with the
/// words of the rows by which guests are made.
pub fn tables_of_fields() -> String {
    tables(&POD, Of::Pod) + &tables(&POD_STATUS, Of::Status)
}

/// A table of each type, in the order in which fields name them.
fn tables(root: &'static Fields, of: Of) -> String {
    let (mut seen, mut text) = (BTreeSet::new(), String::new());
    root.visit(&mut |fields| {
        if seen.insert(fields.of) && (fields.of == root.of || !is_plain(fields)) {
            text += &table(fields, of);
        }
    });
    text
}

/// Fields of which the same becomes share a row.
fn table(fields: &Fields, of: Of) -> String {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for (name, rule) in fields.rows {
        let (becomes, name) = (becomes(*rule, of), format!("`{name}`"));
        match rows.iter_mut().find(|(known, _)| *known == becomes) {
            Some((_, names)) => names.push(name),
            None => rows.push((becomes, vec![name])),
        }
    }
    let title = title(fields, of);
    let row =
        |(becomes, names): (String, Vec<String>)| format!("| {} | {becomes} |\n", names.join(", "));
    let rows: String = rows.into_iter().map(row).collect();
    format!("\n#### {title}\n\n| field | what becomes of it |\n|---|---|\n{rows}")
}

/// What its table is called: a status has one type that a pod has as well.
fn title(fields: &Fields, of: Of) -> String {
    let is_shared = of == Of::Status && fields.of == RESOURCES.of;
    format!("{}{}", fields.of, if is_shared { " of a status" } else { "" })
}

/// The fields of a type that has no table, with those of the types in it.
fn names(fields: &Fields, path: &str) -> Vec<String> {
    let each = |(name, rule): &(&str, Rule)| {
        if let Rule::In(inner) | Rule::Each(inner) = rule {
            names(inner, &format!("{path}{name}."))
        } else {
            vec![format!("`{path}{name}`")]
        }
    };
    fields.rows.iter().flat_map(each).collect()
}

fn becomes(rule: Rule, of: Of) -> String {
    let (passes, stays) = match of {
        Of::Pod => ("passes", "stays at home"),
        Of::Status => ("is the guest's", "is left out"),
    };
    match rule {
        Rule::Carry | Rule::Amount => passes.to_owned(),
        Rule::Noted(text) | Rule::Amounts(text) => format!("{passes}; {text}"),
        Rule::Turned(text) | Rule::Anew(text) => format!("is translated: {text}"),
        Rule::Drop(text) => format!("{stays}: {text}"),
        Rule::Refuse(reason) => format!("is refused: *{reason}*"),
        Rule::If(check) => {
            format!("{passes} {}; is refused otherwise: *{}*", check.allowed, check.reason)
        }
        Rule::Baseline(check) => format!(
            "{passes} {}, or at the level `privileged`; is refused otherwise: *{}*",
            check.allowed, check.reason
        ),
        Rule::In(inner) | Rule::Each(inner) if is_plain(inner) => {
            format!("{passes}, with {}", names(inner, "").join(", "))
        }
        Rule::In(inner) | Rule::Each(inner) => {
            let title = title(inner, of);
            format!("see [{title}](#{})", title.to_lowercase().replace(' ', "-"))
        }
    }
}

/// Whether all of its fields are as they are: it has no table of its own.
fn is_plain(fields: &Fields) -> bool {
    fields.rows.iter().all(|(_, rule)| match rule {
        Rule::Carry | Rule::Amount => true,
        Rule::In(inner) | Rule::Each(inner) => is_plain(inner),
        Rule::Noted(_)
        | Rule::Amounts(_)
        | Rule::Turned(_)
        | Rule::Anew(_)
        | Rule::Drop(_)
        | Rule::Refuse(_)
        | Rule::If(_)
        | Rule::Baseline(_) => false,
    })
}
