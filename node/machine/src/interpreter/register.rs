//! The one register that our rules work on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// As many bytes as `NFT_REG_1` has.
const BYTES: usize = 16;

/// What is loaded, and how much of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Register {
    bytes: [u8; BYTES],
    length: usize,
}

impl Register {
    /// Loads these bytes; none: they are more than there is room for.
    pub(super) fn of(value: &[u8]) -> Option<Self> {
        let mut bytes = [0; BYTES];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(Self { bytes, length: value.len() })
    }

    /// Loads the name of a device, filled up with zeros.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let register = Self::of(name.as_bytes())?;
        Some(Self { length: BYTES, ..register })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Keeps the bits of a mask that is as long as what is loaded; none: it is longer.
    pub(super) fn masked(mut self, mask: &[u8]) -> Option<Self> {
        if mask.len() > self.length {
            return None;
        }
        self.bytes.iter_mut().zip(mask).for_each(|(byte, bits)| *byte &= bits);
        self.length = mask.len();
        Some(self)
    }

    /// Whether it begins with these bytes; none: fewer are loaded.
    pub(super) fn is(&self, value: &[u8]) -> Option<bool> {
        (value.len() <= self.length).then(|| self.bytes[..value.len()] == *value)
    }

    /// The address that is loaded, if it is as long as one.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let four = <[u8; 4]>::try_from(self.bytes()).map(|bytes| Ipv4Addr::from(bytes).into());
        let six = || <[u8; 16]>::try_from(self.bytes()).map(|bytes| Ipv6Addr::from(bytes).into());
        four.or_else(|_| six()).ok()
    }
}
