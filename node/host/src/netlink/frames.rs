//! Tables of nf_tables that see the frames of devices (`netdev`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::conversation::{Conversation, list_flags};
use super::maps::{new_map, read_map};
use super::message::{Attributes, CREATE, Message, REQUEST};
use super::nets;
use super::numbers::{
    HEADER_BYTES, InKernel, NF_ACCEPT, NFT_MSG_DELTABLE, NFT_MSG_GETCHAIN, NFT_MSG_GETTABLE,
    NFT_MSG_NEWCHAIN, NFT_MSG_NEWSETELEM, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME, NFTA_CHAIN_POLICY,
    NFTA_CHAIN_TYPE, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_TABLE_NAME, header,
};
use super::packets::{content, new_rule, read_all_rules};
use super::sets::{Kept, Of, elements, new_set, read_sets};
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::{AddressMap, FrameBase, FrameChain, FrameTable, Side};

/// Of what the kernel calls the packets (`NFPROTO_NETDEV`).
const NFPROTO_NETDEV: u8 = 5;
const FILTER: &str = "filter";
/// The name of a chain's device, where it has one alone.
const NFTA_HOOK_DEV: u16 = 3;
// Hooks (`NF_NETDEV_...`); the second one came with Linux 5.16.
const NF_NETDEV_INGRESS: u32 = 0;
const NF_NETDEV_EGRESS: u32 = 1;

/// Puts a table in the place of the one that was read under its name, at one moment. Where there was
/// none, nothing is removed: the kernel lets whoever has removed something wait, as he goes, for
/// all processors.
pub(crate) fn replace_frames(
    kernel: &mut Conversation,
    before: Option<&FrameTable>,
    table: &FrameTable,
) -> Result<(), KernelError> {
    let place = InKernel { protocol: NFPROTO_NETDEV, table: &table.name };
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
        messages.extend(elements(place, NFT_MSG_NEWSETELEM, CREATE, name, members));
    }
    for (name, members) in &table.nets {
        let family = members.first().map_or(Family::V4, |member| Family::of_net(*member));
        messages.push(new_set(place, name, family, Of::Nets, id()));
        messages.extend(nets::elements(place, NFT_MSG_NEWSETELEM, CREATE, name, members));
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
    let place = InKernel { protocol: NFPROTO_NETDEV, table: name };
    let Some(content) = content(kernel, place)? else { return Ok(None) };
    // Each of ours has rules. A list of all chains would be as long as there are guests.
    let mut chains = BTreeMap::<String, FrameChain>::new();
    for (chain, rule) in read_all_rules(kernel, place)? {
        chains.entry(chain).or_default().rules.push(rule);
    }
    for (name, chain) in &mut chains {
        let mut request = place.message(NFT_MSG_GETCHAIN, REQUEST);
        request.put_text(NFTA_CHAIN_NAME, name);
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
    let read = read_map(kernel, InKernel { protocol: NFPROTO_NETDEV, table: name }, map);
    read.or_else(|error| if error.is(libc::ENOENT) { Ok(AddressMap::new()) } else { Err(error) })
}

/// What all tables of frames are called.
pub(crate) fn names_of_frames(kernel: &mut Conversation) -> Result<Vec<String>, KernelError> {
    let tables = kernel.list(|| header(NFT_MSG_GETTABLE, list_flags(), NFPROTO_NETDEV))?;
    let name = |bytes: &Vec<u8>| {
        Ok(Attributes::after(HEADER_BYTES, bytes)?.text(NFTA_TABLE_NAME).unwrap_or_default())
    };
    tables.iter().map(name).collect()
}

/// Removes a table, with all that is in it.
pub(crate) fn remove_frames(kernel: &mut Conversation, name: &str) -> Result<(), KernelError> {
    let place = InKernel { protocol: NFPROTO_NETDEV, table: name };
    let removed = kernel.batch(vec![place.message(NFT_MSG_DELTABLE, REQUEST)]);
    removed.or_else(|error| if error.is(libc::ENOENT) { Ok(()) } else { Err(error) })
}

fn new_chain(place: InKernel<'_>, name: &str, chain: &FrameChain) -> Message {
    let mut message = place.message(NFT_MSG_NEWCHAIN, CREATE);
    message.put_text(NFTA_CHAIN_NAME, name);
    if let Some(base) = &chain.base {
        message.nest(NFTA_CHAIN_HOOK, |message| {
            message.put_be32(NFTA_HOOK_HOOKNUM, hook_number(base.side));
            message.put_be32(NFTA_HOOK_PRIORITY, base.priority.cast_unsigned());
            message.put_text(NFTA_HOOK_DEV, &base.device);
        });
        message.put_be32(NFTA_CHAIN_POLICY, u32::from(base.accepts));
        message.put_text(NFTA_CHAIN_TYPE, FILTER);
    }
    message
}

fn base(attributes: &Attributes<'_>) -> Result<Option<FrameBase>, KernelError> {
    if attributes.of(NFTA_CHAIN_HOOK).is_none() {
        return Ok(None);
    }
    let hook = attributes.within(NFTA_CHAIN_HOOK)?;
    let number = hook.be32(NFTA_HOOK_HOOKNUM);
    let side = [Side::In, Side::Out].into_iter().find(|side| Some(hook_number(*side)) == number);
    Ok(Some(FrameBase {
        // Of several, and of none, there is no name: that is not one of ours.
        device: hook.text(NFTA_HOOK_DEV).unwrap_or_default(),
        side: side.ok_or(KernelError::Garbled)?,
        priority: hook.be32(NFTA_HOOK_PRIORITY).unwrap_or_default().cast_signed(),
        accepts: attributes.be32(NFTA_CHAIN_POLICY) == Some(NF_ACCEPT),
    }))
}

fn hook_number(side: Side) -> u32 {
    match side {
        Side::In => NF_NETDEV_INGRESS,
        Side::Out => NF_NETDEV_EGRESS,
    }
}
