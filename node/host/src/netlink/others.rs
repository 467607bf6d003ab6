//! Packet rules of others: the chains that drop what is forwarded, and whether anything has changed.

use std::collections::BTreeSet;

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, REQUEST};
use super::numbers::{
    CHAIN_HOOK, CHAIN_NAME, GET_CHAIN, GET_RULE, HEADER_BYTES, IPV4, IPV6, OF_TABLE, RULE_CHAIN,
    header,
};
use super::packets::{base, rule};
use crate::error::KernelError;
use mercato_machine::{Base, Hook};
use mercato_machine::{Dropping, PacketFamily};

// Families of packets (`NFPROTO_...`).
const ANY_FAMILY: u8 = 0;
const INET: u8 = 1;
/// By which the number of packet rules is asked (`NFT_MSG_GETGEN`), and said (`NFTA_GEN_ID`).
const GET_GENERATION: u16 = 16;
const GENERATION: u16 = 1;

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
            Some(&IPV6) => PacketFamily::Ip6,
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

/// The number of the packet rules as they are now: another one after each change by anybody.
pub(crate) fn read_generation(kernel: &mut Conversation) -> Result<u32, KernelError> {
    let answer = kernel.one(header(GET_GENERATION, REQUEST, ANY_FAMILY))?;
    Attributes::after(HEADER_BYTES, &answer)?.be32(GENERATION).ok_or(KernelError::Garbled)
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
        PacketFamily::Ip6 => IPV6,
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
