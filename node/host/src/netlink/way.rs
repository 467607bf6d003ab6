//! By which way this machine reaches an address, and as what it knows the namespaces of others.

use std::net::IpAddr;
use std::os::fd::RawFd;

use super::conversation::Conversation;
use super::message::{Attributes, Message, REQUEST, family, number, octets};
use crate::error::KernelError;

/// `RTM_GETNSID`, `NETNSA_NSID` and `NETNSA_FD` (linux/net_namespace.h); -1 is none.
const GET_NAMESPACE: u16 = 90;
const NAMESPACE: u16 = 1;
const BY_FILE: u16 = 3;
const NAMESPACE_BYTES: usize = 4;
const ROUTE_BYTES: usize = 12;

/// Where packets to an address go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteTo {
    /// They leave by this device, by its index.
    Device(u32),
    /// They are this machine's own.
    Itself,
    /// No route leads there.
    Nowhere,
}

/// Where what this machine sends to an address would go.
pub(crate) fn route_to(kernel: &mut Conversation, address: IpAddr) -> Result<RouteTo, KernelError> {
    let bytes = octets(address);
    let mut header = [0; ROUTE_BYTES];
    (header[0], header[1]) = (family(address), (bytes.len() * 8) as u8);
    let mut request = Message::new(libc::RTM_GETROUTE, REQUEST, &header);
    request.put(libc::RTA_DST, &bytes);
    let answer = match kernel.one(request) {
        Ok(answer) => answer,
        Err(error) if [libc::ENETUNREACH, libc::EHOSTUNREACH].iter().any(|no| error.is(*no)) => {
            return Ok(RouteTo::Nowhere);
        }
        Err(error) => return Err(error),
    };
    let attributes = Attributes::after(ROUTE_BYTES, &answer)?;
    Ok(match (answer[7], attributes.u32(libc::RTA_OIF)) {
        (libc::RTN_LOCAL, _) => RouteTo::Itself,
        (libc::RTN_UNICAST, Some(device)) => RouteTo::Device(device),
        _ => RouteTo::Nowhere,
    })
}

/// By which number devices of this namespace say that one, if it has any.
pub(crate) fn id_of_namespace(
    kernel: &mut Conversation,
    file: RawFd,
) -> Result<Option<u32>, KernelError> {
    let mut request = Message::new(GET_NAMESPACE, REQUEST, &[0; NAMESPACE_BYTES]);
    request.put(BY_FILE, &file.to_ne_bytes());
    let answer = kernel.one(request)?;
    let id = Attributes::after(NAMESPACE_BYTES, &answer)?.of(NAMESPACE).and_then(number);
    Ok(id.map(i32::from_ne_bytes).and_then(|id| u32::try_from(id).ok()))
}
