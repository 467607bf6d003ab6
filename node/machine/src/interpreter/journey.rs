//! The way of a frame from a guest through all rules that it comes by.

use super::chains::{at_device, at_hook};
use super::error::InterpretError;
use super::facts::{Conntrack, Facts};
use super::frame::Frame;
use super::outcome::Outcome;
use crate::packets::{FrameTable, Hook, Side, Table};

/// Where the rules of a guest and of its node are.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// The tables in its own namespace.
    pub own: &'a [&'a FrameTable],
    /// What its device is called there.
    pub device: &'a str,
    /// The tables at the node's end of the device.
    pub at_node: &'a [&'a FrameTable],
    /// What that end is called.
    pub end: &'a str,
    /// The node's own tables, of both families.
    pub node: &'a [&'a Table],
}

/// Where the node's routes lead a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// It is for the node itself.
    Input,
    /// It leaves by this device.
    Forward(&'a str),
    /// No route leads to whom it is for.
    Nowhere,
}

/// What becomes of a frame that a guest hands to its device: by the rules in its own namespace, by those at
/// the node's end of the device, and by the node's own, up to where it leaves the node or is the
/// node's. What is no packet of IP is the node's after the second.
///
/// The device that it came by, and the one by which it leaves, are those of the guest and of the
/// route, whatever `facts` has.
///
/// # Errors
/// The first thing in the rules asked that cannot be followed.
pub fn from_guest<'a>(
    guest: &Guest<'a>,
    frame: Frame,
    route: Route<'_>,
    facts: &Facts<'_>,
) -> Result<Outcome<'a>, InterpretError> {
    let out = Facts { iifname: "", oifname: guest.device, conntrack: Conntrack::Invalid, ..*facts };
    let mut outcome = at_device(guest.own, guest.device, Side::Out, frame, &out)?;
    if !outcome.has_passed() {
        return Ok(outcome);
    }
    let frame = Frame::received(outcome.frame.bytes().to_vec());
    let mut came = Facts { iifname: guest.end, oifname: "", ..*facts };
    let at_end = Facts { conntrack: Conntrack::Invalid, ..came };
    outcome = outcome.then(at_device(guest.at_node, guest.end, Side::In, frame, &at_end)?);
    if !outcome.has_passed() || outcome.frame.family().is_none() {
        return Ok(outcome);
    }
    let packet = outcome.frame.without_link();
    outcome = outcome.then(at_hook(guest.node, Hook::Prerouting, packet, &came)?);
    if outcome.notrack {
        came.conntrack = Conntrack::Untracked;
    }
    let mut hooks = match route {
        Route::Input => vec![Hook::Input],
        Route::Forward(device) => {
            came.oifname = device;
            vec![Hook::Forward, Hook::Postrouting]
        }
        Route::Nowhere => Vec::new(),
    }
    .into_iter();
    while let Some(hook) = hooks.next().filter(|_| outcome.has_passed()) {
        let packet = outcome.frame.clone();
        outcome = outcome.then(at_hook(guest.node, hook, packet, &came)?);
    }
    Ok(outcome)
}
