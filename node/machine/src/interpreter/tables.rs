//! A table of either kind, and what rules look up in it.

use std::net::IpAddr;

use super::error::InterpretError;
use super::register::Register;
use crate::family::Family;
use crate::packets::{AddressMap, FrameTable, PacketRule, Table};

/// A table of either kind.
#[derive(Clone, Copy)]
pub(super) enum Tables<'a> {
    Frames(&'a FrameTable),
    Packets(&'a Table),
}

impl<'a> Tables<'a> {
    pub(super) fn name(self) -> &'a str {
        match self {
            Self::Frames(table) => &table.name,
            Self::Packets(table) => &table.name,
        }
    }

    pub(super) fn chains(self) -> usize {
        match self {
            Self::Frames(table) => table.chains.len(),
            Self::Packets(table) => table.chains.len(),
        }
    }

    pub(super) fn rules(self, chain: &str) -> Result<&'a [PacketRule], InterpretError> {
        let rules = match self {
            Self::Frames(table) => table.chains.get(chain).map(|chain| &*chain.rules),
            Self::Packets(table) => table.chains.get(chain).map(|chain| &*chain.rules),
        };
        rules.ok_or_else(|| self.missing(chain))
    }

    /// Whether what is loaded is in a set, or in a network of one; none: it is of another family.
    pub(super) fn has(
        self,
        set: &str,
        register: &Register,
    ) -> Result<Option<bool>, InterpretError> {
        let (sets, nets, family) = match self {
            Self::Frames(table) => (&table.sets, &table.nets, None),
            Self::Packets(table) => (&table.sets, &table.nets, Some(table.family)),
        };
        let Some(address) = register.address() else { return Ok(None) };
        // Of frames none is empty, and each is of the family of its members.
        let is_of = |first: Option<IpAddr>| {
            let of = family.or(first.map(Family::of));
            of.is_none_or(|family| family == Family::of(address))
        };
        if let Some(set) = sets.get(set) {
            return Ok(is_of(set.first().copied()).then(|| set.contains(&address)));
        }
        let nets = nets.get(set).ok_or_else(|| self.missing(set))?;
        let is_within = || nets.iter().any(|net| net.contains(&address));
        Ok(is_of(nets.first().map(|net| net.addr())).then(is_within))
    }

    pub(super) fn map(self, map: &str) -> Result<&'a AddressMap, InterpretError> {
        let found = match self {
            Self::Frames(table) => table.maps.get(map),
            Self::Packets(_) => None,
        };
        found.ok_or_else(|| self.missing(map))
    }

    /// How long a key of a tally is, in bytes.
    pub(super) fn key_of(self, tally: &str) -> Result<usize, InterpretError> {
        match self {
            Self::Packets(table) if table.tallies.contains_key(tally) => match table.family {
                Family::V4 => Ok(4),
                Family::V6 => Ok(16),
            },
            Self::Packets(_) | Self::Frames(_) => Err(self.missing(tally)),
        }
    }

    fn missing(self, name: &str) -> InterpretError {
        InterpretError::Missing { table: self.name().to_owned(), name: name.to_owned() }
    }
}
