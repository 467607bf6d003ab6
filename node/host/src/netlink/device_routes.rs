//! Routes of IPv4 by one device, whoever made them and with whatever they have: as they were read they
//! are made anew, but for the source of what goes by them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::conversation::{Change, Conversation, list_flags};
use super::message::{Attributes, CREATE, INET, Message, REQUEST, number};
use crate::error::KernelError;

const HEADER_BYTES: usize = 12;
const FLAGS: usize = 8;
const APPEND: u16 = CREATE | libc::NLM_F_APPEND as u16;
/// The next machine is behind the device, whatever other routes say (`RTNH_F_ONLINK`).
const ONLINK: u32 = 4;
/// A next machine of another family (`RTA_VIA`).
const VIA: u16 = 18;

/// A route as the kernel says it, without what changes by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceRoute {
    header: [u8; HEADER_BYTES],
    attributes: BTreeMap<u16, Vec<u8>>,
}

/// Those of the main table by this device that lead somewhere.
pub(crate) fn routes_of_device(
    kernel: &mut Conversation,
    device: u32,
) -> Result<Vec<DeviceRoute>, KernelError> {
    let mut header = [0; HEADER_BYTES];
    header[0] = INET;
    let messages = kernel.list(|| Message::new(libc::RTM_GETROUTE, list_flags(), &header))?;
    let mut found = Vec::new();
    for message in messages {
        let attributes = Attributes::after(HEADER_BYTES, &message)?;
        let table = attributes.u32(libc::RTA_TABLE).unwrap_or(message[4].into());
        let is_of_it = table == u32::from(libc::RT_TABLE_MAIN)
            && message[7] == libc::RTN_UNICAST
            && attributes.u32(libc::RTA_OIF) == Some(device);
        if is_of_it {
            found.push(DeviceRoute::read(&message, &attributes)?);
        }
    }
    Ok(found)
}

impl DeviceRoute {
    fn read(message: &[u8], attributes: &Attributes<'_>) -> Result<Self, KernelError> {
        let mut header: [u8; HEADER_BYTES] = number(message).ok_or(KernelError::Garbled)?;
        // The others say how it is now, as that the device has no carrier.
        let flags = number(&header[FLAGS..]).map_or(0, u32::from_ne_bytes) & ONLINK;
        header[FLAGS..].copy_from_slice(&flags.to_ne_bytes());
        let kept = attributes.each().filter(|(kind, _)| *kind != libc::RTA_CACHEINFO);
        let attributes = kept.map(|(kind, value)| (kind, value.to_vec())).collect();
        Ok(Self { header, attributes })
    }

    /// The same for whoever sends as this. The next machine is reached without a route to it, which
    /// may have gone with another address.
    pub(crate) fn with_source(&self, source: Ipv4Addr) -> Self {
        let mut route = self.clone();
        route.attributes.insert(libc::RTA_PREFSRC, source.octets().to_vec());
        if [libc::RTA_GATEWAY, VIA].iter().any(|kind| route.attributes.contains_key(kind)) {
            route.header[FLAGS..].copy_from_slice(&ONLINK.to_ne_bytes());
        }
        route
    }

    fn message(&self, kind: u16, flags: u16) -> Message {
        let mut message = Message::new(kind, flags, &self.header);
        for (kind, value) in &self.attributes {
            message.put(*kind, value);
        }
        message
    }
}

/// Makes a route, behind others to the same network.
pub(crate) fn append_route(route: &DeviceRoute) -> Change {
    Change { message: route.message(libc::RTM_NEWROUTE, APPEND), done: Some(libc::EEXIST) }
}

/// Removes a route, and none that has another source.
pub(crate) fn remove_exact_route(route: &DeviceRoute) -> Change {
    Change { message: route.message(libc::RTM_DELROUTE, REQUEST), done: Some(libc::ESRCH) }
}
