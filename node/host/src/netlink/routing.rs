//! Devices, addresses, routes and rules (linux/rtnetlink.h, linux/if_link.h, linux/fib_rules.h).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::conversation::{Conversation, list_flags};
use super::message::{Attributes, Message, number};
use crate::error::KernelError;
use crate::found::{DeviceSetting, Route, RouteKind, Rule};
use crate::step::Step;

const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
/// Routes and rules have headers of one shape.
const ROUTE_BYTES: usize = 12;

const REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const CREATE: u16 = REQUEST | libc::NLM_F_CREATE as u16;
const CREATE_ANEW: u16 = CREATE | libc::NLM_F_EXCL as u16;
const CREATE_OR_REPLACE: u16 = CREATE | libc::NLM_F_REPLACE as u16;

const INET: u8 = libc::AF_INET as u8;
const INET6: u8 = libc::AF_INET6 as u8;

/// `IFLA_AF_SPEC`, in it a family, in it `IFLA_INET_CONF`: read as numbers in a row, written as
/// attributes.
const FAMILIES: u16 = 26;
const SETTINGS: u16 = 1;
/// `RTM_GETNETCONF`, `NETCONFA_IFINDEX` and `NETCONFA_FORWARDING`; -1 is all devices.
const GET_SETTINGS: u16 = 82;
const OF_DEVICE: u16 = 1;
const FORWARDING: u16 = 2;
const ALL_DEVICES: i32 = -1;

// Of rules (`FRA_...`).
const RULE_TO: u16 = 1;
const RULE_PREFERENCE: u16 = 6;
const RULE_SUPPRESSED_GROUP: u16 = 13;
const RULE_SUPPRESSED_PREFIX: u16 = 14;
const RULE_TABLE: u16 = 15;
const RULE_PADDING: u16 = 18;
const RULE_PROTOCOL: u16 = 21;
const RULE_LOOKUP: u8 = 1;

/// A device, as far as it concerns us.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) up: bool,
    pub(crate) mtu: u32,
    pub(crate) settings: BTreeMap<DeviceSetting, u32>,
}

/// An address of a device, with the network that it is in.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) device: u32,
    pub(crate) net: IpNet,
}

/// All devices of this machine.
pub(crate) fn read_devices(kernel: &mut Conversation) -> Result<Vec<Device>, KernelError> {
    let request = || Message::new(libc::RTM_GETLINK, list_flags(), &[0; LINK_BYTES]);
    kernel.list(request)?.iter().map(|message| device(message)).collect()
}

fn device(message: &[u8]) -> Result<Device, KernelError> {
    let attributes = Attributes::after(LINK_BYTES, message)?;
    let families = attributes.within(FAMILIES)?;
    let inet = families.within(INET.into())?;
    let in_a_row = inet.of(SETTINGS).unwrap_or_default();
    let value = |setting: DeviceSetting| {
        let at = (usize::from(setting_number(setting)) - 1) * 4;
        Some((setting, number(in_a_row.get(at..)?).map(u32::from_ne_bytes)?))
    };
    Ok(Device {
        index: number(&message[4..]).map_or(0, u32::from_ne_bytes),
        name: attributes.text(libc::IFLA_IFNAME).unwrap_or_default(),
        up: number(&message[8..]).map_or(0, u32::from_ne_bytes) & libc::IFF_UP as u32 != 0,
        mtu: attributes.u32(libc::IFLA_MTU).unwrap_or_default(),
        settings: DeviceSetting::ALL.into_iter().filter_map(value).collect(),
    })
}

/// All addresses of both families.
pub(crate) fn read_addresses(kernel: &mut Conversation) -> Result<Vec<Address>, KernelError> {
    let request = || Message::new(libc::RTM_GETADDR, list_flags(), &[0; ADDRESS_BYTES]);
    let messages = kernel.list(request)?;
    let found = messages.iter().map(|message| address(message));
    found.filter_map(Result::transpose).collect()
}

fn address(message: &[u8]) -> Result<Option<Address>, KernelError> {
    let attributes = Attributes::after(ADDRESS_BYTES, message)?;
    // On a line between two machines the other attribute is the one over there.
    let own = attributes.of(libc::IFA_LOCAL).or(attributes.of(libc::IFA_ADDRESS));
    let device = number(&message[4..]).map_or(0, u32::from_ne_bytes);
    Ok(net(message[0], message[1], own).map(|net| Address { device, net }))
}

/// Routes with this protocol, of IPv4.
pub(crate) fn own_routes(
    kernel: &mut Conversation,
    protocol: u8,
) -> Result<Vec<Route>, KernelError> {
    let mut routes = routes(kernel, INET, protocol)?;
    // An older kernel lists all of them.
    routes.retain(|route| route.protocol == protocol);
    Ok(routes)
}

/// All routes of both families.
pub(crate) fn all_routes(kernel: &mut Conversation) -> Result<Vec<Route>, KernelError> {
    Ok([routes(kernel, INET, 0)?, routes(kernel, INET6, 0)?].concat())
}

fn routes(kernel: &mut Conversation, family: u8, protocol: u8) -> Result<Vec<Route>, KernelError> {
    let mut header = [0; ROUTE_BYTES];
    (header[0], header[5]) = (family, protocol);
    let messages = kernel.list(|| Message::new(libc::RTM_GETROUTE, list_flags(), &header))?;
    messages.iter().map(|message| route(message)).filter_map(Result::transpose).collect()
}

fn route(message: &[u8]) -> Result<Option<Route>, KernelError> {
    let attributes = Attributes::after(ROUTE_BYTES, message)?;
    let family = message[0];
    let to = attributes.of(libc::RTA_DST).unwrap_or(&[0; 16]);
    let Some(net) = net(family, message[1], Some(to)) else { return Ok(None) };
    let one = |kind| attributes.of(kind).and_then(|bytes| whole(family, bytes));
    Ok(Some(Route {
        table: attributes.u32(libc::RTA_TABLE).unwrap_or(message[4].into()),
        net,
        metric: attributes.u32(libc::RTA_PRIORITY).unwrap_or(0),
        kind: match message[7] {
            libc::RTN_UNICAST => RouteKind::Unicast,
            libc::RTN_UNREACHABLE => RouteKind::Unreachable,
            other => RouteKind::Other(other),
        },
        device: attributes.u32(libc::RTA_OIF),
        gateway: one(libc::RTA_GATEWAY),
        source: one(libc::RTA_PREFSRC),
        protocol: message[5],
    }))
}

/// All routing rules of IPv4.
pub(crate) fn read_rules(kernel: &mut Conversation) -> Result<Vec<Rule>, KernelError> {
    let mut header = [0; ROUTE_BYTES];
    header[0] = INET;
    let messages = kernel.list(|| Message::new(libc::RTM_GETRULE, list_flags(), &header))?;
    messages.iter().map(|message| rule(message)).collect()
}

fn rule(message: &[u8]) -> Result<Rule, KernelError> {
    let attributes = Attributes::after(ROUTE_BYTES, message)?;
    let known = [RULE_TO, RULE_PREFERENCE, RULE_TABLE, RULE_PADDING, RULE_PROTOCOL];
    // The kernel says these of every rule; all bits set is without.
    let unset = [RULE_SUPPRESSED_GROUP, RULE_SUPPRESSED_PREFIX];
    let is_set = |kind| attributes.u32(kind).is_some_and(|value| value != u32::MAX);
    let [_, to_bytes, from_bytes, tos, .., action] = message[..8] else {
        return Err(KernelError::Garbled);
    };
    let flags = number(&message[8..]).map_or(0, u32::from_ne_bytes);
    Ok(Rule {
        preference: attributes.u32(RULE_PREFERENCE).unwrap_or(0),
        to: net(message[0], to_bytes, attributes.of(RULE_TO)),
        table: attributes.u32(RULE_TABLE).unwrap_or(message[4].into()),
        protocol: attributes
            .of(RULE_PROTOCOL)
            .map_or(0, |value| value.first().copied().unwrap_or(0)),
        is_plain: action == RULE_LOOKUP
            && (from_bytes, tos, flags) == (0, 0, 0)
            && !unset.into_iter().any(is_set)
            && !attributes.has_others(&[&known[..], &unset].concat()),
    })
}

/// Whether packets of IPv4 are forwarded at all.
pub(crate) fn read_forwarding(kernel: &mut Conversation) -> Result<bool, KernelError> {
    let mut request = Message::new(GET_SETTINGS, REQUEST, &[INET, 0, 0, 0]);
    request.put(OF_DEVICE, &ALL_DEVICES.to_ne_bytes());
    let answer = kernel.one(request)?;
    Ok(Attributes::after(4, &answer)?.u32(FORWARDING) == Some(1))
}

/// Does a step that concerns routing. What concerns packets is done elsewhere.
pub(crate) fn change(kernel: &mut Conversation, step: &Step) -> Result<(), KernelError> {
    let (message, done) = match step {
        Step::AddRoute(route) => {
            (route_message(libc::RTM_NEWROUTE, CREATE_OR_REPLACE, route), None)
        }
        Step::RemoveRoute(route) => {
            (route_message(libc::RTM_DELROUTE, REQUEST, route), Some(libc::ESRCH))
        }
        Step::AddRule(rule) => {
            (rule_message(libc::RTM_NEWRULE, CREATE_ANEW, rule), Some(libc::EEXIST))
        }
        Step::RemoveRule(rule) => {
            (rule_message(libc::RTM_DELRULE, REQUEST, rule), Some(libc::ENOENT))
        }
        Step::SetMtu { device, mtu } => {
            let mut message = device_message(*device, 0);
            message.put_u32(libc::IFLA_MTU, *mtu);
            (message, None)
        }
        Step::SetDevice { device, setting, value } => {
            let mut message = device_message(*device, 0);
            message.nest(FAMILIES, |message| {
                message.nest(INET.into(), |message| {
                    message.nest(SETTINGS, |message| {
                        message.put_u32(setting_number(*setting), *value);
                    });
                });
            });
            (message, None)
        }
        Step::SetUp { device } => (device_message(*device, libc::IFF_UP as u32), None),
        Step::AddAddress { device, address } => {
            (address_message(libc::RTM_NEWADDR, CREATE_ANEW, *device, *address), Some(libc::EEXIST))
        }
        Step::RemoveAddress { device, address } => (
            address_message(libc::RTM_DELADDR, REQUEST, *device, *address),
            Some(libc::EADDRNOTAVAIL),
        ),
        Step::ReplacePackets(_) | Step::ChangePods { .. } | Step::RemovePackets => return Ok(()),
    };
    // Somebody was faster, or a step is done again: it is as it should be.
    kernel.change(message).or_else(|error| match done {
        Some(number) if error.is(number) => Ok(()),
        Some(_) | None => Err(error),
    })
}

fn route_message(kind: u16, flags: u16, route: &Route) -> Message {
    let (scope, kind_of_route) = match route.kind {
        RouteKind::Unicast => (libc::RT_SCOPE_LINK, libc::RTN_UNICAST),
        RouteKind::Unreachable => (libc::RT_SCOPE_UNIVERSE, libc::RTN_UNREACHABLE),
        RouteKind::Other(other) => (libc::RT_SCOPE_UNIVERSE, other),
    };
    // What is removed may have any scope.
    let scope = if kind == libc::RTM_DELROUTE { libc::RT_SCOPE_NOWHERE } else { scope };
    let (family, prefix) = (family(route.net.addr()), route.net.prefix_len());
    let header = [family, prefix, 0, 0, 0, route.protocol, scope, kind_of_route, 0, 0, 0, 0];
    let mut message = Message::new(kind, flags, &header);
    message.put(libc::RTA_DST, &octets(route.net.addr()));
    message.put_u32(libc::RTA_TABLE, route.table);
    message.put_u32(libc::RTA_PRIORITY, route.metric);
    if let Some(device) = route.device {
        message.put_u32(libc::RTA_OIF, device);
    }
    if let Some(gateway) = route.gateway {
        message.put(libc::RTA_GATEWAY, &octets(gateway));
    }
    if let Some(source) = route.source {
        message.put(libc::RTA_PREFSRC, &octets(source));
    }
    message
}

fn rule_message(kind: u16, flags: u16, rule: &Rule) -> Message {
    let prefix = rule.to.map_or(0, |to| to.prefix_len());
    let family = rule.to.map_or(INET, |to| family(to.addr()));
    // What is removed may have any action.
    let action = if kind == libc::RTM_DELRULE { 0 } else { RULE_LOOKUP };
    let header = [family, prefix, 0, 0, 0, 0, 0, action, 0, 0, 0, 0];
    let mut message = Message::new(kind, flags, &header);
    if let Some(to) = rule.to {
        message.put(RULE_TO, &octets(to.addr()));
    }
    message.put_u32(RULE_PREFERENCE, rule.preference);
    message.put_u32(RULE_TABLE, rule.table);
    message.put(RULE_PROTOCOL, &[rule.protocol]);
    message
}

fn device_message(device: u32, flags: u32) -> Message {
    let mut header = [0; LINK_BYTES];
    header[4..8].copy_from_slice(&device.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&flags.to_ne_bytes());
    Message::new(libc::RTM_SETLINK, REQUEST, &header)
}

fn address_message(kind: u16, flags: u16, device: u32, address: IpNet) -> Message {
    let mut header = [0; ADDRESS_BYTES];
    (header[0], header[1]) = (family(address.addr()), address.prefix_len());
    header[4..].copy_from_slice(&device.to_ne_bytes());
    let mut message = Message::new(kind, flags, &header);
    message.put(libc::IFA_LOCAL, &octets(address.addr()));
    message.put(libc::IFA_ADDRESS, &octets(address.addr()));
    message
}

/// Which of the device's settings it is (`IPV4_DEVCONF_...`, linux/ip.h).
fn setting_number(setting: DeviceSetting) -> u16 {
    match setting {
        DeviceSetting::Forwarding => 1,
        DeviceSetting::AcceptRedirects => 4,
        DeviceSetting::SendRedirects => 6,
        DeviceSetting::ReversePath => 8,
    }
}

fn net(family: u8, prefix: u8, address: Option<&[u8]>) -> Option<IpNet> {
    IpNet::new(whole(family, address?)?, prefix).ok()
}

fn whole(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        INET => Some(Ipv4Addr::from(number::<4>(bytes)?).into()),
        INET6 => Some(Ipv6Addr::from(number::<16>(bytes)?).into()),
        _ => None,
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { INET } else { INET6 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
