//! Devices (linux/if_link.h): what they are, what is set at them, and the one of the overlay, which
//! is made and removed here.

use std::collections::BTreeMap;

use super::conversation::{Change, Conversation, list_flags};
use super::message::{
    Attributes, CREATE_ANEW, INET, INET6, Message, REQUEST, family_number, number, octets, whole,
};
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::Mac;
use mercato_machine::{DeviceSetting, Vxlan};

/// The header of what is said of a device (`struct ifinfomsg`).
pub(super) const LINK_BYTES: usize = 16;

/// `IFLA_AF_SPEC`, in it a family. In that of IPv4 `IFLA_INET_CONF`: read as numbers in a row,
/// written as attributes. In that of IPv6 `IFLA_INET6_ADDR_GEN_MODE`: of its other settings the
/// kernel takes none but a token by netlink.
const FAMILIES: u16 = 26;
const SETTINGS: u16 = 1;
const ADDRESS_GENERATION: u16 = 8;
/// `RTM_GETNETCONF`, `NETCONFA_IFINDEX` and `NETCONFA_FORWARDING`; -1 is all devices.
const GET_SETTINGS: u16 = 82;
const OF_DEVICE: u16 = 1;
const FORWARDING: u16 = 2;
const ALL_DEVICES: i32 = -1;

/// The kind of a device that other machines are behind, and of one that nobody is behind
/// (`IFLA_INFO_KIND`).
const VXLAN: &str = "vxlan";
const DUMMY: &str = "dummy";
/// The kind of a device whose other end is a device as well, maybe elsewhere.
pub(super) const PAIR: &str = "veth";
// Of VXLAN (`IFLA_VXLAN_...`).
const VNI: u16 = 1;
const GROUP: u16 = 2;
const LINK: u16 = 3;
const LOCAL: u16 = 4;
const LOCAL_V6: u16 = 17;
const TTL: u16 = 5;
const LEARNING: u16 = 7;
const ANSWERS_ARP: u16 = 11;
const SHORT_CUTS: u16 = 12;
const TELLS_L2_MISSES: u16 = 13;
const TELLS_L3_MISSES: u16 = 14;
const PORT: u16 = 15;
const GROUP_V6: u16 = 16;
const SENDS_NO_CHECKSUMS: u16 = 19;
const TAKES_NO_CHECKSUMS: u16 = 20;
const POLICIES: u16 = 23;
const METADATA: u16 = 25;
const OTHER_PROTOCOLS: u16 = 27;
const INHERITS_TTL: u16 = 28;
const DO_NOT_FRAGMENT: u16 = 29;
/// As many machines as anybody crosses between two nodes; most systems have it for all they send.
const HOPS: u8 = 64;
/// Neighbours are entries alone: none is asked for, and nobody is answered or believed.
const WITHOUT_ARP: u32 = libc::IFF_NOARP as u32;
/// Names of neighbours that everybody is told, which there are none of.
const MULTICAST: u32 = libc::IFF_MULTICAST as u32;

/// A device, as far as it concerns us.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) up: bool,
    pub(crate) mtu: u32,
    /// Whether packets come by it from elsewhere at all.
    pub(crate) has_others: bool,
    pub(crate) is_loopback: bool,
    /// Its own address in frames, where it has one of Ethernet.
    pub(crate) mac: Option<Mac>,
    /// Whether it is one end of two.
    pub(crate) is_pair: bool,
    /// The index of the other end, or of what is below it.
    pub(crate) link: Option<u32>,
    /// The number of the namespace where that is, if it is another one.
    pub(crate) link_namespace: Option<u32>,
    /// The index of the bridge that it is a port of.
    pub(crate) bridge: Option<u32>,
    pub(crate) settings: BTreeMap<DeviceSetting, u32>,
    pub(crate) vxlan: Option<Vxlan>,
}

/// All devices of this machine.
pub(crate) fn read_devices(kernel: &mut Conversation) -> Result<Vec<Device>, KernelError> {
    let request = || Message::new(libc::RTM_GETLINK, list_flags(), &[0; LINK_BYTES]);
    kernel.list(request)?.iter().map(|message| device(message)).collect()
}

/// One device of this machine, by its index, if it is there.
pub(crate) fn read_device(
    kernel: &mut Conversation,
    index: u32,
) -> Result<Option<Device>, KernelError> {
    let mut header = [0; LINK_BYTES];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    match kernel.one(Message::new(libc::RTM_GETLINK, REQUEST, &header)) {
        Ok(message) => device(&message).map(Some),
        Err(error) if error.is(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

fn device(message: &[u8]) -> Result<Device, KernelError> {
    let attributes = Attributes::after(LINK_BYTES, message)?;
    let flags = number(&message[8..]).map_or(0, u32::from_ne_bytes);
    let is_loopback = flags & libc::IFF_LOOPBACK as u32 != 0;
    let families = attributes.within(FAMILIES)?;
    let inet = families.within(INET.into())?;
    let in_a_row = inet.of(SETTINGS).unwrap_or_default();
    let inet6 = families.within(INET6.into())?;
    let value = |setting: DeviceSetting| {
        let value = match setting_number(setting) {
            Some(number_of) => {
                let at = (usize::from(number_of) - 1) * 4;
                number(in_a_row.get(at..)?).map(u32::from_ne_bytes)?
            }
            None => u32::from(*inet6.of(ADDRESS_GENERATION)?.first()?),
        };
        Some((setting, value))
    };
    let about = attributes.within(libc::IFLA_LINKINFO)?;
    let kind = about.text(libc::IFLA_INFO_KIND);
    let mac = attributes.of(libc::IFLA_ADDRESS).and_then(number).map(Mac);
    let vxlan = match (kind.as_deref(), mac) {
        (Some(VXLAN), Some(mac)) => vxlan(&about.within(libc::IFLA_INFO_DATA)?, flags, mac),
        _ => None,
    };
    Ok(Device {
        index: number(&message[4..]).map_or(0, u32::from_ne_bytes),
        name: attributes.text(libc::IFLA_IFNAME).unwrap_or_default(),
        up: flags & libc::IFF_UP as u32 != 0,
        mtu: attributes.u32(libc::IFLA_MTU).unwrap_or_default(),
        has_others: !is_loopback && kind.as_deref() != Some(DUMMY),
        is_loopback,
        mac,
        is_pair: kind.as_deref() == Some(PAIR),
        link: attributes.u32(libc::IFLA_LINK),
        link_namespace: attributes.u32(libc::IFLA_LINK_NETNSID),
        bridge: attributes.u32(libc::IFLA_MASTER),
        settings: DeviceSetting::ALL.into_iter().filter_map(value).collect(),
        vxlan,
    })
}

fn vxlan(attributes: &Attributes<'_>, flags: u32, mac: Mac) -> Option<Vxlan> {
    let byte = |kind| attributes.of(kind).map_or(0, |value| value.first().copied().unwrap_or(0));
    let off = [
        LEARNING,
        ANSWERS_ARP,
        SHORT_CUTS,
        TELLS_L2_MISSES,
        TELLS_L3_MISSES,
        METADATA,
        SENDS_NO_CHECKSUMS,
        TAKES_NO_CHECKSUMS,
    ];
    let is_missing = |kind: &u16| attributes.of(*kind).is_none();
    // A kernel that does not know the last one (before 5.0) says nothing of it.
    let is_plain = off.iter().chain([&INHERITS_TTL]).all(|kind| byte(*kind) == 0)
        && [GROUP, GROUP_V6, POLICIES, OTHER_PROTOCOLS].iter().all(is_missing)
        && attributes.u32(LINK).unwrap_or(0) == 0
        && byte(TTL) == HOPS
        && flags & (WITHOUT_ARP | MULTICAST) == WITHOUT_ARP
        && (is_missing(&DO_NOT_FRAGMENT) || byte(DO_NOT_FRAGMENT) == 1);
    Some(Vxlan {
        vni: attributes.u32(VNI)?,
        port: attributes.of(PORT).and_then(number).map(u16::from_be_bytes)?,
        local: attributes
            .of(LOCAL)
            .and_then(|bytes| whole(INET, bytes))
            .or(attributes.of(LOCAL_V6).and_then(|bytes| whole(INET6, bytes)))?,
        mac,
        is_plain,
    })
}

/// The families that there are, and whether packets of each are forwarded at all.
pub(crate) fn read_forwarding(
    kernel: &mut Conversation,
) -> Result<BTreeMap<Family, bool>, KernelError> {
    let mut found = BTreeMap::new();
    for family in Family::ALL {
        let mut request = Message::new(GET_SETTINGS, REQUEST, &[family_number(family), 0, 0, 0]);
        request.put(OF_DEVICE, &ALL_DEVICES.to_ne_bytes());
        match kernel.one(request) {
            Ok(answer) => {
                let is_on = Attributes::after(4, &answer)?.u32(FORWARDING) == Some(1);
                found.insert(family, is_on);
            }
            // A kernel without this family has nobody to ask about it.
            Err(error)
                if [libc::EOPNOTSUPP, libc::EAFNOSUPPORT].map(|no| error.is(no)) != [false; 2] => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Makes a device of VXLAN, which is not set up yet.
pub(crate) fn add_vxlan(index: u32, name: &str, mtu: u32, vxlan: &Vxlan) -> Change {
    let header = header(index, WITHOUT_ARP, WITHOUT_ARP | MULTICAST);
    let mut message = Message::new(libc::RTM_NEWLINK, CREATE_ANEW, &header);
    message.put_text(libc::IFLA_IFNAME, name);
    message.put_u32(libc::IFLA_MTU, mtu);
    message.put(libc::IFLA_ADDRESS, &vxlan.mac.0);
    message.nest(libc::IFLA_LINKINFO, |message| {
        message.put_text(libc::IFLA_INFO_KIND, VXLAN);
        message.nest(libc::IFLA_INFO_DATA, |message| {
            message.put_u32(VNI, vxlan.vni);
            let kind = if vxlan.local.is_ipv4() { LOCAL } else { LOCAL_V6 };
            message.put(kind, &octets(vxlan.local));
            message.put(TTL, &[HOPS]);
            message.put(LEARNING, &[0]);
            message.put(PORT, &vxlan.port.to_be_bytes());
            message.put_u32(DO_NOT_FRAGMENT, 1);
        });
    });
    Change { message, done: Some(libc::EEXIST) }
}

/// Removes a device, with all that leads to it.
pub(crate) fn remove_device(device: u32) -> Change {
    let message = Message::new(libc::RTM_DELLINK, REQUEST, &header(device, 0, 0));
    Change { message, done: Some(libc::ENODEV) }
}

/// Sets the MTU of a device.
pub(crate) fn set_mtu(device: u32, mtu: u32) -> Change {
    let mut message = set(device, 0);
    message.put_u32(libc::IFLA_MTU, mtu);
    Change { message, done: None }
}

/// Sets what a device does with packets of a family.
pub(crate) fn set_device(device: u32, setting: DeviceSetting, value: u32) -> Change {
    let mut message = set(device, 0);
    let family = family_number(setting.family());
    message.nest(FAMILIES, |message| {
        message.nest(family.into(), |message| match setting_number(setting) {
            Some(number) => message.nest(SETTINGS, |message| message.put_u32(number, value)),
            None => message.put(ADDRESS_GENERATION, &[value as u8]),
        });
    });
    Change { message, done: None }
}

/// Sets a device up, for packets.
pub(crate) fn set_up(device: u32) -> Change {
    Change { message: set(device, libc::IFF_UP as u32), done: None }
}

fn set(device: u32, flags: u32) -> Message {
    Message::new(libc::RTM_SETLINK, REQUEST, &header(device, flags, flags))
}

/// Of flags, those that are changed are said.
fn header(device: u32, flags: u32, changed: u32) -> [u8; LINK_BYTES] {
    let mut header = [0; LINK_BYTES];
    header[4..8].copy_from_slice(&device.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&changed.to_ne_bytes());
    header
}

/// Which of the device's settings of IPv4 it is, if it is one (`IPV4_DEVCONF_...`, linux/ip.h).
fn setting_number(setting: DeviceSetting) -> Option<u16> {
    match setting {
        DeviceSetting::Forwarding => Some(1),
        DeviceSetting::AcceptRedirects => Some(4),
        DeviceSetting::SendRedirects => Some(6),
        DeviceSetting::ReversePath => Some(8),
        DeviceSetting::AddressGeneration => None,
    }
}
