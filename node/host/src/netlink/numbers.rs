//! The numbers of nf_tables that are said in more than one place (linux/netfilter/nf_tables.h), and by
//! what the kernel knows a table.

use super::message::{CREATE, CREATE_ANEW, Message, REQUEST};
use mercato_machine::Family;
use mercato_machine::Table;

/// A family, a version and a number (`struct nfgenmsg`).
pub(super) const HEADER_BYTES: usize = 4;
// Families of packets (`NFPROTO_...`).
pub(super) const IPV4: u8 = 2;
pub(super) const IPV6: u8 = 10;

// Messages (`NFT_MSG_...`).
pub(super) const NEW_TABLE: u16 = 0;
pub(super) const GET_TABLE: u16 = 1;
pub(super) const DELETE_TABLE: u16 = 2;
pub(super) const NEW_CHAIN: u16 = 3;
pub(super) const GET_CHAIN: u16 = 4;
pub(super) const DELETE_CHAIN: u16 = 5;
pub(super) const NEW_RULE: u16 = 6;
pub(super) const GET_RULE: u16 = 7;
pub(super) const DELETE_RULE: u16 = 8;
pub(super) const NEW_SET: u16 = 9;
pub(super) const GET_SET: u16 = 10;
pub(super) const DELETE_SET: u16 = 11;
pub(super) const NEW_ELEMENTS: u16 = 12;
pub(super) const GET_ELEMENTS: u16 = 13;
pub(super) const DELETE_ELEMENTS: u16 = 14;

/// In tables, chains, rules, sets and elements alike.
pub(super) const OF_TABLE: u16 = 1;
pub(super) const TABLE_USE: u16 = 3;
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
pub(super) const RULE_HANDLE: u16 = 3;
pub(super) const RULE_EXPRESSIONS: u16 = 4;
pub(super) const RULE_DATA: u16 = 7;
/// Of what a rule carries for people: a kind, a length, and a text that a zero ends, as
/// libnftnl has it.
pub(super) const COMMENT: u8 = 0;
// Of sets.
pub(super) const SET_NAME: u16 = 2;
pub(super) const SET_FLAGS: u16 = 3;
pub(super) const SET_KEY_TYPE: u16 = 4;
pub(super) const SET_KEY_BYTES: u16 = 5;
pub(super) const SET_ID: u16 = 10;
/// What `nft` calls `ipv4_addr` and `ipv6_addr`: the kernel keeps the number for it.
pub(super) const TYPE_IPV4: u32 = 7;
pub(super) const TYPE_IPV6: u32 = 8;
// Of elements.
pub(super) const ELEMENTS: u16 = 3;
pub(super) const ELEMENT_KEY: u16 = 1;
/// Of lists and data anywhere.
pub(super) const LIST_ELEMENT: u16 = 1;
pub(super) const DATA_VALUE: u16 = 1;

/// By what the kernel knows a table.
#[derive(Clone, Copy)]
pub(super) struct InKernel<'a> {
    /// Whose packets it sees (`NFPROTO_...`).
    pub(super) protocol: u8,
    pub(super) table: &'a str,
}

impl<'a> InKernel<'a> {
    pub(super) fn of(table: &'a Table) -> Self {
        Self { protocol: protocol(table.family), table: &table.name }
    }

    pub(super) fn ours(family: Family) -> Self {
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

pub(super) fn protocol(family: Family) -> u8 {
    match family {
        Family::V4 => IPV4,
        Family::V6 => IPV6,
    }
}

/// A message about a family, which may be of all.
pub(super) fn header(kind: u16, flags: u16, family: u8) -> Message {
    let subsystem = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8;
    Message::new(subsystem | kind, flags, &[family, 0, 0, 0])
}
