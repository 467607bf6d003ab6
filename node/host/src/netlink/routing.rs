//! Addresses, routes and rules (linux/rtnetlink.h, linux/fib_rules.h).

use ipnet::IpNet;

use super::conversation::{Change, Conversation, list_flags};
use super::message::{
    Attributes, CREATE_ANEW, CREATE_OR_REPLACE, Message, REQUEST, family, family_number, number,
    octets, whole,
};
use crate::error::KernelError;
use mercato_machine::Family;
use mercato_machine::{Route, RouteKind, Rule};

const ADDRESS_BYTES: usize = 8;
/// Routes and rules have headers of one shape.
const ROUTE_BYTES: usize = 12;

/// The next machine is behind the device, whatever other routes say (`RTNH_F_ONLINK`).
const ONLINK: u32 = 4;

/// Of IPv6 addresses: nobody is asked whether he has it, so that it may be used at once, and there
/// is no route to a network around it.
const SETTLED: u32 = libc::IFA_F_NODAD | libc::IFA_F_NOPREFIXROUTE;

// Of rules (`FRA_...`).
const RULE_TO: u16 = 1;
const RULE_FROM: u16 = 2;
const RULE_FROM_DEVICE: u16 = 3;
const RULE_PREFERENCE: u16 = 6;
const RULE_SUPPRESSED_GROUP: u16 = 13;
const RULE_SUPPRESSED_PREFIX: u16 = 14;
const RULE_TABLE: u16 = 15;
const RULE_PADDING: u16 = 18;
const RULE_PROTOCOL: u16 = 21;
const RULE_LOOKUP: u8 = 1;
/// There is no device of that name now (`FIB_RULE_IIF_DETACHED`): that is no condition.
const RULE_WAITS_FOR_DEVICE: u32 = 8;

/// An address of a device, with the network that it is in.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) device: u32,
    pub(crate) net: IpNet,
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

/// Routes of a family with this protocol.
pub(crate) fn own_routes(
    kernel: &mut Conversation,
    protocol: u8,
    family: Family,
) -> Result<Vec<Route>, KernelError> {
    let mut routes = routes(kernel, family, protocol)?;
    // An older kernel lists all of them.
    routes.retain(|route| route.protocol == protocol);
    Ok(routes)
}

/// All routes of both families.
pub(crate) fn all_routes(kernel: &mut Conversation) -> Result<Vec<Route>, KernelError> {
    Ok([routes(kernel, Family::V4, 0)?, routes(kernel, Family::V6, 0)?].concat())
}

fn routes(
    kernel: &mut Conversation,
    family: Family,
    protocol: u8,
) -> Result<Vec<Route>, KernelError> {
    let mut header = [0; ROUTE_BYTES];
    (header[0], header[5]) = (family_number(family), protocol);
    let messages = kernel.list(|| Message::new(libc::RTM_GETROUTE, list_flags(), &header))?;
    messages.iter().map(|message| route(message)).filter_map(Result::transpose).collect()
}

fn route(message: &[u8]) -> Result<Option<Route>, KernelError> {
    let attributes = Attributes::after(ROUTE_BYTES, message)?;
    let family = message[0];
    let to = attributes.of(libc::RTA_DST).unwrap_or(&[0; 16]);
    let Some(net) = net(family, message[1], Some(to)) else { return Ok(None) };
    let one = |kind| attributes.of(kind).and_then(|bytes| whole(family, bytes));
    let kind = match message[7] {
        libc::RTN_UNICAST => RouteKind::Unicast,
        libc::RTN_UNREACHABLE => RouteKind::Unreachable,
        other => RouteKind::Other(other),
    };
    // One of IPv6 that leads nowhere is said to lead to loopback.
    let device = attributes.u32(libc::RTA_OIF).filter(|_| kind != RouteKind::Unreachable);
    Ok(Some(Route {
        table: attributes.u32(libc::RTA_TABLE).unwrap_or(message[4].into()),
        net,
        metric: attributes.u32(libc::RTA_PRIORITY).unwrap_or(0),
        kind,
        device,
        gateway: one(libc::RTA_GATEWAY),
        onlink: number(&message[8..]).map_or(0, u32::from_ne_bytes) & ONLINK != 0,
        source: one(libc::RTA_PREFSRC),
        protocol: message[5],
    }))
}

/// All routing rules of a family.
pub(crate) fn read_rules(
    kernel: &mut Conversation,
    family: Family,
) -> Result<Vec<Rule>, KernelError> {
    let mut header = [0; ROUTE_BYTES];
    header[0] = family_number(family);
    let messages = kernel.list(|| Message::new(libc::RTM_GETRULE, list_flags(), &header))?;
    messages.iter().map(|message| rule(family, message)).collect()
}

fn rule(family: Family, message: &[u8]) -> Result<Rule, KernelError> {
    let attributes = Attributes::after(ROUTE_BYTES, message)?;
    let known = [
        RULE_TO,
        RULE_FROM,
        RULE_FROM_DEVICE,
        RULE_PREFERENCE,
        RULE_TABLE,
        RULE_PADDING,
        RULE_PROTOCOL,
    ];
    // The kernel says these of every rule; all bits set is without.
    let unset = [RULE_SUPPRESSED_GROUP, RULE_SUPPRESSED_PREFIX];
    let is_set = |kind| attributes.u32(kind).is_some_and(|value| value != u32::MAX);
    let [_, to_bytes, from_bytes, tos, .., action] = message[..8] else {
        return Err(KernelError::Garbled);
    };
    let flags = number(&message[8..]).map_or(0, u32::from_ne_bytes) & !RULE_WAITS_FOR_DEVICE;
    Ok(Rule {
        family,
        preference: attributes.u32(RULE_PREFERENCE).unwrap_or(0),
        to: net(message[0], to_bytes, attributes.of(RULE_TO)),
        from: net(message[0], from_bytes, attributes.of(RULE_FROM)),
        from_device: attributes.text(RULE_FROM_DEVICE),
        table: attributes.u32(RULE_TABLE).unwrap_or(message[4].into()),
        protocol: attributes
            .of(RULE_PROTOCOL)
            .map_or(0, |value| value.first().copied().unwrap_or(0)),
        is_plain: action == RULE_LOOKUP
            && (tos, flags) == (0, 0)
            && !unset.into_iter().any(is_set)
            && !attributes.has_others(&[&known[..], &unset].concat()),
    })
}

/// Makes a route, in the place of one to the same network.
pub(crate) fn add_route(route: &Route) -> Change {
    Change { message: route_message(libc::RTM_NEWROUTE, CREATE_OR_REPLACE, route), done: None }
}

/// Removes a route, of whichever scope.
pub(crate) fn remove_route(route: &Route) -> Change {
    let message = route_message(libc::RTM_DELROUTE, REQUEST, route);
    Change { message, done: Some(libc::ESRCH) }
}

/// Makes a routing rule that is not there.
pub(crate) fn add_rule(rule: &Rule) -> Change {
    let message = rule_message(libc::RTM_NEWRULE, CREATE_ANEW, rule);
    Change { message, done: Some(libc::EEXIST) }
}

/// Removes a routing rule, whatever it does.
pub(crate) fn remove_rule(rule: &Rule) -> Change {
    let message = rule_message(libc::RTM_DELRULE, REQUEST, rule);
    Change { message, done: Some(libc::ENOENT) }
}

/// Gives an address to a device.
pub(crate) fn add_address(device: u32, address: IpNet) -> Change {
    let message = address_message(libc::RTM_NEWADDR, CREATE_ANEW, device, address);
    Change { message, done: Some(libc::EEXIST) }
}

/// Takes an address from a device.
pub(crate) fn remove_address(device: u32, address: IpNet) -> Change {
    let message = address_message(libc::RTM_DELADDR, REQUEST, device, address);
    Change { message, done: Some(libc::EADDRNOTAVAIL) }
}

fn route_message(kind: u16, flags: u16, route: &Route) -> Message {
    let (scope, kind_of_route) = match route.kind {
        RouteKind::Unicast if route.gateway.is_some() => {
            (libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST)
        }
        RouteKind::Unicast => (libc::RT_SCOPE_LINK, libc::RTN_UNICAST),
        RouteKind::Unreachable => (libc::RT_SCOPE_UNIVERSE, libc::RTN_UNREACHABLE),
        RouteKind::Other(other) => (libc::RT_SCOPE_UNIVERSE, other),
    };
    // What is removed may have any scope.
    let scope = if kind == libc::RTM_DELROUTE { libc::RT_SCOPE_NOWHERE } else { scope };
    let (family, prefix) = (family(route.net.addr()), route.net.prefix_len());
    let mut header = [family, prefix, 0, 0, 0, route.protocol, scope, kind_of_route, 0, 0, 0, 0];
    header[8..].copy_from_slice(&(u32::from(route.onlink) * ONLINK).to_ne_bytes());
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
    let family = family_number(rule.family);
    // What is removed may have any action.
    let action = if kind == libc::RTM_DELRULE { 0 } else { RULE_LOOKUP };
    let from_prefix = rule.from.map_or(0, |from| from.prefix_len());
    let header = [family, prefix, from_prefix, 0, 0, 0, 0, action, 0, 0, 0, 0];
    let mut message = Message::new(kind, flags, &header);
    if let Some(to) = rule.to {
        message.put(RULE_TO, &octets(to.addr()));
    }
    if let Some(from) = rule.from {
        message.put(RULE_FROM, &octets(from.addr()));
    }
    if let Some(device) = &rule.from_device {
        message.put_text(RULE_FROM_DEVICE, device);
    }
    message.put_u32(RULE_PREFERENCE, rule.preference);
    message.put_u32(RULE_TABLE, rule.table);
    message.put(RULE_PROTOCOL, &[rule.protocol]);
    message
}

fn address_message(kind: u16, flags: u16, device: u32, address: IpNet) -> Message {
    let mut header = [0; ADDRESS_BYTES];
    (header[0], header[1]) = (family(address.addr()), address.prefix_len());
    header[4..].copy_from_slice(&device.to_ne_bytes());
    let mut message = Message::new(kind, flags, &header);
    message.put(libc::IFA_LOCAL, &octets(address.addr()));
    message.put(libc::IFA_ADDRESS, &octets(address.addr()));
    if address.addr().is_ipv6() {
        message.put_u32(libc::IFA_FLAGS, SETTLED);
    }
    message
}

fn net(family: u8, prefix: u8, address: Option<&[u8]>) -> Option<IpNet> {
    IpNet::new(whole(family, address?)?, prefix).ok()
}
