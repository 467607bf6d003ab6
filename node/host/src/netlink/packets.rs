//! Tables, chains and rules of nf_tables (linux/netfilter/nf_tables.h). A batch is done at one moment,
//! or not at all.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, CREATE, Message, REQUEST};
use super::nets;
use super::numbers::{
    HEADER_BYTES, InKernel, NF_ACCEPT, NFT_MSG_DELCHAIN, NFT_MSG_DELRULE, NFT_MSG_DELSET,
    NFT_MSG_DELSETELEM, NFT_MSG_DELTABLE, NFT_MSG_GETCHAIN, NFT_MSG_GETRULE, NFT_MSG_GETTABLE,
    NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFT_MSG_NEWSETELEM, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME,
    NFTA_CHAIN_POLICY, NFTA_CHAIN_TYPE, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_LIST_ELEM,
    NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS, NFTA_RULE_USERDATA, NFTA_SET_NAME, NFTA_TABLE_NAME,
    NFTA_TABLE_USE, UDATA_COMMENT, header,
};
use super::sets::{Of, elements, new_set, read_sets, without_mark};
use super::words;
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::{Base, Chain, Hook, PacketRule, Table};

const APPEND: u16 = CREATE | libc::NLM_F_APPEND as u16;

/// Puts a table in the place of whatever has its name. Tallies stay that are to be the same: whoever has
/// used up what he may have is not given it anew with each change of the rules.
pub(crate) fn replace_packets(kernel: &mut Conversation, table: &Table) -> Result<(), KernelError> {
    // Of what is refused here nothing is to be heard later.
    let in_place =
        Conversation::about_packets().and_then(|mut kernel| replace_rest(&mut kernel, table));
    match in_place {
        Ok(true) => Ok(()),
        // Somebody else may have put something into it that cannot be removed by its name.
        Ok(false) | Err(_) => {
            let place = InKernel::of(table);
            let mut messages = place.made_anew();
            messages.extend(filled(place, table, |_| true));
            kernel.batch(messages)
        }
    }
}

/// Puts all of a table but such tallies in the place of what is there; whether there is one.
fn replace_rest(kernel: &mut Conversation, table: &Table) -> Result<bool, KernelError> {
    let place = InKernel::of(table);
    let Some(there) = read_packets(kernel, table.family)? else { return Ok(false) };
    let stays = |tally: &str| there.tallies.get(tally) == table.tallies.get(tally);
    let gone = |kind, attribute, name: &str| {
        let mut message = place.message(kind, REQUEST);
        message.put_text(attribute, name);
        message
    };
    // Rules name sets and chains, and who is in a set may name a chain.
    let mut messages = vec![place.message(NFT_MSG_DELRULE, REQUEST)];
    let tallies = there.tallies.keys().filter(|tally| !stays(tally));
    let sets = there.sets.keys().chain(there.nets.keys()).chain(tallies);
    let sets = sets.map(|set| without_mark(set));
    messages.extend(sets.map(|set| gone(NFT_MSG_DELSET, NFTA_SET_NAME, set)));
    messages
        .extend(there.chains.keys().map(|chain| gone(NFT_MSG_DELCHAIN, NFTA_CHAIN_NAME, chain)));
    messages.extend(filled(place, table, |tally| !stays(tally)));
    kernel.batch(messages)?;
    Ok(true)
}

/// What a table has in it, but for those tallies that are there.
fn filled(place: InKernel<'_>, table: &Table, is_new: impl Fn(&str) -> bool) -> Vec<Message> {
    // Rules name chains and sets, which are there by then.
    let chains = table.chains.iter();
    let mut messages: Vec<_> = chains.map(|(name, it)| new_chain(place, name, it)).collect();
    let mut id = 0;
    let mut new = |name: &str, of| {
        id += 1;
        new_set(place, name, table.family, of, id)
    };
    // First, as they are where they stay.
    let tallies = table.tallies.iter().filter(|(name, _)| is_new(name));
    messages.extend(tallies.map(|(name, tally)| new(name, Of::Tally(tally))));
    for (set, members) in &table.sets {
        messages.push(new(set, Of::Addresses));
        messages.extend(elements(place, NFT_MSG_NEWSETELEM, CREATE, set, members));
    }
    for (set, members) in &table.nets {
        messages.push(new(set, Of::Nets));
        messages.extend(nets::elements(place, NFT_MSG_NEWSETELEM, CREATE, set, members));
    }
    for (chain, it) in &table.chains {
        messages.extend(it.rules.iter().map(|rule| new_rule(place, chain, rule)));
    }
    messages
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
    let mut messages = elements(place, NFT_MSG_DELSETELEM, REQUEST, set, remove);
    messages.extend(elements(place, NFT_MSG_NEWSETELEM, CREATE, set, add));
    kernel.batch(messages)
}

/// Changes which networks are in a set of our table.
pub(crate) fn change_nets(
    kernel: &mut Conversation,
    family: Family,
    set: &str,
    add: &BTreeSet<IpNet>,
    remove: &BTreeSet<IpNet>,
) -> Result<(), KernelError> {
    let place = InKernel::ours(family);
    // What begins or ends where another one did is there only once that is not.
    let mut messages = nets::elements(place, NFT_MSG_DELSETELEM, REQUEST, set, remove);
    messages.extend(nets::elements(place, NFT_MSG_NEWSETELEM, CREATE, set, add));
    kernel.batch(messages)
}

/// Removes our table of a family, with all that is in it.
pub(crate) fn remove_packets(kernel: &mut Conversation, family: Family) -> Result<(), KernelError> {
    let removed = kernel.batch(vec![InKernel::ours(family).message(NFT_MSG_DELTABLE, REQUEST)]);
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
    let (chains, sets, nets, tallies) = Default::default();
    let mut table = Table { family, name: name.to_owned(), chains, sets, nets, tallies };
    for bytes in kernel.list(|| header(NFT_MSG_GETCHAIN, list_flags(), place.protocol))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        if attributes.text(NFTA_TABLE_NAME).as_deref() == Some(name) {
            let chain = attributes.text(NFTA_CHAIN_NAME).unwrap_or_default();
            table.chains.insert(chain, Chain { base: base(&attributes)?, rules: Vec::new() });
        }
    }
    for (chain, rule) in read_all_rules(kernel, place)? {
        if let Some(chain) = table.chains.get_mut(&chain) {
            chain.rules.push(rule);
        }
    }
    let kept = read_sets(kernel, place, &[family])?;
    (table.sets, table.nets, table.tallies) = (kept.sets, kept.nets, kept.tallies);
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
    match kernel.one(place.message(NFT_MSG_GETTABLE, REQUEST)) {
        Ok(bytes) => Ok(Attributes::after(HEADER_BYTES, &bytes)?.be32(NFTA_TABLE_USE)),
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
    for bytes in kernel.list(|| place.message(NFT_MSG_GETRULE, list_flags()))? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        if attributes.text(NFTA_TABLE_NAME).as_deref() == Some(place.table) {
            rules.push((attributes.text(NFTA_RULE_CHAIN).unwrap_or_default(), rule(&attributes)?));
        }
    }
    Ok(rules)
}

/// Where a chain sees packets, if it does by itself.
pub(super) fn base(attributes: &Attributes<'_>) -> Result<Option<Base>, KernelError> {
    if attributes.of(NFTA_CHAIN_HOOK).is_none() {
        return Ok(None);
    }
    let hook = attributes.within(NFTA_CHAIN_HOOK)?;
    let number = hook.be32(NFTA_HOOK_HOOKNUM);
    let hooks = [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];
    let named = hooks.into_iter().find(|hook| Some(hook_number(*hook)) == number);
    Ok(Some(Base {
        kind: attributes.text(NFTA_CHAIN_TYPE).unwrap_or_default(),
        hook: named.ok_or(KernelError::Garbled)?,
        priority: hook.be32(NFTA_HOOK_PRIORITY).unwrap_or_default().cast_signed(),
        accepts: attributes.be32(NFTA_CHAIN_POLICY) == Some(NF_ACCEPT),
    }))
}

/// What a rule of a list says.
pub(super) fn rule(attributes: &Attributes<'_>) -> Result<PacketRule, KernelError> {
    let expressions = attributes.within(NFTA_RULE_EXPRESSIONS)?;
    let expressions = expressions.all(NFTA_LIST_ELEM).map(words::read).collect::<Result<_, _>>()?;
    let comment = match attributes.of(NFTA_RULE_USERDATA) {
        Some([UDATA_COMMENT, length, text @ ..]) if usize::from(*length) <= text.len() => {
            let text = text[..usize::from(*length)].strip_suffix(&[0]).unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        }
        Some(_) | None => String::new(),
    };
    Ok(PacketRule { comment, expressions })
}

fn new_chain(place: InKernel<'_>, name: &str, chain: &Chain) -> Message {
    let mut message = place.message(NFT_MSG_NEWCHAIN, CREATE);
    message.put_text(NFTA_CHAIN_NAME, name);
    if let Some(base) = &chain.base {
        message.nest(NFTA_CHAIN_HOOK, |message| {
            message.put_be32(NFTA_HOOK_HOOKNUM, hook_number(base.hook));
            message.put_be32(NFTA_HOOK_PRIORITY, base.priority.cast_unsigned());
        });
        message.put_be32(NFTA_CHAIN_POLICY, u32::from(base.accepts));
        message.put_text(NFTA_CHAIN_TYPE, &base.kind);
    }
    message
}

pub(super) fn new_rule(place: InKernel<'_>, chain: &str, rule: &PacketRule) -> Message {
    let mut message = place.message(NFT_MSG_NEWRULE, APPEND);
    message.put_text(NFTA_RULE_CHAIN, chain);
    message.nest(NFTA_RULE_EXPRESSIONS, |message| {
        for expression in &rule.expressions {
            message.nest(NFTA_LIST_ELEM, |message| words::write(message, expression));
        }
    });
    // libnftnl's lengths are of one byte.
    let text: Vec<u8> = rule.comment.bytes().take(usize::from(u8::MAX) - 1).chain([0]).collect();
    message.put(NFTA_RULE_USERDATA, &[&[UDATA_COMMENT, text.len() as u8], &text[..]].concat());
    message
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
