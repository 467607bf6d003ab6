//! The numbers of nf_tables that are said in more than one place (linux/netfilter/nf_tables.h), and by
//! what the kernel knows a table.

use super::message::{CREATE, CREATE_ANEW, Message, REQUEST};
use mercato_machine::Family;
use mercato_machine::Table;

/// A family, a version and a number (`struct nfgenmsg`).
pub(super) const HEADER_BYTES: usize = 4;
// Families of packets (`NFPROTO_...`).
pub(super) const NFPROTO_IPV4: u8 = 2;
pub(super) const NFPROTO_IPV6: u8 = 10;

// Messages (`NFT_MSG_...`).
pub(super) const NFT_MSG_NEWTABLE: u16 = 0;
pub(super) const NFT_MSG_GETTABLE: u16 = 1;
pub(super) const NFT_MSG_DELTABLE: u16 = 2;
pub(super) const NFT_MSG_NEWCHAIN: u16 = 3;
pub(super) const NFT_MSG_GETCHAIN: u16 = 4;
pub(super) const NFT_MSG_DELCHAIN: u16 = 5;
pub(super) const NFT_MSG_NEWRULE: u16 = 6;
pub(super) const NFT_MSG_GETRULE: u16 = 7;
pub(super) const NFT_MSG_DELRULE: u16 = 8;
pub(super) const NFT_MSG_NEWSET: u16 = 9;
pub(super) const NFT_MSG_GETSET: u16 = 10;
pub(super) const NFT_MSG_DELSET: u16 = 11;
pub(super) const NFT_MSG_NEWSETELEM: u16 = 12;
pub(super) const NFT_MSG_GETSETELEM: u16 = 13;
pub(super) const NFT_MSG_DELSETELEM: u16 = 14;

/// In tables, chains, rules, sets and elements alike.
pub(super) const NFTA_TABLE_NAME: u16 = 1;
pub(super) const NFTA_TABLE_USE: u16 = 3;
// Of chains.
pub(super) const NFTA_CHAIN_NAME: u16 = 3;
pub(super) const NFTA_CHAIN_HOOK: u16 = 4;
pub(super) const NFTA_CHAIN_POLICY: u16 = 5;
pub(super) const NFTA_CHAIN_TYPE: u16 = 7;
pub(super) const NFTA_HOOK_HOOKNUM: u16 = 1;
pub(super) const NFTA_HOOK_PRIORITY: u16 = 2;
pub(super) const NF_ACCEPT: u32 = 1;
// Of rules.
pub(super) const NFTA_RULE_CHAIN: u16 = 2;
pub(super) const NFTA_RULE_HANDLE: u16 = 3;
pub(super) const NFTA_RULE_EXPRESSIONS: u16 = 4;
pub(super) const NFTA_RULE_USERDATA: u16 = 7;
/// Of what a rule carries for people: a kind, a length, and a text that a zero ends, as
/// libnftnl has it.
pub(super) const UDATA_COMMENT: u8 = 0;
// Of sets.
pub(super) const NFTA_SET_NAME: u16 = 2;
pub(super) const NFTA_SET_FLAGS: u16 = 3;
pub(super) const NFTA_SET_KEY_TYPE: u16 = 4;
pub(super) const NFTA_SET_KEY_LEN: u16 = 5;
pub(super) const NFTA_SET_ID: u16 = 10;
/// What `nft` calls `ipv4_addr` and `ipv6_addr`: the kernel keeps the number for it.
pub(super) const TYPE_IPV4: u32 = 7;
pub(super) const TYPE_IPV6: u32 = 8;
// Of elements.
pub(super) const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
pub(super) const NFTA_SET_ELEM_KEY: u16 = 1;
/// Of lists and data anywhere.
pub(super) const NFTA_LIST_ELEM: u16 = 1;
pub(super) const NFTA_DATA_VALUE: u16 = 1;

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
        let kinds =
            [(NFT_MSG_NEWTABLE, CREATE), (NFT_MSG_DELTABLE, REQUEST), (NFT_MSG_NEWTABLE, CREATE)];
        kinds.map(|(kind, flags)| self.message(kind, flags)).into()
    }

    /// What makes an empty table, where there is none of its name; otherwise it fails.
    pub(super) fn made_first(self) -> Vec<Message> {
        vec![self.message(NFT_MSG_NEWTABLE, CREATE_ANEW)]
    }

    /// A message about the table, or about something in it.
    pub(super) fn message(self, kind: u16, flags: u16) -> Message {
        let mut message = header(kind, flags, self.protocol);
        message.put_text(NFTA_TABLE_NAME, self.table);
        message
    }
}

pub(super) fn protocol(family: Family) -> u8 {
    match family {
        Family::V4 => NFPROTO_IPV4,
        Family::V6 => NFPROTO_IPV6,
    }
}

/// A message about a family, which may be of all.
pub(super) fn header(kind: u16, flags: u16, family: u8) -> Message {
    let subsystem = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8;
    Message::new(subsystem | kind, flags, &[family, 0, 0, 0])
}
