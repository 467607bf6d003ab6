//! Tables, chains, sets and rules of nf_tables (linux/netfilter/nf_tables.h). A batch is done at
//! one moment, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, CREATE, CREATE_ANEW, Message, REQUEST, address};
use super::{tally, words};
use crate::error::KernelError;
use crate::family::Family;
use crate::limits;
use crate::packets::{Base, Chain, Hook, PacketRule, Table, Tally};

/// A family, a version and a number (`struct nfgenmsg`).
pub(super) const HEADER_BYTES: usize = 4;
// Families of packets (`NFPROTO_...`).
pub(super) const IPV4: u8 = 2;
pub(super) const IPV6: u8 = 10;

// Messages (`NFT_MSG_...`).
const NEW_TABLE: u16 = 0;
pub(super) const GET_TABLE: u16 = 1;
pub(super) const DELETE_TABLE: u16 = 2;
pub(super) const NEW_CHAIN: u16 = 3;
pub(super) const GET_CHAIN: u16 = 4;
const NEW_RULE: u16 = 6;
pub(super) const GET_RULE: u16 = 7;
const NEW_SET: u16 = 9;
const GET_SET: u16 = 10;
pub(super) const NEW_ELEMENTS: u16 = 12;
const GET_ELEMENTS: u16 = 13;
const DELETE_ELEMENTS: u16 = 14;

/// In tables, chains, rules, sets and elements alike.
pub(super) const OF_TABLE: u16 = 1;
const TABLE_USE: u16 = 3;
// Of chains.
pub(super) const CHAIN_NAME: u16 = 3;
pub(super) const CHAIN_HOOK: u16 = 4;
pub(super) const CHAIN_POLICY: u16 = 5;
pub(super) const CHAIN_TYPE: u16 = 7;
pub(super) const HOOK_NUMBER: u16 = 1;
pub(super) const HOOK_PRIORITY: u16 = 2;
pub(super) const ACCEPT: u32 = 1;
// Of rules.
pub(super) const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const RULE_DATA: u16 = 7;
/// Of what a rule carries for people: a kind, a length, and a text that a zero ends, as
/// libnftnl has it.
const COMMENT: u8 = 0;
// Of sets.
const SET_NAME: u16 = 2;
const SET_FLAGS: u16 = 3;
const SET_KEY_TYPE: u16 = 4;
const SET_KEY_BYTES: u16 = 5;
const SET_ID: u16 = 10;
/// What `nft` calls `ipv4_addr` and `ipv6_addr`: the kernel keeps the number for it.
const TYPE_IPV4: u32 = 7;
const TYPE_IPV6: u32 = 8;
// Of elements.
const ELEMENTS: u16 = 3;
const ELEMENT_KEY: u16 = 1;
/// Of lists and data anywhere.
const LIST_ELEMENT: u16 = 1;
const DATA_VALUE: u16 = 1;

/// Who is in each set of a table, by its name.
type Sets = BTreeMap<String, BTreeSet<IpAddr>>;

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
    (table.sets, table.tallies) = read_sets(kernel, place, &[family])?;
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

/// All sets of a table, whose members are of one of these families, and those that packets fill.
pub(super) fn read_sets(
    kernel: &mut Conversation,
    place: InKernel<'_>,
    families: &[Family],
) -> Result<(Sets, BTreeMap<String, Tally>), KernelError> {
    let (mut sets, mut tallies) = (BTreeMap::new(), BTreeMap::new());
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
            sets.insert(name, members);
        } else if let Some(tally) = tally::read_set(&attributes, flags)?.filter(|_| is_of_them) {
            tallies.insert(name, tally);
        } else {
            // Not one of ours, whatever it is called: no name of ours has a space.
            sets.insert(format!("{name} of another kind"), BTreeSet::new());
        }
    }
    Ok((sets, tallies))
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

/// By what the kernel knows a table.
#[derive(Clone, Copy)]
pub(super) struct InKernel<'a> {
    /// Whose packets it sees (`NFPROTO_...`).
    pub(super) protocol: u8,
    pub(super) table: &'a str,
}

impl InKernel<'_> {
    fn ours(family: Family) -> Self {
        Self { protocol: protocol(family), table: Table::NAME }
    }

    /// What puts an empty table in the place of whatever has its name. It is made first, so that it
    /// can be removed.
    pub(super) fn made_anew(self) -> Vec<Message> {
        let kinds = [(NEW_TABLE, CREATE), (DELETE_TABLE, REQUEST), (NEW_TABLE, CREATE)];
        kinds.map(|(kind, flags)| self.message(kind, flags)).into()
    }

    /// What makes an empty table, where there is none of its name; otherwise it fails.
    pub(super) fn made_first(self) -> Vec<Message> {
        vec![self.message(NEW_TABLE, CREATE_ANEW)]
    }

    /// A message about the table, or about something in it.
    pub(super) fn message(self, kind: u16, flags: u16) -> Message {
        let mut message = header(kind, flags, self.protocol);
        message.put_text(OF_TABLE, self.table);
        message
    }
}

fn protocol(family: Family) -> u8 {
    match family {
        Family::V4 => IPV4,
        Family::V6 => IPV6,
    }
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

/// A message about a family, which may be of all.
pub(super) fn header(kind: u16, flags: u16, family: u8) -> Message {
    let subsystem = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8;
    Message::new(subsystem | kind, flags, &[family, 0, 0, 0])
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
