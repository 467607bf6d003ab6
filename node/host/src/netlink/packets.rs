//! Tables, chains, sets and rules of nf_tables (linux/netfilter/nf_tables.h). A batch is done at
//! one moment, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, CREATE, Message, REQUEST, number};
use super::words;
use crate::dropping::{Dropping, PacketFamily};
use crate::error::KernelError;
use crate::limits;
use crate::packets::{Base, Chain, Hook, PacketRule, Table};

/// A family, a version and a number (`struct nfgenmsg`).
const HEADER_BYTES: usize = 4;
// Families of packets (`NFPROTO_...`).
const ANY_FAMILY: u8 = 0;
const INET: u8 = 1;
const IPV4: u8 = 2;

// Messages (`NFT_MSG_...`).
const NEW_TABLE: u16 = 0;
const GET_TABLE: u16 = 1;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const GET_CHAIN: u16 = 4;
const NEW_RULE: u16 = 6;
const GET_RULE: u16 = 7;
const NEW_SET: u16 = 9;
const GET_SET: u16 = 10;
const NEW_ELEMENTS: u16 = 12;
const GET_ELEMENTS: u16 = 13;
const DELETE_ELEMENTS: u16 = 14;

/// In tables, chains, rules, sets and elements alike.
const OF_TABLE: u16 = 1;
// Of chains.
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const ACCEPT: u32 = 1;
// Of rules.
const RULE_CHAIN: u16 = 2;
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
/// What `nft` calls `ipv4_addr`: the kernel keeps the number for it.
const TYPE_IPV4: u32 = 7;
const IPV4_BYTES: u32 = 4;
// Of elements.
const ELEMENTS: u16 = 3;
const ELEMENT_KEY: u16 = 1;
/// Of lists and data anywhere.
const LIST_ELEMENT: u16 = 1;
const DATA_VALUE: u16 = 1;

const APPEND: u16 = CREATE | libc::NLM_F_APPEND as u16;

/// Puts a table in the place of whatever has its name. It is made first, so that it can be removed.
pub(crate) fn replace_packets(kernel: &mut Conversation, table: &Table) -> Result<(), KernelError> {
    let name = &table.name;
    let mut messages = vec![
        message(NEW_TABLE, CREATE, name),
        message(DELETE_TABLE, REQUEST, name),
        message(NEW_TABLE, CREATE, name),
    ];
    // Rules name chains and sets, which are there by then.
    messages.extend(table.chains.iter().map(|(chain, it)| new_chain(name, chain, it)));
    for ((set, members), id) in table.sets.iter().zip(1..) {
        messages.push(new_set(name, set, id));
        messages.extend(elements(NEW_ELEMENTS, CREATE, set, members));
    }
    for (chain, it) in &table.chains {
        messages.extend(it.rules.iter().map(|rule| new_rule(name, chain, rule)));
    }
    kernel.batch(messages)
}

/// Changes what is in a set.
pub(crate) fn change_set(
    kernel: &mut Conversation,
    set: &str,
    add: &BTreeSet<IpAddr>,
    remove: &BTreeSet<IpAddr>,
) -> Result<(), KernelError> {
    let mut messages = elements(DELETE_ELEMENTS, REQUEST, set, remove);
    messages.extend(elements(NEW_ELEMENTS, CREATE, set, add));
    kernel.batch(messages)
}

/// Removes our table, with all that is in it.
pub(crate) fn remove_packets(kernel: &mut Conversation) -> Result<(), KernelError> {
    let removed = kernel.batch(vec![message(DELETE_TABLE, REQUEST, Table::NAME)]);
    removed.or_else(|error| if error.is(libc::ENOENT) { Ok(()) } else { Err(error) })
}

/// The table with our name, if there is one.
pub(crate) fn read_packets(kernel: &mut Conversation) -> Result<Option<Table>, KernelError> {
    let name = Table::NAME;
    let tables = kernel.list(|| get(GET_TABLE))?;
    if !is_of(&tables, name)? {
        return Ok(None);
    }
    let mut table = Table { name: name.to_owned(), ..Table::default() };
    for bytes in kernel.list(|| get(GET_CHAIN))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        if attributes.text(OF_TABLE).as_deref() == Some(name) {
            let chain = attributes.text(CHAIN_NAME).unwrap_or_default();
            table.chains.insert(chain, Chain { base: base(&attributes)?, rules: Vec::new() });
        }
    }
    for bytes in kernel.list(|| message(GET_RULE, list_flags(), name))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        let chain = attributes.text(RULE_CHAIN).unwrap_or_default();
        if attributes.text(OF_TABLE).as_deref() == Some(name)
            && let Some(chain) = table.chains.get_mut(&chain)
        {
            chain.rules.push(rule(&attributes)?);
        }
    }
    table.sets = read_sets(kernel, name)?;
    Ok(Some(table))
}

/// The chains that drop what is forwarded and spoken of by none of their rules, unless they let
/// through whatever comes and goes by this device.
pub(crate) fn read_dropping(
    kernel: &mut Conversation,
    device: &str,
) -> Result<Vec<Dropping>, KernelError> {
    let mut found = Vec::new();
    for bytes in kernel.list(|| header(GET_CHAIN, list_flags(), ANY_FAMILY))? {
        let family = match bytes.first() {
            Some(&INET) => PacketFamily::Inet,
            Some(&IPV4) => PacketFamily::Ip,
            Some(_) | None => continue,
        };
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        let drops = |base: Base| base.hook == Hook::Forward && !base.accepts;
        if attributes.of(CHAIN_HOOK).is_none() || !base(&attributes)?.is_some_and(drops) {
            continue;
        }
        let table = attributes.text(OF_TABLE).unwrap_or_default();
        let chain = attributes.text(CHAIN_NAME).unwrap_or_default();
        let found_here = Dropping { family, table, chain };
        if !lets_through(kernel, &found_here, device)? {
            found.push(found_here);
        }
    }
    Ok(found)
}

/// Whether rules of the chain accept what comes by the device, and what goes.
fn lets_through(
    kernel: &mut Conversation,
    chain: &Dropping,
    device: &str,
) -> Result<bool, KernelError> {
    let family = match chain.family {
        PacketFamily::Inet => INET,
        PacketFamily::Ip => IPV4,
    };
    let mut ways = BTreeSet::new();
    let request = || {
        let mut request = header(GET_RULE, list_flags(), family);
        request.put_text(OF_TABLE, &chain.table);
        request.put_text(RULE_CHAIN, &chain.chain);
        request
    };
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        if attributes.text(OF_TABLE).as_deref() == Some(&chain.table)
            && attributes.text(RULE_CHAIN).as_deref() == Some(&chain.chain)
        {
            ways.extend(rule(&attributes)?.accepts_by(device));
        }
    }
    Ok(ways.len() == 2)
}

fn read_sets(
    kernel: &mut Conversation,
    table: &str,
) -> Result<BTreeMap<String, BTreeSet<IpAddr>>, KernelError> {
    let mut sets = BTreeMap::new();
    for bytes in kernel.list(|| message(GET_SET, list_flags(), table))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        let name = attributes.text(SET_NAME).unwrap_or_default();
        let shape = (attributes.be32(SET_KEY_BYTES), attributes.be32(SET_FLAGS).unwrap_or(0));
        if attributes.text(OF_TABLE).as_deref() != Some(table) {
            continue;
        }
        if shape == (Some(IPV4_BYTES), 0) {
            let members = read_members(kernel, table, &name)?;
            sets.insert(name, members);
        } else {
            // Not one of ours, whatever it is called: no name of ours has a space.
            sets.insert(format!("{name} of another kind"), BTreeSet::new());
        }
    }
    Ok(sets)
}

fn read_members(
    kernel: &mut Conversation,
    table: &str,
    set: &str,
) -> Result<BTreeSet<IpAddr>, KernelError> {
    let request = || {
        let mut request = message(GET_ELEMENTS, list_flags(), table);
        request.put_text(SET_NAME, set);
        request
    };
    let mut members = BTreeSet::new();
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        for element in attributes.within(ELEMENTS)?.all(LIST_ELEMENT) {
            let key = Attributes::read(element)?.within(ELEMENT_KEY)?;
            let address = key.of(DATA_VALUE).and_then(number::<4>).ok_or(KernelError::Garbled)?;
            members.insert(Ipv4Addr::from(address).into());
        }
    }
    Ok(members)
}

fn base(attributes: &Attributes<'_>) -> Result<Option<Base>, KernelError> {
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

fn rule(attributes: &Attributes<'_>) -> Result<PacketRule, KernelError> {
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

fn new_chain(table: &str, name: &str, chain: &Chain) -> Message {
    let mut message = message(NEW_CHAIN, CREATE, table);
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

fn new_set(table: &str, name: &str, id: u32) -> Message {
    let mut message = message(NEW_SET, CREATE, table);
    message.put_text(SET_NAME, name);
    message.put_be32(SET_FLAGS, 0);
    message.put_be32(SET_KEY_TYPE, TYPE_IPV4);
    message.put_be32(SET_KEY_BYTES, IPV4_BYTES);
    message.put_be32(SET_ID, id);
    message
}

fn new_rule(table: &str, chain: &str, rule: &PacketRule) -> Message {
    let mut message = message(NEW_RULE, APPEND, table);
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

fn elements(kind: u16, flags: u16, set: &str, members: &BTreeSet<IpAddr>) -> Vec<Message> {
    let members: Vec<_> = members.iter().collect();
    let one = |members: &[&IpAddr]| {
        let mut message = message(kind, flags, Table::NAME);
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

/// A message about a table, or about something in it.
fn message(kind: u16, flags: u16, table: &str) -> Message {
    let mut message = header(kind, flags, IPV4);
    message.put_text(OF_TABLE, table);
    message
}

fn get(kind: u16) -> Message {
    header(kind, list_flags(), IPV4)
}

fn header(kind: u16, flags: u16, family: u8) -> Message {
    let subsystem = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8;
    Message::new(subsystem | kind, flags, &[family, 0, 0, 0])
}

fn is_of(messages: &[Vec<u8>], table: &str) -> Result<bool, KernelError> {
    for bytes in messages {
        if Attributes::after(HEADER_BYTES, bytes)?.text(OF_TABLE).as_deref() == Some(table) {
            return Ok(true);
        }
    }
    Ok(false)
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
