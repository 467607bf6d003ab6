//! From text to a selector. The grammar is in docs/selectors.md.

use mercato_protocol::ad::Assurance;
use mercato_protocol::resources::Resource;
use mercato_protocol::text::Slug;

use super::attribute::{ASSURANCES, Kind, NAMES, PRICES, version};
use super::{AdFact, Attribute, Selector, Side, Term, Test, Value};
use crate::limits;
use crate::syntax::{FromText, Reader, SyntaxError, micros, period, quantity, seconds};

const SELECTOR: &str = "gpu.model in (h100,h200), jurisdiction=IT";
const PRICE: &str = "price.gpu.EUR<=2.50/h";
const CLAIM: &str = "cert.iso27001@third-party";

impl FromText for Selector {
    fn from_text(text: &str) -> Result<Self, SyntaxError> {
        let mut reader = Reader::new(text, SELECTOR);
        if text.len() > limits::SELECTOR_BYTES {
            let expected = format!("at most {} bytes", limits::SELECTOR_BYTES);
            let at = text.floor_char_boundary(limits::SELECTOR_BYTES);
            return Err(reader.error_at(at, &expected));
        }
        let mut terms = Vec::new();
        reader.spaces();
        if reader.rest().is_empty() {
            return Ok(Self { terms });
        }
        loop {
            if terms.len() >= limits::SELECTOR_TERMS {
                return Err(reader.error(&format!("at most {} terms", limits::SELECTOR_TERMS)));
            }
            terms.push(term(&mut reader)?);
            reader.example(SELECTOR);
            reader.spaces();
            if reader.rest().is_empty() {
                return Ok(Self { terms });
            }
            if !reader.take(',') {
                return Err(reader.error("a comma and another term, or the end"));
            }
            reader.spaces();
        }
    }
}

fn term(reader: &mut Reader<'_>) -> Result<Term, SyntaxError> {
    let from = reader.at();
    let name = reader.word(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    let (attribute, kind, example) = attribute(reader, name, from)?;
    reader.example(example);
    let attribute = assurance(reader, attribute)?;
    let mut end = reader.at();
    reader.spaces();
    let mut test = Test::Present;
    if !reader.rest().is_empty() && !reader.rest().starts_with(',') {
        test = comparison(reader, name, kind)?;
        end = reader.at();
    }
    let text = reader.since(from)[..end - from].to_owned();
    Ok(Term { text, attribute, test })
}

/// What a name is about.
fn attribute(
    reader: &mut Reader<'_>,
    name: &str,
    at: usize,
) -> Result<(Attribute, Kind, &'static str), SyntaxError> {
    if let Some((_, attribute, kind, example)) = NAMES.iter().find(|(known, ..)| *known == name) {
        return Ok((*attribute, *kind, example));
    }
    let group = name.split_once('.').map_or("", |(group, _)| group);
    if group == "price" {
        reader.example(PRICE);
        return price(reader, name, at);
    }
    let of_group = |known: &str| known.split_once('.').map_or("", |(group, _)| group) == group;
    let names: Vec<_> = NAMES.iter().map(|(known, ..)| *known).filter(|n| of_group(n)).collect();
    match name.parse::<Slug>() {
        Ok(_) if names.is_empty() => {
            let claim = Value::word(name).raw();
            Ok((
                Attribute::Claim { name: claim, least: Assurance::SelfAsserted },
                Kind::Text,
                CLAIM,
            ))
        }
        Ok(_) | Err(_) => {
            let claim = if group.is_empty() { ", or a claim with a dot in its name" } else { "" };
            let names = if names.is_empty() { "a name".to_owned() } else { list(&names) };
            Err(reader.error_at(at, &format!("{names}{claim}")))
        }
    }
}

/// `price.`, what it is for, and a currency.
fn price(
    reader: &Reader<'_>,
    name: &str,
    at: usize,
) -> Result<(Attribute, Kind, &'static str), SyntaxError> {
    let (of, currency) = name.trim_start_matches("price.").split_once('.').unwrap_or_default();
    let Some((_, priced)) = PRICES.iter().find(|(known, _)| *known == of) else {
        let wrong = "price. and one of cpu, memory, pods, storage and gpu, a dot, and a currency";
        return Err(reader.error_at(at, wrong));
    };
    let wrong = |_| {
        let at = at + name.len() - currency.len();
        reader.error_at(at, "a currency: three capital letters, or the name of a credit")
    };
    let currency = currency.parse().map_err(wrong)?;
    Ok((Attribute::Price(*priced, currency), Kind::Rate, PRICE))
}

/// Who must vouch for a claim, at least: `@third-party`.
fn assurance(reader: &mut Reader<'_>, attribute: Attribute) -> Result<Attribute, SyntaxError> {
    let name = match attribute {
        Attribute::Claim { name, .. } => name,
        // What certificates say of it is an attribute of the same name.
        Attribute::Ad(AdFact::Jurisdiction) => Value::word("jurisdiction").raw(),
        Attribute::Ad(_) | Attribute::Pool(_) | Attribute::Gpu(_) | Attribute::Price(..) => {
            return Ok(attribute);
        }
    };
    if !reader.take('@') {
        return Ok(attribute);
    }
    let wrong = reader.error("self, issuer or third-party");
    let who = reader.word(|c| c.is_ascii_alphabetic() || c == '-');
    let least = ASSURANCES.iter().find(|(known, _)| *known == who);
    let (_, least) = least.ok_or(wrong)?;
    let is_own_word = matches!(attribute, Attribute::Ad(_)) && *least == Assurance::SelfAsserted;
    Ok(if is_own_word { attribute } else { Attribute::Claim { name, least: *least } })
}

fn comparison(reader: &mut Reader<'_>, name: &str, kind: Kind) -> Result<Test, SyntaxError> {
    const ANY: &str = "=, !=, <, <=, >, >=, in, notin, or a comma";
    const WORDS: &str = "=, !=, in or notin";
    let at = reader.at();
    let symbol = reader.word(|c| matches!(c, '=' | '!' | '<' | '>'));
    let word = if symbol.is_empty() { reader.word(|c| c.is_ascii_alphabetic()) } else { symbol };
    let side = match word {
        "=" | "==" | "!=" => {
            reader.spaces();
            let values = vec![value(reader, kind)?];
            return Ok(Test::OneOf { values, not: word == "!=" });
        }
        "in" | "notin" => {
            let values = values(reader, kind)?;
            return Ok(Test::OneOf { values, not: word == "notin" });
        }
        "<" => Side::Less,
        "<=" => Side::AtMost,
        ">=" => Side::AtLeast,
        ">" => Side::More,
        _ => return Err(reader.error_at(at, ANY)),
    };
    if !kind.is_ordered() {
        return Err(reader.error_at(at, &format!("{WORDS}, since {name} is a word")));
    }
    reader.spaces();
    Ok(Test::Than(side, value(reader, kind)?))
}

/// Several values in parentheses: `(a, b)`.
fn values(reader: &mut Reader<'_>, kind: Kind) -> Result<Vec<Value>, SyntaxError> {
    reader.spaces();
    reader.expect('(')?;
    let mut values = Vec::new();
    loop {
        reader.spaces();
        if values.len() >= limits::SELECTOR_VALUES {
            return Err(reader.error(&format!("at most {} values", limits::SELECTOR_VALUES)));
        }
        values.push(value(reader, kind)?);
        reader.spaces();
        if reader.take(')') {
            return Ok(values);
        }
        if !reader.take(',') {
            return Err(reader.error("a comma and another value, or ')'"));
        }
    }
}

fn value(reader: &mut Reader<'_>, kind: Kind) -> Result<Value, SyntaxError> {
    let at = reader.at();
    match kind {
        Kind::Text => text(reader).map(Value::word),
        Kind::Choice(words) => {
            let word = text(reader).unwrap_or_default();
            let known = words.contains(&word);
            known.then(|| Value::word(word)).ok_or_else(|| reader.error_at(at, &list(words)))
        }
        Kind::Count => {
            let number = reader.number()?;
            let count = number.exact(1).map(Value::number);
            count.ok_or_else(|| reader.bad(number, "a whole number"))
        }
        Kind::Cpu => quantity::quantity(reader, &Resource::Cpu).map(Value::number),
        Kind::Memory => quantity::quantity(reader, &Resource::Memory).map(Value::number),
        Kind::Time => seconds(reader).map(Value::number),
        Kind::Latency => {
            let number = reader.number()?;
            let wrong = reader.error("a unit of latency: us, ms or s");
            let unit = match reader.word(|c| c.is_ascii_alphabetic()) {
                "us" => 1,
                "ms" => 1_000,
                "s" => 1_000_000,
                _ => return Err(wrong),
            };
            let us = number.exact(unit).map(Value::number);
            us.ok_or_else(|| reader.bad(number, "whole microseconds"))
        }
        Kind::Version => {
            let word = reader.word(|c| c.is_ascii_digit() || c == '.');
            version(word).ok_or_else(|| reader.error_at(at, "a version of up to three numbers"))
        }
        Kind::Rate => {
            let micros = micros(reader)?;
            reader.spaces();
            reader.expect('/')?;
            reader.spaces();
            Ok(Value::price(micros, period(reader)?))
        }
    }
}

/// A word, or anything between double quotes.
fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, SyntaxError> {
    if reader.take('"') {
        let word = reader.word(|c| c != '"');
        return reader.expect('"').map(|()| word);
    }
    let word =
        reader.word(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':' | '+'));
    if word.is_empty() { Err(reader.error("a word, or a text in double quotes")) } else { Ok(word) }
}

fn list(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
