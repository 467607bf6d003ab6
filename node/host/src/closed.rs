//! A pod that reaches those who are named, and nobody else: rules about the frames of its own device,
//! in its own network namespace. They stay whatever becomes of the node's rules, and of this
//! daemon; with the namespace they go.
//!
//! A pod with CAP_NET_ADMIN can remove them. One with CAP_NET_RAW may pass them by with a socket
//! of AF_XDP: what is enforced against that has to be at the node's end.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::error::{HostError, KernelError, WantedError};
use crate::limits;
use crate::netlink::{Conversation, read_addresses, read_devices, read_frames, replace_frames};
use crate::packets::{FrameTable, Interface, Table, closed};
use crate::sandbox::Sandbox;

/// What a pod may reach. Of a family of which it has no address it neither sends nor gets anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Its own addresses on the pod network: it has no other source.
    pub own: BTreeSet<IpAddr>,
    /// Whom it may call, and who may call it.
    pub reached: BTreeSet<IpNet>,
    /// The node's own addresses, on all its devices, that of the pod's gateway among them: the node
    /// may call it, and is answered.
    pub node: BTreeSet<IpAddr>,
}

impl Closed {
    /// Says what cannot be, before anything is touched.
    ///
    /// # Errors
    /// The first that is more than is taken.
    pub fn check(&self) -> Result<(), WantedError> {
        let bounds = [
            ("addresses of a pod", self.own.len(), limits::OWN),
            ("ranges that a pod reaches", self.reached.len(), limits::REACHED),
            ("addresses of this node", self.node.len(), limits::NODE_ADDRESSES),
        ];
        match bounds.into_iter().find(|(_, count, most)| count > most) {
            Some((what, count, most)) => Err(WantedError::Many { what, count, most }),
            None => Ok(()),
        }
    }
}

/// Puts what is wanted in force in a pod's namespace, at one moment, or nothing of it; what is in
/// force already is not touched. Connections to whoever is still reached go on.
///
/// # Errors
/// When more is wanted than is taken, the sandbox is gone or has another device that is up, or the
/// kernel refuses.
pub fn close(sandbox: &Sandbox, wanted: &Closed) -> Result<(), HostError> {
    wanted.check()?;
    sandbox.inside(|| {
        let (mut kernel, there, table) = compare(sandbox, wanted)?;
        if there.as_ref() == Some(&table) {
            return Ok(());
        }
        replace_frames(&mut kernel, &table).map_err(|source| HostError::Apply {
            doing: format!("close the network namespace {}", sandbox.path.display()),
            source,
        })
    })
}

/// Whether exactly what is wanted is in force in a pod's namespace.
///
/// # Errors
/// When more is wanted than is taken, the sandbox is gone or has another device that is up, or the
/// kernel does not say.
pub fn is_closed(sandbox: &Sandbox, wanted: &Closed) -> Result<bool, HostError> {
    wanted.check()?;
    sandbox.inside(|| {
        let (_, there, table) = compare(sandbox, wanted)?;
        Ok(there == Some(table))
    })
}

/// What is there, and what should be, in the namespace of this thread.
fn compare(
    sandbox: &Sandbox,
    wanted: &Closed,
) -> Result<(Conversation, Option<FrameTable>, FrameTable), HostError> {
    let reading = |what| move |source: KernelError| HostError::Read { what, source };
    let table = closed(wanted, &interface(sandbox)?);
    let mut kernel = Conversation::about_packets().map_err(reading("nf_tables"))?;
    let there = read_frames(&mut kernel, Table::NAME).map_err(reading("nf_tables"))?;
    Ok((kernel, there, table))
}

/// The pod's device as it is now. A second one would be a way out that no rule sees.
fn interface(sandbox: &Sandbox) -> Result<Interface, HostError> {
    let reading = |source| HostError::Read { what: "devices of a pod", source };
    let gone = || HostError::SandboxGone { path: sandbox.path.clone() };
    let mut kernel = Conversation::about_routing().map_err(reading)?;
    let devices = read_devices(&mut kernel).map_err(reading)?;
    let is_other = |index: u32| index != sandbox.device;
    let mut up = devices.iter().filter(|device| device.up && !device.is_loopback);
    if let Some(device) = up.find(|device| is_other(device.index)) {
        let (path, device) = (sandbox.path.clone(), device.name.clone());
        return Err(HostError::SecondDevice { path, device });
    }
    let device = devices.into_iter().find(|device| device.index == sandbox.device);
    let device = device.ok_or_else(gone)?;
    let addresses = read_addresses(&mut kernel).map_err(reading)?;
    let own = addresses.iter().filter(|address| address.device == sandbox.device);
    let is_of_link = |address: &IpAddr| match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let of_link = own.map(|address| address.net.addr()).filter(is_of_link).collect();
    Ok(Interface { name: device.name, mac: device.mac.ok_or_else(gone)?, of_link })
}
