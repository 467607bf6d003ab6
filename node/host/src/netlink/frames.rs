//! Tables of nf_tables that see the frames of devices (`netdev`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::conversation::{Conversation, list_flags};
use super::maps::{new_map, read_map};
use super::message::{Attributes, CREATE, Message, REQUEST};
use super::nets;
use super::numbers::{
    ACCEPT, CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY, CHAIN_TYPE, DELETE_TABLE, GET_CHAIN, GET_TABLE,
    HEADER_BYTES, HOOK_NUMBER, HOOK_PRIORITY, InKernel, NEW_CHAIN, NEW_ELEMENTS, OF_TABLE, header,
};
use super::packets::{content, new_rule, read_all_rules};
use super::sets::{Kept, Of, elements, new_set, read_sets};
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::{AddressMap, FrameBase, FrameChain, FrameTable, Side};

/// Of what the kernel calls the packets (`NFPROTO_NETDEV`).
const FRAMES: u8 = 5;
const FILTER: &str = "filter";
/// The name of a chain's device, where it has one alone.
const HOOK_DEVICE: u16 = 3;
// Hooks (`NF_NETDEV_...`); the second one came with Linux 5.16.
const INGRESS: u32 = 0;
const EGRESS: u32 = 1;

/// Puts a table in the place of the one that was read under its name, at one moment. Where there was
/// none, nothing is removed: the kernel lets whoever has removed something wait, as he goes, for
/// all processors.
pub(crate) fn replace_frames(
    kernel: &mut Conversation,
    before: Option<&FrameTable>,
    table: &FrameTable,
) -> Result<(), KernelError> {
    let place = InKernel { protocol: FRAMES, table: &table.name };
    let mut messages = match before {
        Some(_) => place.made_anew(),
        None => place.made_first(),
    };
    // Rules name chains and sets, which are there by then.
    messages.extend(table.chains.iter().map(|(name, chain)| new_chain(place, name, chain)));
    let mut last = 0;
    let mut id = || {
        last += 1;
        last
    };
    for (name, members) in &table.sets {
        let family = members.first().map_or(Family::V4, |member: &IpAddr| Family::of(*member));
        messages.push(new_set(place, name, family, Of::Addresses, id()));
        messages.extend(elements(place, NEW_ELEMENTS, CREATE, name, members));
    }
    for (name, members) in &table.nets {
        let family = members.first().map_or(Family::V4, |member| Family::of_net(*member));
        messages.push(new_set(place, name, family, Of::Nets, id()));
        messages.extend(nets::elements(place, NEW_ELEMENTS, CREATE, name, members));
    }
    for (name, map) in &table.maps {
        messages.extend(new_map(place, name, map, id()));
    }
    for (name, chain) in &table.chains {
        messages.extend(chain.rules.iter().map(|rule| new_rule(place, name, rule)));
    }
    kernel.batch(messages)
}

/// The table of this name, if there is one.
pub(crate) fn read_frames(
    kernel: &mut Conversation,
    name: &str,
) -> Result<Option<FrameTable>, KernelError> {
    let place = InKernel { protocol: FRAMES, table: name };
    let Some(content) = content(kernel, place)? else { return Ok(None) };
    // Each of ours has rules. A list of all chains would be as long as there are guests.
    let mut chains = BTreeMap::<String, FrameChain>::new();
    for (chain, rule) in read_all_rules(kernel, place)? {
        chains.entry(chain).or_default().rules.push(rule);
    }
    for (name, chain) in &mut chains {
        let mut request = place.message(GET_CHAIN, REQUEST);
        request.put_text(CHAIN_NAME, name);
        let bytes = kernel.one(request)?;
        chain.base = base(&Attributes::after(HEADER_BYTES, &bytes)?)?;
    }
    let Kept { mut sets, nets, maps, tallies } = read_sets(kernel, place, &Family::ALL)?;
    // None of ours: nothing is remembered there.
    sets.extend(tallies.into_keys().map(|name| (name, BTreeSet::new())));
    if content as usize != chains.len() + sets.len() + nets.len() + maps.len() {
        // Not one of ours, whatever it is: no name of ours has a space.
        chains.insert("of another kind".to_owned(), FrameChain::default());
    }
    Ok(Some(FrameTable { name: name.to_owned(), chains, sets, nets, maps }))
}

/// A map in the table of this name; nothing where one of both is not there.
pub(crate) fn read_frame_map(
    kernel: &mut Conversation,
    name: &str,
    map: &str,
) -> Result<AddressMap, KernelError> {
    let read = read_map(kernel, InKernel { protocol: FRAMES, table: name }, map);
    read.or_else(|error| if error.is(libc::ENOENT) { Ok(AddressMap::new()) } else { Err(error) })
}

/// What all tables of frames are called.
pub(crate) fn names_of_frames(kernel: &mut Conversation) -> Result<Vec<String>, KernelError> {
    let tables = kernel.list(|| header(GET_TABLE, list_flags(), FRAMES))?;
    let name = |bytes: &Vec<u8>| {
        Ok(Attributes::after(HEADER_BYTES, bytes)?.text(OF_TABLE).unwrap_or_default())
    };
    tables.iter().map(name).collect()
}

/// Removes a table, with all that is in it.
pub(crate) fn remove_frames(kernel: &mut Conversation, name: &str) -> Result<(), KernelError> {
    let place = InKernel { protocol: FRAMES, table: name };
    let removed = kernel.batch(vec![place.message(DELETE_TABLE, REQUEST)]);
    removed.or_else(|error| if error.is(libc::ENOENT) { Ok(()) } else { Err(error) })
}

fn new_chain(place: InKernel<'_>, name: &str, chain: &FrameChain) -> Message {
    let mut message = place.message(NEW_CHAIN, CREATE);
    message.put_text(CHAIN_NAME, name);
    if let Some(base) = &chain.base {
        message.nest(CHAIN_HOOK, |message| {
            message.put_be32(HOOK_NUMBER, hook_number(base.side));
            message.put_be32(HOOK_PRIORITY, base.priority.cast_unsigned());
            message.put_text(HOOK_DEVICE, &base.device);
        });
        message.put_be32(CHAIN_POLICY, u32::from(base.accepts));
        message.put_text(CHAIN_TYPE, FILTER);
    }
    message
}

fn base(attributes: &Attributes<'_>) -> Result<Option<FrameBase>, KernelError> {
    if attributes.of(CHAIN_HOOK).is_none() {
        return Ok(None);
    }
    let hook = attributes.within(CHAIN_HOOK)?;
    let number = hook.be32(HOOK_NUMBER);
    let side = [Side::In, Side::Out].into_iter().find(|side| Some(hook_number(*side)) == number);
    Ok(Some(FrameBase {
        // Of several, and of none, there is no name: that is not one of ours.
        device: hook.text(HOOK_DEVICE).unwrap_or_default(),
        side: side.ok_or(KernelError::Garbled)?,
        priority: hook.be32(HOOK_PRIORITY).unwrap_or_default().cast_signed(),
        accepts: attributes.be32(CHAIN_POLICY) == Some(ACCEPT),
    }))
}

fn hook_number(side: Side) -> u32 {
    match side {
        Side::In => INGRESS,
        Side::Out => EGRESS,
    }
}
