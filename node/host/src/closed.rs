//! A pod that reaches those who are named, and nobody else: rules about the frames of its own device,
//! in its own network namespace. They stay whatever becomes of the node's rules, and of this
//! daemon; with the namespace they go.
//!
//! A pod with CAP_NET_ADMIN can remove them. One with CAP_NET_RAW may pass them by with a socket
//! of AF_XDP: against that the node's end of its pair is closed as well (`at_node.rs`).

use crate::at_node::{close_end, remove_at_node};
use crate::error::{HostError, KernelError};
use crate::interface::interface;
use crate::netlink::{Conversation, read_frames, remove_frames, replace_frames};
use crate::own_address::give_back;
use crate::sandbox::Sandbox;
use mercato_machine::Closed;
use mercato_machine::{FrameTable, Interface, Table, closed};

/// Puts what is wanted in force in a pod's namespace, at one moment, or nothing of it; what is in
/// force already is not touched. Connections to whoever is still reached go on.
///
/// # Errors
/// When more is wanted than is taken, the sandbox is gone or has another device that is up, or the
/// kernel refuses.
pub fn close(sandbox: &Sandbox, wanted: &Closed) -> Result<(), HostError> {
    wanted.check()?;
    sandbox.inside(|| compare(sandbox, wanted))?.close(sandbox)
}

/// Puts what is wanted in force at the node's end of a pod's pair, and then in the pod's namespace. That
/// is entered once for both.
///
/// # Errors
/// When more is wanted than is taken, the sandbox is gone, has another device that is up or no end
/// here, or the kernel refuses: the one may be in force then without the other.
pub fn close_both(sandbox: &Sandbox, wanted: &Closed) -> Result<(), HostError> {
    wanted.check()?;
    let compared = sandbox.inside(|| compare(sandbox, wanted))?;
    close_end(sandbox, wanted, &compared.interface)?;
    compared.close(sandbox)
}

/// Removes what is in force in a pod's namespace, and at the node's end of its pair: it was closed by
/// mistake. Its device has the address of its pod network before that, if it had another one.
///
/// # Errors
/// When the sandbox is gone, or the kernel refuses.
pub fn open(sandbox: &Sandbox) -> Result<(), HostError> {
    let doing = |source| HostError::Apply {
        doing: format!("open the network namespace {}", sandbox.path.display()),
        source,
    };
    give_back(sandbox)?;
    sandbox.inside(|| {
        let mut kernel = Conversation::about_packets().map_err(doing)?;
        remove_frames(&mut kernel, Table::NAME).map_err(doing)
    })?;
    remove_at_node(sandbox)
}

/// Whether exactly what is wanted is in force in a pod's namespace.
///
/// # Errors
/// When more is wanted than is taken, the sandbox is gone or has another device that is up, or the
/// kernel does not say.
pub fn is_closed(sandbox: &Sandbox, wanted: &Closed) -> Result<bool, HostError> {
    wanted.check()?;
    sandbox.inside(|| {
        let Compared { there, table, .. } = compare(sandbox, wanted)?;
        Ok(there == Some(table))
    })
}

/// What is there, and what should be, in a pod's namespace.
struct Compared {
    interface: Interface,
    /// With that namespace, wherever this is said.
    kernel: Conversation,
    there: Option<FrameTable>,
    table: FrameTable,
}

impl Compared {
    fn close(mut self, sandbox: &Sandbox) -> Result<(), HostError> {
        if self.there.as_ref() == Some(&self.table) {
            return Ok(());
        }
        let replaced = replace_frames(&mut self.kernel, self.there.as_ref(), &self.table);
        replaced.map_err(|source| HostError::Apply {
            doing: format!("close the network namespace {}", sandbox.path.display()),
            source,
        })
    }
}

/// In the namespace of this thread.
fn compare(sandbox: &Sandbox, wanted: &Closed) -> Result<Compared, HostError> {
    let reading = |what| move |source: KernelError| HostError::Read { what, source };
    let interface = interface(sandbox)?;
    let table = closed(wanted, &interface);
    let mut kernel = Conversation::about_packets().map_err(reading("nf_tables"))?;
    let there = read_frames(&mut kernel, Table::NAME).map_err(reading("nf_tables"))?;
    Ok(Compared { interface, kernel, there, table })
}
