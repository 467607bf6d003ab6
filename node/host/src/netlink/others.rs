//! Packet rules of others: the chains that drop what is forwarded, and whether anything has changed.

use std::collections::BTreeSet;

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, REQUEST};
use super::numbers::{
    HEADER_BYTES, NFPROTO_IPV4, NFPROTO_IPV6, NFT_MSG_GETCHAIN, NFT_MSG_GETRULE, NFTA_CHAIN_HOOK,
    NFTA_CHAIN_NAME, NFTA_RULE_CHAIN, NFTA_TABLE_NAME, header,
};
use super::packets::{base, rule};
use crate::error::KernelError;
use mercato_machine::{Base, Hook};
use mercato_machine::{Dropping, PacketFamily};

// Families of packets (`NFPROTO_...`).
const NFPROTO_UNSPEC: u8 = 0;
const NFPROTO_INET: u8 = 1;
/// By which the number of packet rules is asked (`NFT_MSG_GETGEN`), and said (`NFTA_GEN_ID`).
const NFT_MSG_GETGEN: u16 = 16;
const NFTA_GEN_ID: u16 = 1;

/// The chains that drop what is forwarded and spoken of by none of their rules, unless they let
/// through whatever comes and goes by this device.
pub(crate) fn read_dropping(
    kernel: &mut Conversation,
    device: &str,
) -> Result<Vec<Dropping>, KernelError> {
    let mut found = Vec::new();
    for bytes in kernel.list(|| header(NFT_MSG_GETCHAIN, list_flags(), NFPROTO_UNSPEC))? {
        let family = match bytes.first() {
            Some(&NFPROTO_INET) => PacketFamily::Inet,
            Some(&NFPROTO_IPV4) => PacketFamily::Ip,
            Some(&NFPROTO_IPV6) => PacketFamily::Ip6,
            Some(_) | None => continue,
        };
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        let drops = |base: Base| base.hook == Hook::Forward && !base.accepts;
        if attributes.of(NFTA_CHAIN_HOOK).is_none() || !base(&attributes)?.is_some_and(drops) {
            continue;
        }
        let table = attributes.text(NFTA_TABLE_NAME).unwrap_or_default();
        let chain = attributes.text(NFTA_CHAIN_NAME).unwrap_or_default();
        let found_here = Dropping { family, table, chain };
        if !lets_through(kernel, &found_here, device)? {
            found.push(found_here);
        }
    }
    Ok(found)
}

/// The number of the packet rules as they are now: another one after each change by anybody.
pub(crate) fn read_generation(kernel: &mut Conversation) -> Result<u32, KernelError> {
    let answer = kernel.one(header(NFT_MSG_GETGEN, REQUEST, NFPROTO_UNSPEC))?;
    Attributes::after(HEADER_BYTES, &answer)?.be32(NFTA_GEN_ID).ok_or(KernelError::Garbled)
}

/// Whether rules of the chain accept what comes by the device, and what goes.
fn lets_through(
    kernel: &mut Conversation,
    chain: &Dropping,
    device: &str,
) -> Result<bool, KernelError> {
    let family = match chain.family {
        PacketFamily::Inet => NFPROTO_INET,
        PacketFamily::Ip => NFPROTO_IPV4,
        PacketFamily::Ip6 => NFPROTO_IPV6,
    };
    let mut ways = BTreeSet::new();
    let request = || {
        let mut request = header(NFT_MSG_GETRULE, list_flags(), family);
        request.put_text(NFTA_TABLE_NAME, &chain.table);
        request.put_text(NFTA_RULE_CHAIN, &chain.chain);
        request
    };
    for bytes in kernel.list(request)? {
        let attributes = Attributes::after(HEADER_BYTES, &bytes)?;
        if attributes.text(NFTA_TABLE_NAME).as_deref() == Some(&chain.table)
            && attributes.text(NFTA_RULE_CHAIN).as_deref() == Some(&chain.chain)
        {
            ways.extend(rule(&attributes)?.accepts_by(device));
        }
    }
    Ok(ways.len() == 2)
}
