//! One rule, word by word (`nft_do_chain`, `nft_..._eval`).

use std::net::IpAddr;

use super::error::InterpretError;
use super::facts::{BoundOf, Conntrack, Facts};
use super::frame::{Frame, Transport};
use super::register::Register;
use super::rewrite;
use super::tables::Tables;
use crate::family::Family;
use crate::packets::{Expression, PacketRule, Verdict};

/// A packet among the rules of a chain.
pub(super) struct Asked<'a, 'f> {
    pub(super) tables: Tables<'a>,
    /// Where the rule stands that is asked.
    pub(super) chain: &'a str,
    pub(super) facts: &'f Facts<'f>,
    /// What conntrack says at this hook.
    pub(super) conntrack: Conntrack,
    pub(super) transport: Option<Transport>,
    pub(super) frame: Frame,
    pub(super) notrack: bool,
    pub(super) snat: Option<IpAddr>,
    pub(super) masquerades: bool,
}

/// Whether the rest of the rule is asked.
enum Word<'a> {
    GoesOn,
    /// The condition is not met, or nothing could be loaded (`NFT_BREAK`).
    Breaks,
    Decides(&'a Verdict),
}

impl<'a> Asked<'a, '_> {
    /// The verdict of a rule; none: it does not speak of this packet, or decides nothing.
    pub(super) fn rule(
        &mut self,
        rule: &'a PacketRule,
    ) -> Result<Option<&'a Verdict>, InterpretError> {
        let mut register = Register::default();
        for word in &rule.expressions {
            match self.word(word, &rule.comment, &mut register)? {
                Word::GoesOn => {}
                Word::Breaks => return Ok(None),
                Word::Decides(verdict) => return Ok(Some(verdict)),
            }
        }
        Ok(None)
    }

    fn word(
        &mut self,
        word: &'a Expression,
        comment: &str,
        register: &mut Register,
    ) -> Result<Word<'a>, InterpretError> {
        let met = |is: bool| if is { Word::GoesOn } else { Word::Breaks };
        Ok(match word {
            Expression::Bitwise(_)
            | Expression::CmpEq(_)
            | Expression::CmpNeq(_)
            | Expression::Lookup(_)
            | Expression::LookupInv(_)
            | Expression::LookupDreg(_)
            | Expression::PayloadSet(_)
            | Expression::Dynset(..)
            | Expression::Limit { .. } => met(self.is_met(word, comment, register)?),
            Expression::Counter => Word::GoesOn,
            Expression::Notrack => {
                self.notrack |= self.conntrack == Conntrack::Invalid;
                Word::GoesOn
            }
            Expression::Masquerade => {
                self.masquerades = true;
                Word::Decides(&Verdict::Accept)
            }
            Expression::Snat(family) => {
                let address = register.address().filter(|it| Family::of(*it) == *family);
                let other = || self.bytes_error(comment, register, bytes_of(*family));
                self.snat = Some(address.ok_or_else(other)?);
                Word::Decides(&Verdict::Accept)
            }
            Expression::Verdict(verdict) => Word::Decides(verdict),
            Expression::Other(word) => {
                let (chain, word) = (self.chain.to_owned(), word.clone());
                return Err(InterpretError::Unknown { chain, word });
            }
            Expression::MetaIifname
            | Expression::MetaOifname
            | Expression::MetaMark
            | Expression::MetaL4Proto
            | Expression::MetaProtocol
            | Expression::CtState
            | Expression::CtStatus
            | Expression::CtDirection
            | Expression::CtReplyDst(_)
            | Expression::FibSaddrIifPresent
            | Expression::PayloadLl { .. }
            | Expression::PayloadNetwork { .. }
            | Expression::PayloadTransport { .. }
            | Expression::Immediate(_) => match self.load(word) {
                Some(loaded) => {
                    *register = loaded;
                    Word::GoesOn
                }
                None => Word::Breaks,
            },
        })
    }

    /// Whether a word goes on that works on what is loaded, or asks for a bound.
    fn is_met(
        &mut self,
        word: &Expression,
        comment: &str,
        register: &mut Register,
    ) -> Result<bool, InterpretError> {
        let loaded = *register;
        let bytes = |needs: usize| self.bytes_error(comment, &loaded, needs);
        let other_family = || bytes(if loaded.bytes().len() == 4 { 16 } else { 4 });
        let four = || <[u8; 4]>::try_from(loaded.bytes()).map_err(|_| bytes(4));
        match word {
            Expression::Bitwise(mask) => {
                *register = loaded.masked(mask).ok_or_else(|| bytes(mask.len()))?;
                Ok(true)
            }
            Expression::CmpEq(value) => loaded.is(value).ok_or_else(|| bytes(value.len())),
            Expression::CmpNeq(value) => {
                loaded.is(value).map(|is| !is).ok_or_else(|| bytes(value.len()))
            }
            Expression::Lookup(set) => self.tables.has(set, &loaded)?.ok_or_else(other_family),
            Expression::LookupInv(set) => {
                self.tables.has(set, &loaded)?.map(|is| !is).ok_or_else(other_family)
            }
            Expression::LookupDreg(map) => {
                let found = self.tables.map(map)?.get(&four()?.into());
                let found = found.and_then(|address| Register::of(&address.octets()));
                *register = found.unwrap_or(loaded);
                Ok(found.is_some())
            }
            Expression::PayloadSet(what) => {
                let address = four()?;
                Ok(rewrite::write(&mut self.frame, self.transport, *what, address))
            }
            Expression::Dynset(tally, _) => {
                let needs = self.tables.key_of(tally)?;
                if loaded.bytes().len() != needs {
                    return Err(bytes(needs));
                }
                Ok(self.is_used_up(comment, loaded.bytes()))
            }
            Expression::Limit { .. } => Ok(self.is_used_up(comment, &[])),
            // These are no conditions on what is loaded.
            Expression::MetaIifname
            | Expression::MetaOifname
            | Expression::MetaMark
            | Expression::MetaL4Proto
            | Expression::MetaProtocol
            | Expression::CtState
            | Expression::CtStatus
            | Expression::CtDirection
            | Expression::CtReplyDst(_)
            | Expression::FibSaddrIifPresent
            | Expression::PayloadLl { .. }
            | Expression::PayloadNetwork { .. }
            | Expression::PayloadTransport { .. }
            | Expression::Immediate(_)
            | Expression::Counter
            | Expression::Notrack
            | Expression::Masquerade
            | Expression::Snat(_)
            | Expression::Verdict(_)
            | Expression::Other(_) => Ok(false),
        }
    }

    fn bytes_error(&self, comment: &str, register: &Register, needs: usize) -> InterpretError {
        let (chain, comment) = (self.chain.to_owned(), comment.to_owned());
        InterpretError::Bytes { chain, comment, has: register.bytes().len(), needs }
    }

    /// What a word loads; none: it is not there, and the rule does not speak of the packet.
    fn load(&self, word: &Expression) -> Option<Register> {
        let connection = || self.conntrack.connection();
        let number = |number: u32| Register::of(&number.to_ne_bytes());
        match word {
            Expression::MetaIifname => Register::of_name(self.facts.iifname),
            Expression::MetaOifname => Register::of_name(self.facts.oifname),
            Expression::MetaMark => number(self.facts.mark),
            Expression::MetaL4Proto => Register::of(&[self.transport?.protocol]),
            Expression::MetaProtocol => Register::of(&self.frame.protocol.to_be_bytes()),
            Expression::CtState => number(self.conntrack.state()),
            Expression::CtStatus => number(connection()?.status),
            Expression::CtDirection => Register::of(&[connection()?.is_reply.into()]),
            Expression::CtReplyDst(family) => {
                let to = connection()?.reply_dst;
                (Family::of(to) == *family).then(|| Register::of(&crate::packets::address(to)))?
            }
            Expression::FibSaddrIifPresent => number(self.facts.leads_back.into()),
            Expression::PayloadLl { offset, len } => {
                (self.frame.network != 0).then(|| self.bytes(0, *offset, *len))?
            }
            Expression::PayloadNetwork { offset, len } => {
                self.bytes(self.frame.network, *offset, *len)
            }
            Expression::PayloadTransport { offset, len } => {
                let transport = self.transport.filter(|it| !it.is_later_part)?;
                self.bytes(transport.offset, *offset, *len)
            }
            Expression::Immediate(value) => Register::of(value),
            // These load nothing.
            Expression::Bitwise(_)
            | Expression::CmpEq(_)
            | Expression::CmpNeq(_)
            | Expression::Lookup(_)
            | Expression::LookupInv(_)
            | Expression::LookupDreg(_)
            | Expression::PayloadSet(_)
            | Expression::Dynset(..)
            | Expression::Limit { .. }
            | Expression::Counter
            | Expression::Notrack
            | Expression::Masquerade
            | Expression::Snat(_)
            | Expression::Verdict(_)
            | Expression::Other(_) => None,
        }
    }

    fn bytes(&self, base: usize, offset: u32, len: u32) -> Option<Register> {
        let start = base + offset as usize;
        Register::of(self.frame.bytes.get(start..start + len as usize)?)
    }

    fn is_used_up(&self, comment: &str, key: &[u8]) -> bool {
        let (table, chain) = (self.tables.name(), self.chain);
        (self.facts.used_up)(&BoundOf { table, chain, comment, key })
    }
}

fn bytes_of(family: Family) -> usize {
    match family {
        Family::V4 => 4,
        Family::V6 => 16,
    }
}
