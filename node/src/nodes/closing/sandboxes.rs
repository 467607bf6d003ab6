//! The machine, as far as guests are closed on it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use mercato_host::{Closed, HostError, Marks, Sandbox};

/// What the rest needs of a machine. Whoever calls it waits for the kernel.
pub(super) trait Sandboxes: Send + Sync + 'static {
    /// Tries whether anybody can be closed here.
    fn try_to_close(&self) -> Result<(), HostError>;
    /// The addresses of this machine itself.
    fn addresses(&self) -> Result<BTreeSet<IpAddr>, HostError>;
    /// The sandbox of whoever has this address here, and all addresses that it has.
    fn find(&self, pod: IpAddr) -> Result<Option<(Sandbox, BTreeSet<IpAddr>)>, HostError>;
    /// Brings it about that this is in force in the sandbox.
    fn close(&self, sandbox: &Sandbox, wanted: &Closed) -> Result<(), HostError>;
    /// Removes from this machine what is of other sandboxes than these.
    fn forget(&self, but: &[&Sandbox]) -> Result<(), HostError>;
}

/// Where containerd and CRI-O keep the network namespaces of pods.
const FOLDERS: [&str; 2] = ["/run/netns", "/var/run/netns"];

/// The machine that this process runs on.
pub(super) struct Host;

impl Sandboxes for Host {
    fn try_to_close(&self) -> Result<(), HostError> {
        mercato_host::try_to_close()
    }

    fn addresses(&self) -> Result<BTreeSet<IpAddr>, HostError> {
        Ok(mercato_host::read(&Marks::default())?.own.into_keys().collect())
    }

    fn find(&self, pod: IpAddr) -> Result<Option<(Sandbox, BTreeSet<IpAddr>)>, HostError> {
        let found = mercato_host::sandbox_of(&FOLDERS.map(Path::new), pod)?;
        found.map(|sandbox| Ok((sandbox.clone(), sandbox.addresses()?))).transpose()
    }

    fn close(&self, sandbox: &Sandbox, wanted: &Closed) -> Result<(), HostError> {
        mercato_host::close(sandbox, wanted)?;
        // A pod of another kind of network than a pair has rules of its own alone.
        match sandbox.peer {
            Some(_) => mercato_host::close_at_node(sandbox, wanted),
            None => Ok(()),
        }
    }

    fn forget(&self, but: &[&Sandbox]) -> Result<(), HostError> {
        mercato_host::open_at_node(but)
    }
}
