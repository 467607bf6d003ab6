//! Messages and their attributes (linux/netlink.h): each attribute is a length, a kind and a value,
//! filled up to four bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::KernelError;
use mercato_machine::Family;

/// What is asked, what makes something, and what does so alone where, or although, it is there.
pub(super) const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
pub(super) const CREATE: u16 = REQUEST | libc::NLM_F_CREATE as u16;
pub(super) const CREATE_ANEW: u16 = CREATE | libc::NLM_F_EXCL as u16;
pub(super) const CREATE_OR_REPLACE: u16 = CREATE | libc::NLM_F_REPLACE as u16;

/// The families of addresses that there are.
pub(super) const INET: u8 = libc::AF_INET as u8;
pub(super) const INET6: u8 = libc::AF_INET6 as u8;

/// A length, a kind, flags, a sequence number and the sender's port (`struct nlmsghdr`).
pub(super) const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const NESTED: u16 = 1 << 15;
/// Of an attribute's kind, what is not a flag.
const KIND: u16 = !(3 << 14);

/// A message that is being written.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A message with the header of its family.
    pub(super) fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(header);
        let mut message = Self { bytes };
        message.fill_up();
        message
    }

    /// Adds an attribute of some bytes.
    pub(super) fn put(&mut self, kind: u16, value: &[u8]) {
        self.attribute(kind, |message| message.bytes.extend_from_slice(value));
    }

    /// Adds the header that stands before attributes, inside of one.
    pub(super) fn put_header(&mut self, header: &[u8]) {
        self.bytes.extend_from_slice(header);
        self.fill_up();
    }

    /// Adds a text, with the zero that ends it.
    pub(super) fn put_text(&mut self, kind: u16, text: &str) {
        self.put(kind, &[text.as_bytes(), &[0]].concat());
    }

    /// Adds a number in the machine's order, as routing has it.
    pub(super) fn put_u32(&mut self, kind: u16, number: u32) {
        self.put(kind, &number.to_ne_bytes());
    }

    /// Adds a number in the network's order, as nf_tables has it.
    pub(super) fn put_be32(&mut self, kind: u16, number: u32) {
        self.put(kind, &number.to_be_bytes());
    }

    /// Adds a larger number in the network's order.
    pub(super) fn put_be64(&mut self, kind: u16, number: u64) {
        self.put(kind, &number.to_be_bytes());
    }

    /// Adds an attribute that has others in it.
    pub(super) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        self.attribute(kind | NESTED, fill);
    }

    /// Adds an attribute that has others in it, as it was read.
    pub(super) fn put_nested(&mut self, kind: u16, value: &[u8]) {
        self.put(kind | NESTED, value);
    }

    /// The bytes, once the message has its number.
    pub(super) fn numbered(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }

    /// Asks for an answer even if there is nothing to say.
    pub(super) fn acknowledged(mut self) -> Self {
        let flags = number::<2>(&self.bytes[6..]).map_or(0, u16::from_ne_bytes);
        let flags = flags | libc::NLM_F_ACK as u16;
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self
    }

    fn attribute(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; ATTRIBUTE_HEADER_BYTES]);
        fill(self);
        let length = self.bytes.len() - start;
        let length = u16::try_from(length).expect("limits.rs keeps attributes below 64 KiB");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&kind.to_ne_bytes());
        self.fill_up();
    }

    fn fill_up(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// The attributes of a message, or of one of its attributes.
#[derive(Debug)]
pub(super) struct Attributes<'a>(Vec<(u16, &'a [u8])>);

impl<'a> Attributes<'a> {
    /// Reads all that these bytes have.
    pub(super) fn read(mut bytes: &'a [u8]) -> Result<Self, KernelError> {
        let mut attributes = Vec::new();
        while bytes.len() >= ATTRIBUTE_HEADER_BYTES {
            let length = usize::from(number(bytes).map_or(0, u16::from_ne_bytes));
            let kind = number(&bytes[2..]).map_or(0, u16::from_ne_bytes) & KIND;
            let value = bytes.get(ATTRIBUTE_HEADER_BYTES..length).ok_or(KernelError::Garbled)?;
            attributes.push((kind, value));
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(Self(attributes))
    }

    /// Reads those that follow the header of a message's family.
    pub(super) fn after(header_bytes: usize, message: &'a [u8]) -> Result<Self, KernelError> {
        Self::read(message.get(header_bytes..).ok_or(KernelError::Garbled)?)
    }

    /// Whether there is none of any kind.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first of a kind.
    pub(super) fn of(&self, kind: u16) -> Option<&'a [u8]> {
        self.all(kind).next()
    }

    /// Each of a kind, in order.
    pub(super) fn all(&self, kind: u16) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.0.iter().filter(move |(other, _)| *other == kind).map(|(_, value)| *value)
    }

    /// All of them, each with its kind.
    pub(super) fn each(&self) -> impl Iterator<Item = (u16, &'a [u8])> + '_ {
        self.0.iter().copied()
    }

    /// Whether there are others than of these kinds.
    pub(super) fn has_others(&self, kinds: &[u16]) -> bool {
        self.0.iter().any(|(kind, _)| !kinds.contains(kind))
    }

    /// What is in the first of a kind; nothing where it is missing.
    pub(super) fn within(&self, kind: u16) -> Result<Self, KernelError> {
        Self::read(self.of(kind).unwrap_or_default())
    }

    /// A number in the machine's order.
    pub(super) fn u32(&self, kind: u16) -> Option<u32> {
        number(self.of(kind)?).map(u32::from_ne_bytes)
    }

    /// A number in the network's order.
    pub(super) fn be32(&self, kind: u16) -> Option<u32> {
        number(self.of(kind)?).map(u32::from_be_bytes)
    }

    /// A larger number in the network's order.
    pub(super) fn be64(&self, kind: u16) -> Option<u64> {
        number(self.of(kind)?).map(u64::from_be_bytes)
    }

    /// A text, without the zero that ends it.
    pub(super) fn text(&self, kind: u16) -> Option<String> {
        let bytes = self.of(kind)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// The family of an address, as messages have it.
pub(super) fn family(address: IpAddr) -> u8 {
    family_number(Family::of(address))
}

/// What messages have for a family (`AF_...`).
pub(super) fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => INET,
        Family::V6 => INET6,
    }
}

/// An address as it stands in a message.
pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The address that these bytes are, in a family.
pub(super) fn whole(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        INET => Some(Ipv4Addr::from(number::<4>(bytes)?).into()),
        INET6 => Some(Ipv6Addr::from(number::<16>(bytes)?).into()),
        _ => None,
    }
}

/// The address that these bytes are, where their number says which family it is of.
pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    whole(if bytes.len() == 4 { INET } else { INET6 }, bytes)
}

/// The first bytes of some.
pub(super) fn number<const BYTES: usize>(bytes: &[u8]) -> Option<[u8; BYTES]> {
    bytes.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut message = Message::new(7, 1, &[1, 2, 3, 4]);
        message.put_text(1, "ab");
        message.nest(2, |message| {
            message.put_u32(3, 9);
            message.put_be32(4, 10);
        });
        let bytes = message.acknowledged().numbered(5);
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(number(&bytes).map(u32::from_ne_bytes), Some(bytes.len() as u32));
        assert_eq!(number(&bytes[6..]).map(u16::from_ne_bytes), Some(1 | libc::NLM_F_ACK as u16));
        let read = Attributes::after(HEADER_BYTES + 4, &bytes).unwrap();
        assert_eq!(read.text(1).as_deref(), Some("ab"));
        let inner = read.within(2).unwrap();
        assert_eq!((inner.u32(3), inner.be32(4), inner.of(5)), (Some(9), Some(10), None));
        assert!(inner.has_others(&[3]) && !inner.has_others(&[3, 4]));
    }

    #[test]
    fn a_length_that_cannot_be_is_an_error() {
        for length in [0_u16, 3, 9, 65_535] {
            let bytes = [&length.to_ne_bytes()[..], &[1, 0, 0, 0, 0, 0]].concat();
            let read = Attributes::read(&bytes);
            assert!(matches!(read, Err(KernelError::Garbled)), "{length}");
        }
    }
}
