//! The rules by which plugins of pod networks (`ptp` and `bridge`, with `ipMasq`) masquerade a pod: one
//! for each pod, by its source, to a chain of its own.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, CREATE_OR_REPLACE, Message};
use super::numbers::{
    InKernel, NFPROTO_IPV4, NFT_MSG_GETRULE, NFT_MSG_NEWRULE, NFTA_LIST_ELEM, NFTA_RULE_CHAIN,
    NFTA_RULE_EXPRESSIONS, NFTA_RULE_HANDLE, NFTA_RULE_USERDATA, NFTA_TABLE_NAME,
};
use super::words;
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::{Expression, address, source};

/// The table of iptables in which they are, and the chain.
const NAT: InKernel<'_> = InKernel { protocol: NFPROTO_IPV4, table: "nat" };
const POSTROUTING: &str = "POSTROUTING";
/// What the chains of plugins are called, before a number of the pod's.
const OF_PLUGIN: &str = "CNI-";

/// Writes an address in the place of these, as sources of such rules. Where they are made by iptables' legacy
/// program, or by a plugin's own rules of nf_tables, there are none.
pub(crate) fn masquerade_as(
    kernel: &mut Conversation,
    of: &BTreeSet<Ipv4Addr>,
    is: Ipv4Addr,
) -> Result<(), KernelError> {
    let request = || {
        let mut request = NAT.message(NFT_MSG_GETRULE, list_flags());
        request.put_text(NFTA_RULE_CHAIN, POSTROUTING);
        request
    };
    let rules = kernel.list(request).or_else(|error| match error.is(libc::ENOENT) {
        true => Ok(Vec::new()),
        false => Err(error),
    })?;
    let mut changes = Vec::new();
    for bytes in rules {
        let rule = Attributes::after(super::numbers::HEADER_BYTES, &bytes)?;
        let is_there = |kind, text: &str| rule.text(kind).as_deref() == Some(text);
        if is_there(NFTA_TABLE_NAME, NAT.table) && is_there(NFTA_RULE_CHAIN, POSTROUTING) {
            changes.extend(with_source(&rule, of, is)?);
        }
    }
    kernel.batch(changes)
}

/// What replaces a rule by one of another source; none: it is no such rule.
fn with_source(
    rule: &Attributes<'_>,
    of: &BTreeSet<Ipv4Addr>,
    is: Ipv4Addr,
) -> Result<Option<Message>, KernelError> {
    let Some(handle) = rule.of(NFTA_RULE_HANDLE) else { return Ok(None) };
    let expressions = rule.within(NFTA_RULE_EXPRESSIONS)?;
    let mut all: Vec<&[u8]> = expressions.all(NFTA_LIST_ELEM).collect();
    let [first, second, .., last] = all[..] else { return Ok(None) };
    let is_one = |of: &Ipv4Addr| Expression::CmpEq(address(IpAddr::V4(*of)));
    let compared = words::read(second)?;
    let leads = words::jumps_to(last)?.is_some_and(|chain| chain.starts_with(OF_PLUGIN));
    let is_of_pod = words::read(first)? == source(Family::V4)
        && of.iter().any(|of| *of != is && is_one(of) == compared);
    if !leads || !is_of_pod {
        return Ok(None);
    }
    let mut message = NAT.message(NFT_MSG_NEWRULE, CREATE_OR_REPLACE);
    message.put_text(NFTA_RULE_CHAIN, POSTROUTING);
    message.put(NFTA_RULE_HANDLE, handle);
    message.nest(NFTA_RULE_EXPRESSIONS, |message| {
        message.put_nested(NFTA_LIST_ELEM, all.remove(0));
        message.nest(NFTA_LIST_ELEM, |message| words::write(message, &is_one(&is)));
        for other in all.drain(1..) {
            message.put_nested(NFTA_LIST_ELEM, other);
        }
    });
    if let Some(data) = rule.of(NFTA_RULE_USERDATA) {
        message.put(NFTA_RULE_USERDATA, data);
    }
    Ok(Some(message))
}
