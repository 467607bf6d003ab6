//! The machine, as far as guests are closed on it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ipnet::IpNet;
use mercato_host::{HostError, Namespaces, Sandbox};
use mercato_machine::{Closed, Marks};

/// What the rest needs of a machine. Whoever calls it waits for the kernel.
pub(super) trait Sandboxes: Send + Sync + 'static {
    /// Tries whether anybody can be found and closed here.
    fn try_to_close(&self) -> Result<(), HostError>;
    /// Tries whether what pods send goes through this machine.
    fn try_to_forward(&self) -> Result<(), HostError>;
    /// The number of this machine's packet rules: another one after each change.
    fn generation(&self) -> Result<u32, HostError>;
    /// The addresses of this machine itself.
    fn addresses(&self) -> Result<BTreeSet<IpAddr>, HostError>;
    /// All addresses that pods have here.
    fn pods(&self) -> Result<BTreeSet<IpAddr>, HostError>;
    /// The sandbox of whoever has this address here, and all addresses that it has.
    fn find(&self, pod: IpAddr) -> Result<Option<(Sandbox, BTreeSet<IpAddr>)>, HostError>;
    /// Brings it about that this is in force in the sandbox, and that its device has the address by which
    /// the pod knows itself then, if that is another one than before.
    fn close(&self, sandbox: &Sandbox, wanted: &Closed) -> Result<(), HostError>;
    /// Opens a sandbox that was closed by mistake, as far as it is one.
    fn release(&self, sandbox: &Sandbox) -> Result<(), HostError>;
    /// Whether somebody has closed the sandbox already.
    fn has_rules(&self, sandbox: &Sandbox) -> Result<bool, HostError>;
    /// By what address somebody has made the pod know itself already, if so.
    fn called(&self, sandbox: &Sandbox) -> Result<Option<Ipv4Addr>, HostError>;
    /// All that are closed, each by one of its addresses, with all of them.
    fn closed(&self) -> Result<Vec<(IpAddr, Sandbox, BTreeSet<IpAddr>)>, HostError>;
    /// Has conntrack forget what a pod that is gone had to do with these.
    fn forget_connections(
        &self,
        own: &BTreeSet<IpAddr>,
        reached: &BTreeSet<IpNet>,
    ) -> Result<(), HostError>;
    /// Removes from this machine what is of other sandboxes than these.
    fn forget(&self, but: &[&Sandbox]) -> Result<(), HostError>;
}

/// Where containerd and CRI-O keep the network namespaces of pods.
const FOLDERS: [&str; 2] = ["/run/netns", "/var/run/netns"];

/// The machine that this process runs on.
#[derive(Default)]
pub(super) struct Host {
    namespaces: Mutex<Namespaces>,
}

impl Sandboxes for Host {
    fn try_to_close(&self) -> Result<(), HostError> {
        mercato_host::try_to_see(&FOLDERS.map(Path::new))?;
        mercato_host::try_to_close()
    }

    fn try_to_forward(&self) -> Result<(), HostError> {
        mercato_host::try_to_forward()
    }

    fn generation(&self) -> Result<u32, HostError> {
        mercato_host::generation()
    }

    fn addresses(&self) -> Result<BTreeSet<IpAddr>, HostError> {
        Ok(mercato_host::read(&Marks::default())?.own.into_keys().collect())
    }

    fn pods(&self) -> Result<BTreeSet<IpAddr>, HostError> {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        namespaces.addresses(&FOLDERS.map(Path::new))
    }

    fn find(&self, pod: IpAddr) -> Result<Option<(Sandbox, BTreeSet<IpAddr>)>, HostError> {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        let found = namespaces.find(&FOLDERS.map(Path::new), pod)?;
        found.map(|sandbox| Ok((sandbox.clone(), sandbox.addresses()?))).transpose()
    }

    fn close(&self, sandbox: &Sandbox, wanted: &Closed) -> Result<(), HostError> {
        // Whoever has no end on the node would pass by with a socket of AF_XDP, and is not closed.
        mercato_host::close_both(sandbox, wanted)?;
        // Nothing leaves with it any more as it is.
        wanted.both().map_or(Ok(()), |(called, _)| mercato_host::put_address(sandbox, called))
    }

    fn release(&self, sandbox: &Sandbox) -> Result<(), HostError> {
        mercato_host::open(sandbox)
    }

    fn has_rules(&self, sandbox: &Sandbox) -> Result<bool, HostError> {
        sandbox.has_rules()
    }

    fn called(&self, sandbox: &Sandbox) -> Result<Option<Ipv4Addr>, HostError> {
        sandbox.called()
    }

    fn closed(&self) -> Result<Vec<(IpAddr, Sandbox, BTreeSet<IpAddr>)>, HostError> {
        let all = Namespaces::default().closed(&FOLDERS.map(Path::new))?;
        let with = |(address, sandbox): (IpAddr, Sandbox)| {
            let own = sandbox.addresses()?;
            Ok((address, sandbox, own))
        };
        all.into_iter().map(with).collect()
    }

    fn forget_connections(
        &self,
        own: &BTreeSet<IpAddr>,
        reached: &BTreeSet<IpNet>,
    ) -> Result<(), HostError> {
        mercato_host::forget(own, reached)
    }

    fn forget(&self, but: &[&Sandbox]) -> Result<(), HostError> {
        mercato_host::open_at_node(but)
    }
}
