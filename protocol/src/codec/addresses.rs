//! How addresses of networks travel: as bytes, in the one form that each has. An IPv4 address in
//! the form of IPv6 and a range with bits of a host are refused.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::error::{CodecError, ensure};
use super::fields::Fields;
use super::reader::Reader;
use super::wire::Wire;
use super::writer::Writer;

/// The bytes of an address: four, or sixteen.
impl Wire for IpAddr {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::V4(address) => to.bytes(&address.octets()),
            Self::V6(address) => to.bytes(&address.octets()),
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let bytes = from.bytes(16)?;
        if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
            return Ok(Self::from(bytes));
        }
        let bytes = <[u8; 16]>::try_from(bytes);
        let address = Self::from(bytes.map_err(|_| CodecError::Expected("4 or 16 bytes"))?);
        ensure(address.to_canonical() == address, "an IPv4 address in the form of IPv6")?;
        Ok(address)
    }
}

/// A struct of two: `{1 address, 2 length of the prefix}`.
impl Wire for IpNet {
    fn encode(&self, to: &mut Writer) {
        to.map(2);
        to.uint(1);
        self.addr().encode(to);
        to.uint(2);
        to.uint(u64::from(self.prefix_len()));
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut fields = Fields::read(from)?;
        let (address, length): (IpAddr, u64) = (fields.take(1)?, fields.take(2)?);
        fields.finish()?;
        let range = u8::try_from(length).ok().and_then(|length| Self::new(address, length).ok());
        let range = range.ok_or(CodecError::Invalid("a prefix longer than its address"))?;
        ensure(range.trunc() == range, "a range with bits of a host")?;
        Ok(range)
    }
}

/// A struct of two: `{1 address, 2 port}`.
impl Wire for SocketAddr {
    fn encode(&self, to: &mut Writer) {
        to.map(2);
        to.uint(1);
        self.ip().encode(to);
        to.uint(2);
        to.uint(u64::from(self.port()));
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut fields = Fields::read(from)?;
        let (address, port): (IpAddr, u64) = (fields.take(1)?, fields.take(2)?);
        fields.finish()?;
        let port = u16::try_from(port).map_err(|_| CodecError::Invalid("no such port"))?;
        Ok(Self::new(address, port))
    }
}
