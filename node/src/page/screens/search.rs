//! The search of the market as its address has it: each field as it was typed, and what it means.

use form_urlencoded::{Serializer, parse};
use mercato_broker::{Rate, Selector, Sort};
use mercato_config::{FromText, Gpus, Seconds, SyntaxError, quantity};
use mercato_protocol::id::ClusterId;
use mercato_protocol::resources::Resource;
use mercato_protocol::terms::Class;
use serde::de::DeserializeOwned;

use crate::limits;
use crate::present::requirements::Requirements;

/// Fields of the form, each with its name in the address.
pub(super) const FIELDS: [&str; 9] =
    ["q", "cpu", "memory", "gpu", "storage", "for", "max", "class", "sort"];

/// An address of the market, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Search {
    /// As typed, in the order of [`FIELDS`].
    pub(super) fields: [String; FIELDS.len()],
    /// Whether the reasons are shown, instead of the offers.
    pub(super) why: bool,
    /// Whether those that were picked stand side by side.
    pub(super) side: bool,
    /// Offers that were picked, as `ID/POOL`.
    pub(super) picked: Vec<String>,
}

/// A field that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// The name of the field.
    pub(super) field: &'static str,
    /// What was expected, with an example.
    pub(super) what: String,
    /// The text around the place, and a sign below it.
    pub(super) place: Option<String>,
}

impl Search {
    /// Reads the query of an address. What it does not know is left out.
    pub(super) fn read(query: &str) -> Self {
        let mut search = Self::default();
        for (name, value) in parse(query.as_bytes()) {
            match &*name {
                "tab" => search.why = value == "why",
                "view" => search.side = value == "side",
                "pick" if search.picked.len() < limits::PAGE_PICKED => {
                    if !value.is_empty() && !search.picked.iter().any(|it| *it == *value) {
                        search.picked.push(value.into_owned());
                    }
                }
                _ => {
                    let at = FIELDS.iter().position(|field| *field == name);
                    if let Some(field) = at.and_then(|at| search.fields.get_mut(at)) {
                        value.trim().clone_into(field);
                    }
                }
            }
        }
        search
    }

    /// What was typed into a field.
    pub(super) fn field(&self, name: &str) -> &str {
        let at = FIELDS.iter().position(|field| *field == name);
        at.and_then(|at| self.fields.get(at)).map_or("", String::as_str)
    }

    /// The same with another text in a field.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut search = self.clone();
        let at = FIELDS.iter().position(|field| *field == name);
        if let Some(field) = at.and_then(|at| search.fields.get_mut(at)) {
            value.clone_into(field);
        }
        search
    }

    /// The address of it, with no field that is empty.
    pub(super) fn url(&self) -> String {
        let mut query = Serializer::new(String::new());
        for (name, value) in FIELDS.iter().zip(&self.fields) {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        if self.why {
            query.append_pair("tab", "why");
        }
        if self.side {
            query.append_pair("view", "side");
        }
        for picked in &self.picked {
            query.append_pair("pick", picked);
        }
        let query = query.finish();
        if query.is_empty() { "/market".to_owned() } else { format!("/market?{query}") }
    }

    /// What is wanted.
    ///
    /// # Errors
    /// The first field that cannot be read.
    pub(super) fn requirements(&self) -> Result<Requirements, Wrong> {
        let amount = |resource: Resource| move |text: &str| quantity::of(&resource, text);
        Ok(Requirements {
            selector: self.read_field("q", Selector::from_text)?,
            cpu: self.read_field("cpu", amount(Resource::Cpu))?,
            memory: self.read_field("memory", amount(Resource::Memory))?,
            gpu: self.read_field("gpu", Gpus::from_text)?,
            storage: self.read_field("storage", amount(Resource::Storage))?,
            pods: None,
            term: self.read_field("for", Seconds::from_text)?,
            class: self.word::<Class>("class"),
            max_price: self.read_field("max", Rate::from_text)?,
            from: None,
            egress: None,
            sort: self.word::<Sort>("sort").unwrap_or_default(),
        })
    }

    fn read_field<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, SyntaxError>,
    ) -> Result<Option<T>, Wrong> {
        let text = self.field(name);
        if text.is_empty() {
            return Ok(None);
        }
        read(text).map(Some).map_err(|error| Wrong::of(name, &error))
    }

    /// A word of a list; none where it is another one.
    fn word<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_value(self.field(name).into()).ok()
    }
}

impl Wrong {
    fn of(field: &'static str, error: &SyntaxError) -> Self {
        let said = error.to_string();
        let (what, place) = said.split_once('\n').unwrap_or((&said, ""));
        let what = format!("at character {}: {what}", error.column());
        Self { field, what, place: Some(place.to_owned()).filter(|place| !place.is_empty()) }
    }
}

/// The terms of a selector as they were typed.
pub(super) fn terms(selector: &str) -> Vec<&str> {
    let (mut depth, mut quoted) = (0_i32, false);
    let split = |c: char| {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    };
    selector.split(split).map(str::trim).filter(|term| !term.is_empty()).collect()
}

/// The selector with this term, or without it where it has it.
pub(super) fn toggled(selector: &str, term: &str) -> String {
    let all = terms(selector);
    if all.contains(&term) {
        let others: Vec<_> = all.into_iter().filter(|other| *other != term).collect();
        return others.join(", ");
    }
    let all: Vec<_> = all.into_iter().chain([term]).collect();
    all.join(", ")
}

/// The cluster and the pool that were picked.
pub(super) fn pick(picked: &str) -> Option<(ClusterId, &str)> {
    let (cluster, pool) = picked.split_once('/')?;
    Some((cluster.parse().ok()?, pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_search_and_the_other_way_round() {
        let url = "/market?q=gpu.model%3Dh100%2C+rtt%3C%3D30ms&for=4h&tab=why&pick=a&pick=b";
        let search = Search::read(url.split_once('?').unwrap().1);
        assert_eq!(search.field("q"), "gpu.model=h100, rtt<=30ms");
        assert_eq!(search.url(), url);
        assert_eq!(Search::read("cpu=&other=1&pick=").url(), "/market");
        let many = "pick=1&pick=2&pick=2&pick=3&pick=4&pick=5";
        assert_eq!(Search::read(many).picked, ["1", "2", "3", "4"]);
    }

    #[test]
    fn what_cannot_be_read_is_said_at_the_character() {
        let wrong = Search::read("q=gpu.mem%3E%3Dx").requirements().unwrap_err();
        assert_eq!(wrong.field, "q");
        assert!(wrong.what.starts_with("at character 10: expected"), "{}", wrong.what);
        assert!(wrong.place.unwrap().ends_with('^'));
        assert_eq!(Search::read("cpu=much").requirements().unwrap_err().field, "cpu");
        let requirements = Search::read("cpu=8&for=4h&sort=price&class=spot").requirements();
        assert_eq!(requirements.unwrap().words(), "--cpu 8 --for 4h --class spot --sort price");
        assert_eq!(Search::read("sort=x&class=y").requirements(), Ok(Requirements::default()));
    }

    #[test]
    fn a_term_comes_and_goes() {
        let all = "gpu.model in (h100,h200), provider=\"Turin, north\"";
        assert_eq!(terms(all), ["gpu.model in (h100,h200)", "provider=\"Turin, north\""]);
        let more = toggled(all, "trust=trusted");
        assert_eq!(more, format!("{all}, trust=trusted"));
        assert_eq!(toggled(&more, "trust=trusted"), all);
        assert_eq!(toggled("", "a=b"), "a=b");
    }
}
