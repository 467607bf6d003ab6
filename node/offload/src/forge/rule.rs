//! What may become of a field that crosses between clusters, and how an object is filtered by the
//! rules of its fields.

use mercato_protocol::quantity;
use mercato_protocol::terms::PodSecurity;
use serde_json::{Map, Value};

use super::check::Check;
use crate::message::Refusal;
use crate::placement::counted;

/// What becomes of a field. The words are those of docs/virtual-node.md: see
/// [`super::fields_page`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// It crosses as it is: a scalar, or a list or map of scalars.
    Carry,
    /// The same, and this is to be known of it.
    Noted(&'static str),
    /// It crosses this filter, and is then made into this.
    Turned(&'static str),
    /// It stays behind, and this is written in its place.
    Anew(&'static str),
    /// It stays behind, for this reason.
    Drop(&'static str),
    /// It must not be set; this is why.
    Refuse(&'static str),
    /// A quantity: it crosses in canonical form, so that what reads it as text sees what others count.
    Amount,
    /// Quantities by resource, likewise, and this is to be known of them.
    Amounts(&'static str),
    /// It crosses if this agrees.
    If(&'static Check),
    /// The same, but that the pod-security level `privileged` lets all of it cross.
    Baseline(&'static Check),
    /// An object with rows of its own.
    In(&'static Fields),
    /// A list of such objects.
    Each(&'static Fields),
}

/// What a person does whose pod is not of the contract's pod-security level.
pub(super) const LEVEL: &str = "leave it out, or buy with the selector pod-security=privileged";

/// Where an object goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To a guest namespace of that level: what is not allowed is refused.
    There(PodSecurity),
    /// Home again: what is not allowed is left out.
    Back,
}

/// The rows of one type.
#[derive(Debug)]
pub(super) struct Fields {
    /// The type's name in the Kubernetes schema.
    pub(super) of: &'static str,
    /// Field and rule, in the order of the schema.
    pub(super) rows: &'static [(&'static str, Rule)],
}

impl Fields {
    /// Filters an object by the rows, for a guest namespace of that level. The error names
    /// the field.
    pub(super) fn filter(&self, value: &Value, level: PodSecurity) -> Result<Value, Refusal> {
        self.walk(value, "", Way::There(level))
    }

    /// The same, for what flows back: what is not known or not allowed is left out.
    pub(super) fn select(&self, value: &Value) -> Value {
        self.walk(value, "", Way::Back).unwrap_or_default()
    }

    /// Visits these rows, and then those of each of their fields.
    pub(super) fn visit(&'static self, each: &mut dyn FnMut(&'static Self)) {
        each(self);
        for (_, rule) in self.rows {
            if let Rule::In(inner) | Rule::Each(inner) = rule {
                inner.visit(each);
            }
        }
    }

    fn walk(&self, value: &Value, path: &str, way: Way) -> Result<Value, Refusal> {
        let object = value.as_object().ok_or_else(|| refusal(path, "is not an object"))?;
        let mut kept = Map::new();
        for (name, value) in object {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let rule = self.rows.iter().find(|(row, _)| row == name).map(|(_, rule)| *rule);
            match rule.unwrap_or(Rule::Refuse("is not known here")).apply(value, &path, way) {
                Ok(Some(value)) => drop(kept.insert(name.clone(), value)),
                Ok(None) => {}
                Err(refusal) if way != Way::Back => return Err(refusal),
                Err(_) => {}
            }
        }
        Ok(Value::Object(kept))
    }
}

impl Rule {
    /// Whether anything of the field itself is what the other side has said.
    #[cfg(test)]
    pub(super) fn crosses(self) -> bool {
        match self {
            Self::Carry | Self::Noted(_) | Self::Turned(_) | Self::Amount | Self::Amounts(_) => {
                true
            }
            Self::If(_) | Self::Baseline(_) => true,
            Self::Anew(_) | Self::Drop(_) | Self::Refuse(_) | Self::In(_) | Self::Each(_) => false,
        }
    }

    fn apply(self, value: &Value, path: &str, way: Way) -> Result<Option<Value>, Refusal> {
        match self {
            Self::Carry | Self::Noted(_) | Self::Turned(_) if is_flat(value) => {
                Ok(Some(value.clone()))
            }
            Self::Carry | Self::Noted(_) | Self::Turned(_) => {
                Err(refusal(path, "is not a plain value"))
            }
            Self::Amount if value.is_null() => Ok(None),
            Self::Amount => amount(value, path).map(Some),
            Self::Amounts(_) if value.is_null() => Ok(Some(Value::Null)),
            Self::Amounts(_) => amounts(value, path).map(Some),
            Self::Anew(_) | Self::Drop(_) => Ok(None),
            Self::Refuse(_) if is_unset(value) => Ok(None),
            Self::Refuse(reason) => Err(refusal(path, reason)),
            Self::Baseline(_) if way == Way::There(PodSecurity::Privileged) => {
                Ok(Some(value.clone()))
            }
            Self::Baseline(check) => match check.look(value) {
                Ok(()) => Ok(Some(value.clone())),
                Err(reason) => Err(refusal(path, format!("{reason}; {LEVEL}"))),
            },
            Self::If(check) => match check.look(value) {
                Ok(()) => Ok(Some(value.clone())),
                Err(reason) => Err(refusal(path, reason)),
            },
            Self::In(_) | Self::Each(_) if is_unset(value) => Ok(Some(value.clone())),
            Self::In(fields) => fields.walk(value, path, way).map(Some),
            Self::Each(fields) => {
                let list = value.as_array().ok_or_else(|| refusal(path, "is not a list"))?;
                let walk = |(n, value)| fields.walk(value, &format!("{path}[{n}]"), way);
                let kept: Result<Vec<_>, _> = list.iter().enumerate().map(walk).collect();
                kept.map(|kept| Some(Value::Array(kept)))
            }
        }
    }
}

/// Quantities by resource in canonical form. One that says nothing is left out: it counts as nothing,
/// and what fills in such a one would look for its name.
fn amounts(list: &Value, path: &str) -> Result<Value, Refusal> {
    let list = list.as_object().ok_or_else(|| refusal(path, "is not an object"))?;
    let said = list.iter().filter(|(_, value)| !value.is_null());
    let each = said.map(|(name, value)| {
        let path = format!("{path}[{name}]");
        let written = amount(value, &path)?;
        // What nobody can count takes nothing of what was bought.
        let is_counted = counted(name, &written).is_some();
        is_counted.then(|| (name.clone(), written)).ok_or_else(|| refusal(&path, "is too much"))
    });
    each.collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

fn amount(value: &Value, path: &str) -> Result<Value, Refusal> {
    let text = match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let written = text.and_then(|text| quantity::canonical(&text));
    let written = written.filter(|written| !written.starts_with('-'));
    written.map(Value::from).ok_or_else(|| refusal(path, "is no quantity of zero or more"))
}

/// Absent in all but name: null, false, zero, empty.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn is_flat(value: &Value) -> bool {
    let scalar = |value: &Value| !value.is_array() && !value.is_object();
    match value {
        Value::Array(list) => list.iter().all(scalar),
        Value::Object(map) => map.values().all(scalar),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

pub(super) fn refusal(path: &str, reason: impl Into<String>) -> Refusal {
    Refusal { path: path.to_owned(), reason: reason.into() }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident = $of:literal { $($field:literal: $rule:expr,)* })*) => {
        $($(#[$doc])* pub(super) static $name: Fields =
            Fields { of: $of, rows: &[$(($field, $rule)),*] };)*
    };
}
pub(super) use fields;
