//! Tables, chains, sets and rules of nf_tables (linux/netfilter/nf_tables.h). A batch is done at
//! one moment, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, CREATE, Message, REQUEST, address};
use super::numbers::{
    ACCEPT, CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TYPE, COMMENT, DATA_VALUE, DELETE_ELEMENTS,
    DELETE_TABLE, ELEMENT_KEY, ELEMENTS, GET_CHAIN, GET_ELEMENTS, GET_RULE, GET_SET, GET_TABLE,
    HEADER_BYTES, HOOK_NUMBER, HOOK_PRIORITY, InKernel, LIST_ELEMENT, NEW_CHAIN, NEW_ELEMENTS,
    NEW_RULE, NEW_SET, OF_TABLE, RULE_CHAIN, RULE_DATA, RULE_EXPRESSIONS, SET_FLAGS, SET_ID,
    SET_KEY_BYTES, SET_KEY_TYPE, SET_NAME, TABLE_USE, TYPE_IPV4, TYPE_IPV6, header, protocol,
};
use super::{maps, tally, words};
use crate::error::KernelError;
use crate::family::Family;
use crate::limits;
use crate::packets::{AddressMap, Base, Chain, Hook, PacketRule, Table, Tally};

/// What is kept in a table besides chains, each by its name.
#[derive(Default)]
pub(super) struct Kept {
    /// Who is in each set.
    pub(super) sets: BTreeMap<String, BTreeSet<IpAddr>>,
    pub(super) maps: BTreeMap<String, AddressMap>,
    pub(super) tallies: BTreeMap<String, Tally>,
}

const APPEND: u16 = CREATE | libc::NLM_F_APPEND as u16;

/// Puts a table in the place of whatever has its name.
pub(crate) fn replace_packets(kernel: &mut Conversation, table: &Table) -> Result<(), KernelError> {
    let place = InKernel { protocol: protocol(table.family), table: &table.name };
    let mut messages = place.made_anew();
    // Rules name chains and sets, which are there by then.
    messages.extend(table.chains.iter().map(|(chain, it)| new_chain(place, chain, it)));
    for ((set, members), id) in table.sets.iter().zip(1..) {
        messages.push(new_set(place, set, table.family, None, id));
        messages.extend(elements(place, NEW_ELEMENTS, CREATE, set, members));
    }
    let rest = table.tallies.iter().zip(1 + table.sets.len() as u32..);
    messages.extend(rest.map(|((name, it), id)| new_set(place, name, table.family, Some(it), id)));
    for (chain, it) in &table.chains {
        messages.extend(it.rules.iter().map(|rule| new_rule(place, chain, rule)));
    }
    kernel.batch(messages)
}

/// Changes what is in a set of our table.
pub(crate) fn change_set(
    kernel: &mut Conversation,
    family: Family,
    set: &str,
    add: &BTreeSet<IpAddr>,
    remove: &BTreeSet<IpAddr>,
) -> Result<(), KernelError> {
    let place = InKernel::ours(family);
    let mut messages = elements(place, DELETE_ELEMENTS, REQUEST, set, remove);
    messages.extend(elements(place, NEW_ELEMENTS, CREATE, set, add));
    kernel.batch(messages)
}

/// Removes our table of a family, with all that is in it.
pub(crate) fn remove_packets(kernel: &mut Conversation, family: Family) -> Result<(), KernelError> {
    let removed = kernel.batch(vec![InKernel::ours(family).message(DELETE_TABLE, REQUEST)]);
    removed.or_else(|error| if error.is(libc::ENOENT) { Ok(()) } else { Err(error) })
}

/// The table of a family with our name, if there is one.
pub(crate) fn read_packets(
    kernel: &mut Conversation,
    family: Family,
) -> Result<Option<Table>, KernelError> {
    let place = InKernel::ours(family);
    let name = place.table;
    if content(kernel, place)?.is_none() {
        return Ok(None);
    }
    let (chains, sets, tallies) = Default::default();
    let mut table = Table { family, name: name.to_owned(), chains, sets, tallies };
    for bytes in kernel.list(|| header(GET_CHAIN, list_flags(), place.protocol))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        if attributes.text(OF_TABLE).as_deref() == Some(name) {
            let chain = attributes.text(CHAIN_NAME).unwrap_or_default();
            table.chains.insert(chain, Chain { base: base(&attributes)?, rules: Vec::new() });
        }
    }
    for (chain, rule) in read_all_rules(kernel, place)? {
        if let Some(chain) = table.chains.get_mut(&chain) {
            chain.rules.push(rule);
        }
    }
    let kept = read_sets(kernel, place, &[family])?;
    (table.sets, table.tallies) = (kept.sets, kept.tallies);
    // None of ours.
    table.sets.extend(kept.maps.into_keys().map(|name| (name, BTreeSet::new())));
    Ok(Some(table))
}

/// How much there is in the table of that name: chains, sets and whatever else; none: there is no such
/// table. A list of all would be as long as there are guests.
pub(super) fn content(
    kernel: &mut Conversation,
    place: InKernel<'_>,
) -> Result<Option<u32>, KernelError> {
    match kernel.one(place.message(GET_TABLE, REQUEST)) {
        Ok(bytes) => Ok(Attributes::after(HEADER_BYTES, &bytes)?.be32(TABLE_USE)),
        Err(error) if error.is(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// All rules of a table, each with its chain, in order.
pub(super) fn read_all_rules(
    kernel: &mut Conversation,
    place: InKernel<'_>,
) -> Result<Vec<(String, PacketRule)>, KernelError> {
    let mut rules = Vec::new();
    for bytes in kernel.list(|| place.message(GET_RULE, list_flags()))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        if attributes.text(OF_TABLE).as_deref() == Some(place.table) {
            rules.push((attributes.text(RULE_CHAIN).unwrap_or_default(), rule(&attributes)?));
        }
    }
    Ok(rules)
}

/// All sets of a table, whose members are of one of these families, maps, and those that packets fill.
pub(super) fn read_sets(
    kernel: &mut Conversation,
    place: InKernel<'_>,
    families: &[Family],
) -> Result<Kept, KernelError> {
    let mut kept = Kept::default();
    for bytes in kernel.list(|| place.message(GET_SET, list_flags()))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        let name = attributes.text(SET_NAME).unwrap_or_default();
        let bytes = attributes.be32(SET_KEY_BYTES);
        let flags = attributes.be32(SET_FLAGS).unwrap_or(0);
        if attributes.text(OF_TABLE).as_deref() != Some(place.table) {
            continue;
        }
        let is_of_them = families.iter().any(|family| bytes == Some(key(*family).bytes));
        if is_of_them && flags == 0 {
            let members = read_members(kernel, place, &name)?;
            kept.sets.insert(name, members);
        } else if maps::is_map(&attributes) {
            let map = maps::read_map(kernel, place, &name)?;
            kept.maps.insert(name, map);
        } else if let Some(tally) = tally::read_set(&attributes, flags)?.filter(|_| is_of_them) {
            kept.tallies.insert(name, tally);
        } else {
            // Not one of ours, whatever it is called: no name of ours has a space.
            kept.sets.insert(format!("{name} of another kind"), BTreeSet::new());
        }
    }
    Ok(kept)
}

fn read_members(
    kernel: &mut Conversation,
    place: InKernel<'_>,
    set: &str,
) -> Result<BTreeSet<IpAddr>, KernelError> {
    let request = || {
        let mut request = place.message(GET_ELEMENTS, list_flags());
        request.put_text(SET_NAME, set);
        request
    };
    let mut members = BTreeSet::new();
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        for element in attributes.within(ELEMENTS)?.all(LIST_ELEMENT) {
            let data = Attributes::read(element)?.within(ELEMENT_KEY)?;
            members.insert(data.of(DATA_VALUE).and_then(address).ok_or(KernelError::Garbled)?);
        }
    }
    Ok(members)
}

/// Where a chain sees packets, if it does by itself.
pub(super) fn base(attributes: &Attributes<'_>) -> Result<Option<Base>, KernelError> {
    if attributes.of(CHAIN_HOOK).is_none() {
        return Ok(None);
    }
    let hook = attributes.within(CHAIN_HOOK)?;
    let number = hook.be32(HOOK_NUMBER);
    let hooks = [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];
    let named = hooks.into_iter().find(|hook| Some(hook_number(*hook)) == number);
    Ok(Some(Base {
        kind: attributes.text(CHAIN_TYPE).unwrap_or_default(),
        hook: named.ok_or(KernelError::Garbled)?,
        priority: hook.be32(HOOK_PRIORITY).unwrap_or_default().cast_signed(),
        accepts: attributes.be32(CHAIN_POLICY) == Some(ACCEPT),
    }))
}

/// What a rule of a list says.
pub(super) fn rule(attributes: &Attributes<'_>) -> Result<PacketRule, KernelError> {
    let expressions = attributes.within(RULE_EXPRESSIONS)?;
    let expressions = expressions.all(LIST_ELEMENT).map(words::read).collect::<Result<_, _>>()?;
    let comment = match attributes.of(RULE_DATA) {
        Some([COMMENT, length, text @ ..]) if usize::from(*length) <= text.len() => {
            let text = text[..usize::from(*length)].strip_suffix(&[0]).unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        }
        Some(_) | None => String::new(),
    };
    Ok(PacketRule { comment, expressions })
}

fn new_chain(place: InKernel<'_>, name: &str, chain: &Chain) -> Message {
    let mut message = place.message(NEW_CHAIN, CREATE);
    message.put_text(CHAIN_NAME, name);
    if let Some(base) = &chain.base {
        message.nest(CHAIN_HOOK, |message| {
            message.put_be32(HOOK_NUMBER, hook_number(base.hook));
            message.put_be32(HOOK_PRIORITY, base.priority.cast_unsigned());
        });
        message.put_be32(CHAIN_POLICY, u32::from(base.accepts));
        message.put_text(CHAIN_TYPE, &base.kind);
    }
    message
}

pub(super) fn new_set(
    place: InKernel<'_>,
    name: &str,
    family: Family,
    tally: Option<&Tally>,
    id: u32,
) -> Message {
    let mut message = place.message(NEW_SET, CREATE);
    let key = key(family);
    message.put_text(SET_NAME, name);
    message.put_be32(SET_FLAGS, tally.map_or(0, tally::flags));
    message.put_be32(SET_KEY_TYPE, key.kind);
    message.put_be32(SET_KEY_BYTES, key.bytes);
    message.put_be32(SET_ID, id);
    if let Some(tally) = tally {
        tally::write_set(&mut message, tally);
    }
    message
}

pub(super) fn new_rule(place: InKernel<'_>, chain: &str, rule: &PacketRule) -> Message {
    let mut message = place.message(NEW_RULE, APPEND);
    message.put_text(RULE_CHAIN, chain);
    message.nest(RULE_EXPRESSIONS, |message| {
        for expression in &rule.expressions {
            message.nest(LIST_ELEMENT, |message| words::write(message, expression));
        }
    });
    // libnftnl's lengths are of one byte.
    let text: Vec<u8> = rule.comment.bytes().take(usize::from(u8::MAX) - 1).chain([0]).collect();
    message.put(RULE_DATA, &[&[COMMENT, text.len() as u8], &text[..]].concat());
    message
}

pub(super) fn elements(
    place: InKernel<'_>,
    kind: u16,
    flags: u16,
    set: &str,
    members: &BTreeSet<IpAddr>,
) -> Vec<Message> {
    let members: Vec<_> = members.iter().collect();
    let one = |members: &[&IpAddr]| {
        let mut message = place.message(kind, flags);
        message.put_text(SET_NAME, set);
        message.nest(ELEMENTS, |message| {
            for member in members {
                message.nest(LIST_ELEMENT, |message| {
                    message.nest(ELEMENT_KEY, |message| {
                        message.put(DATA_VALUE, &crate::packets::address(**member));
                    });
                });
            }
        });
        message
    };
    members.chunks(limits::ELEMENTS_PER_MESSAGE).map(one).collect()
}

/// What sets have in them.
struct Key {
    kind: u32,
    bytes: u32,
}

fn key(family: Family) -> Key {
    match family {
        Family::V4 => Key { kind: TYPE_IPV4, bytes: 4 },
        Family::V6 => Key { kind: TYPE_IPV6, bytes: 16 },
    }
}

/// The number of a hook (`NF_INET_...`, linux/netfilter.h).
fn hook_number(hook: Hook) -> u32 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
    }
}
