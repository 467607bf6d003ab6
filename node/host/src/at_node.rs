//! The node's end of a closed pod's pair: what the pod may not send is dropped there as well, by the
//! same rules. A socket of AF_XDP passes by those in the pod's own namespace, these it does not.
//!
//! What is attached to that device as a program of eBPF comes before: a pod network that sends
//! packets on from there does not ask these rules.

use std::collections::BTreeSet;

use crate::error::{HostError, KernelError};
use crate::interface::interface;
use crate::netlink::{
    Conversation, Device, names_of_frames, read_device, read_devices, read_frames, remove_frames,
    replace_frames,
};
use crate::sandbox::Sandbox;
use mercato_machine::Closed;
use mercato_machine::{FrameTable, Interface, Table, closed_at_node};

/// Puts what is wanted in force at the node's end of a pod's pair, at one moment, or nothing of it;
/// what is in force already is not touched.
///
/// # Errors
/// When more is wanted than is taken, the sandbox is gone or has no end here, or the kernel refuses.
pub fn close_at_node(sandbox: &Sandbox, wanted: &Closed) -> Result<(), HostError> {
    wanted.check()?;
    close_end(sandbox, wanted, &sandbox.inside(|| interface(sandbox))?)
}

/// The same where the pod's device was looked at already.
pub(crate) fn close_end(
    sandbox: &Sandbox,
    wanted: &Closed,
    interface: &Interface,
) -> Result<(), HostError> {
    let (mut kernel, there, table) = compare(sandbox, wanted, interface)?;
    if there.as_ref() == Some(&table) {
        return Ok(());
    }
    let doing = |source| HostError::Apply {
        doing: format!("close the node's end of {}", sandbox.path.display()),
        source,
    };
    replace_frames(&mut kernel, there.as_ref(), &table).map_err(doing)
}

/// Whether exactly what is wanted is in force at the node's end of a pod's pair.
///
/// # Errors
/// When more is wanted than is taken, the sandbox is gone or has no end here, or the kernel does not
/// say.
pub fn is_closed_at_node(sandbox: &Sandbox, wanted: &Closed) -> Result<bool, HostError> {
    wanted.check()?;
    let interface = sandbox.inside(|| interface(sandbox))?;
    let (_, there, table) = compare(sandbox, wanted, &interface)?;
    Ok(there == Some(table))
}

/// Removes what is in force at the node's ends of all pods but these. A device that goes leaves its
/// rules, which another one of the same name would come by.
///
/// # Errors
/// When the kernel does not say what is there, or refuses.
pub fn open_at_node(but: &[&Sandbox]) -> Result<(), HostError> {
    open_all_but(but.iter().filter_map(|sandbox| sandbox.peer).map(name_of).collect())
}

/// Removes what is in force at the node's ends of pods that are gone: those of whoever is there stay.
///
/// # Errors
/// When the kernel does not say what is there, or refuses.
pub fn forget_at_node() -> Result<(), HostError> {
    let mut kernel = Conversation::about_routing().map_err(reading("devices"))?;
    let devices = read_devices(&mut kernel).map_err(reading("devices"))?;
    open_all_but(devices.iter().map(|device| name_of(device.index)).collect())
}

fn open_all_but(kept: BTreeSet<String>) -> Result<(), HostError> {
    let mut kernel = Conversation::about_packets().map_err(reading("nf_tables"))?;
    let names = names_of_frames(&mut kernel).map_err(reading("nf_tables"))?;
    let is_ours = |name: &String| name.starts_with(&prefix()) && !kept.contains(name);
    let mut ours = names.into_iter().filter(is_ours);
    ours.try_for_each(|name| remove(&mut kernel, &name))
}

/// Removes what is in force at the node's end of this pod.
pub(crate) fn remove_at_node(sandbox: &Sandbox) -> Result<(), HostError> {
    let Some(name) = sandbox.peer.map(name_of) else { return Ok(()) };
    let mut kernel = Conversation::about_packets().map_err(reading("nf_tables"))?;
    remove(&mut kernel, &name)
}

fn remove(kernel: &mut Conversation, name: &str) -> Result<(), HostError> {
    let doing = |source| HostError::Apply { doing: format!("remove the table {name}"), source };
    remove_frames(kernel, name).map_err(doing)
}

/// What is there, and what should be.
fn compare(
    sandbox: &Sandbox,
    wanted: &Closed,
    interface: &Interface,
) -> Result<(Conversation, Option<FrameTable>, FrameTable), HostError> {
    let no_end = || HostError::NoPair { path: sandbox.path.clone() };
    let index = sandbox.peer.ok_or_else(no_end)?;
    let mut kernel = Conversation::about_routing().map_err(reading("devices"))?;
    let end = read_device(&mut kernel, index).map_err(reading("devices"))?;
    let is_end = |end: &Device| end.is_pair && end.link == Some(sandbox.device);
    let end = end.filter(is_end).ok_or_else(no_end)?;
    let table = closed_at_node(wanted, interface, name_of(index), &end.name);
    let mut kernel = Conversation::about_packets().map_err(reading("nf_tables"))?;
    let there = read_frames(&mut kernel, &table.name).map_err(reading("nf_tables"))?;
    Ok((kernel, there, table))
}

/// One table for each pod, so that each comes and goes by itself.
fn name_of(device: u32) -> String {
    format!("{}{device}", prefix())
}

fn prefix() -> String {
    format!("{}-", Table::NAME)
}

fn reading(what: &'static str) -> impl Fn(KernelError) -> HostError {
    move |source| HostError::Read { what, source }
}
