//! Where a pod is on this machine: whoever runs it (containerd, CRI-O) leaves a file for each network
//! namespace, and nothing that says whose it is. So each is entered, and asked for its addresses.
//!
//! Whoever enters a namespace is a thread that ends there and never comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};

use crate::error::{HostError, KernelError};
use crate::folders::{each_namespace, entering, files, id, open, open_same};
use crate::known::{known_addresses, own_addresses};
use crate::netlink::{
    Address, Conversation, Device, RouteTo, id_of_namespace, read_addresses, read_device,
    read_devices, read_frames, route_to,
};
use mercato_machine::Marks;
use mercato_machine::Table;

/// Where a pod is on this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sandbox {
    /// The file of its network namespace.
    pub path: PathBuf,
    /// By which the kernel knows the namespace, whatever file it has: numbers of a device and of
    /// an inode.
    pub id: (u64, u64),
    /// The pod's own device, by its index in that namespace.
    pub device: u32,
    /// The node's end of it, by its index on the node; none, where they are no pair.
    pub peer: Option<u32>,
}

/// The network namespaces that were looked into, with the addresses that were seen there: each is
/// entered once, but for the one that is asked for.
#[derive(Clone, Debug, Default)]
pub struct Namespaces {
    seen: BTreeMap<PathBuf, Seen>,
}

/// The file of a namespace that was just looked into, and the device of each address there.
type Entered = (File, BTreeMap<IpAddr, u32>);

/// What a file was when it was looked into. The kernel gives the number of one that is gone to another.
#[derive(Clone, Debug)]
struct Seen {
    id: (u64, u64),
    addresses: BTreeSet<IpAddr>,
}

impl Namespaces {
    /// The sandbox of whoever has this address of the pod network here, in one of the folders of
    /// namespaces; none: nobody. A folder that is not there is passed over, but one has to be.
    ///
    /// # Errors
    /// When two have it, the node's route to it leads to another pod, or a namespace cannot be
    /// entered.
    pub fn find(
        &mut self,
        folders: &[&Path],
        address: IpAddr,
    ) -> Result<Option<Sandbox>, HostError> {
        let paths = files(folders)?;
        self.seen.retain(|path, _| paths.binary_search(path).is_ok());
        // To ask each file what it is by now takes longer than all the rest.
        let is_new = |path: &&PathBuf| self.seen.get(*path).is_none_or(|it| it.may_have(address));
        let new: Vec<&PathBuf> = paths.iter().filter(is_new).collect();
        let found = match self.look(new, address)? {
            Some(found) => Some(found),
            None => self.look(&paths, address)?,
        };
        let Some((sandbox, file)) = found else { return Ok(None) };
        let peer = peer(&sandbox, &file, address)?;
        Ok(Some(Sandbox { peer, ..sandbox }))
    }

    /// The one of these that has the address, with its file: those are entered that may have it.
    fn look<'a>(
        &mut self,
        paths: impl IntoIterator<Item = &'a PathBuf>,
        address: IpAddr,
    ) -> Result<Option<(Sandbox, File)>, HostError> {
        let mut found = None::<(Sandbox, File)>;
        each_namespace(paths, |path, id| {
            let before = self.seen.get(path).filter(|before| before.id == id);
            if before.is_some_and(|before| !before.may_have(address)) {
                return Ok(());
            }
            let Some((file, there)) = self.enter(path, id.0, id.1)? else { return Ok(()) };
            let Some(device) = there.get(&address).copied() else { return Ok(()) };
            let path = path.to_path_buf();
            if let Some((first, _)) = &found {
                let one = first.path.clone();
                return Err(HostError::TwoSandboxes { address, one, other: path });
            }
            found = Some((Sandbox { path, id, device, peer: None }, file));
            Ok(())
        })?;
        Ok(found)
    }

    /// Looks into this one; none: it is no namespace any more, or not yet.
    fn enter(
        &mut self,
        path: &Path,
        device: u64,
        inode: u64,
    ) -> Result<Option<Entered>, HostError> {
        let Some(file) = open_same(path, device, inode)? else { return Ok(None) };
        let Some(there) = if_namespace(inside(path, &file, addresses))? else { return Ok(None) };
        let addresses = there.keys().copied().collect();
        let seen = Seen { id: (device, inode), addresses };
        self.seen.insert(path.to_path_buf(), seen);
        Ok(Some((file, there)))
    }

    /// All addresses of the pod network that somebody has here.
    ///
    /// # Errors
    /// When a namespace cannot be entered.
    pub fn addresses(&mut self, folders: &[&Path]) -> Result<BTreeSet<IpAddr>, HostError> {
        let paths = files(folders)?;
        self.seen.retain(|path, _| paths.binary_search(path).is_ok());
        let mut all = BTreeSet::new();
        each_namespace(&paths, |path, id| {
            let before = self.seen.get(path).filter(|before| before.id == id);
            match before.filter(|before| !before.addresses.is_empty()) {
                Some(before) => all.extend(&before.addresses),
                None => all.extend(
                    self.enter(path, id.0, id.1)?.into_iter().flat_map(|(_, it)| it.into_keys()),
                ),
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Those that carry rules of ours, whoever has set these, each by an address that it has.
    ///
    /// # Errors
    /// When one cannot be entered.
    pub fn closed(&mut self, folders: &[&Path]) -> Result<BTreeMap<IpAddr, Sandbox>, HostError> {
        let mut closed = BTreeMap::new();
        each_namespace(&files(folders)?, |path, id| {
            let Some(file) = open_same(path, id.0, id.1)? else { return Ok(()) };
            let look = || Ok((addresses()?, has_rules()?));
            let Some((addresses, has_rules)) = if_namespace(inside(path, &file, look))? else {
                return Ok(());
            };
            let first = addresses.into_iter().next().filter(|_| has_rules);
            let Some((address, device)) = first else { return Ok(()) };
            let sandbox = Sandbox { path: path.to_path_buf(), id, device, peer: None };
            let peer = peer(&sandbox, &file, address)?;
            closed.insert(address, Sandbox { peer, ..sandbox });
            Ok(())
        })?;
        Ok(closed)
    }
}

/// The same where nothing was looked into before: see [`Namespaces::find`].
///
/// # Errors
/// As there.
pub fn sandbox_of(folders: &[&Path], address: IpAddr) -> Result<Option<Sandbox>, HostError> {
    Namespaces::default().find(folders, address)
}

/// Looks whether the namespaces of pods are seen in these folders: those that a node's devices lead to.
/// A folder that is not the node's own, or not as the node has it by now, would have all that ask
/// wait for ever. Where no device leads to a pod there is nothing to see.
///
/// # Errors
/// When they are not seen, and what to do.
pub fn try_to_see(folders: &[&Path]) -> Result<(), HostError> {
    let reading = |source: KernelError| HostError::Read { what: "devices of pods", source };
    let mut kernel = Conversation::about_routing().map_err(reading)?;
    // With this list the kernel gives numbers to the namespaces that devices lead to.
    let devices = read_devices(&mut kernel).map_err(reading)?;
    let addresses = read_addresses(&mut kernel).map_err(reading)?;
    let of_pods = ends_of_pods(&devices, &addresses);
    let led_to: BTreeSet<u32> = of_pods.filter_map(|device| device.link_namespace).collect();
    let (mut seen, mut unmounted) = (BTreeSet::new(), None);
    each_namespace(&files(folders)?, |path, id| {
        let Some(file) = open_same(path, id.0, id.1)? else { return Ok(()) };
        match id_of_namespace(&mut kernel, file.as_raw_fd()) {
            Ok(number) => seen.extend(number),
            Err(error) if error.is(libc::EINVAL) => {
                let is_plain = file.metadata().is_ok_and(|metadata| metadata.is_file());
                unmounted = Some(path.to_path_buf()).filter(|_| is_plain).or(unmounted.take());
            }
            Err(error) => return Err(reading(error)),
        }
        Ok(())
    })?;
    let unseen: BTreeSet<&u32> = led_to.difference(&seen).collect();
    match unmounted {
        // One that was just made is a file for a moment, and no device leads to it.
        Some(path) if !unseen.is_empty() => Err(HostError::Unmounted { path }),
        Some(_) | None if !unseen.is_empty() && unseen.len() == led_to.len() => {
            let folder = folders.first().map(|folder| folder.to_path_buf()).unwrap_or_default();
            Err(HostError::Unseen { folder, count: unseen.len() })
        }
        Some(_) | None => Ok(()),
    }
}

/// The node's ends of pairs that lead to pods, but for those of a trial.
pub(crate) fn ends_of_pods<'a>(
    devices: &'a [Device],
    addresses: &'a [Address],
) -> impl Iterator<Item = &'a Device> {
    // The node's own device may be a pair as well, as in a node that is a container: it has a
    // network. The end of a pod has none, but for its own address.
    let has_network = |device: &Device| {
        let own = addresses.iter().filter(|one| one.device == device.index);
        let mut own = own.filter(|one| !is_of_link(one.net.addr())).map(|one| one.net);
        own.any(|net| net.prefix_len() < net.max_prefix_len())
    };
    let is_pods = move |device: &&Device| {
        device.is_pair && !has_network(device) && !Marks::OF_TRIALS.contains(&&*device.name)
    };
    devices.iter().filter(is_pods)
}

impl Seen {
    /// Who has none yet may be about to get this one.
    fn may_have(&self, address: IpAddr) -> bool {
        self.addresses.is_empty() || self.addresses.contains(&address)
    }
}

impl Sandbox {
    /// The addresses of its device as they are on the wire, but for those that are known on the link
    /// alone.
    ///
    /// # Errors
    /// When it is gone, or the kernel does not say.
    pub fn addresses(&self) -> Result<BTreeSet<IpAddr>, HostError> {
        self.inside(|| {
            let all = known_addresses()?;
            let own = all.iter().filter(|one| one.device == self.device);
            Ok(own.map(|one| one.net.addr()).filter(|one| !is_of_link(*one)).collect())
        })
    }

    /// By what address its rules say that it knows itself, if they say one: that of the pod network is
    /// on the wire in its place.
    ///
    /// # Errors
    /// When it is gone, or the kernel does not say.
    pub fn called(&self) -> Result<Option<Ipv4Addr>, HostError> {
        Ok(self.inside(own_addresses)?.map(|(called, _)| called))
    }

    /// Whether rules of ours are in force there, whichever they are.
    ///
    /// # Errors
    /// When it is gone, or the kernel does not say.
    pub fn has_rules(&self) -> Result<bool, HostError> {
        self.inside(has_rules)
    }

    /// Does something in its namespace, if that is still the one which was found.
    pub(crate) fn inside<T: Send>(
        &self,
        job: impl FnOnce() -> Result<T, HostError> + Send,
    ) -> Result<T, HostError> {
        let gone = || HostError::SandboxGone { path: self.path.clone() };
        let file = open(&self.path)?.ok_or_else(gone)?;
        if id(&file).map_err(entering(&self.path))? != self.id {
            return Err(gone());
        }
        inside(&self.path, &file, job)
    }
}

/// Whether rules of ours are in force in the namespace of this thread.
fn has_rules() -> Result<bool, HostError> {
    let reading = |source| HostError::Read { what: "nf_tables of a pod", source };
    let mut kernel = Conversation::about_packets().map_err(reading)?;
    Ok(read_frames(&mut kernel, Table::NAME).map_err(reading)?.is_some())
}

/// Whether the address is one of the link, which IPv6 has besides all others.
pub(crate) fn is_of_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// What was done inside; none: it is no namespace, or not yet.
fn if_namespace<T>(done: Result<T, HostError>) -> Result<Option<T>, HostError> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(HostError::Enter { source, .. }) if is_number(&source, Errno::EINVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Does something in a namespace, and waits for that.
fn inside<T: Send>(
    path: &Path,
    file: &File,
    job: impl FnOnce() -> Result<T, HostError> + Send,
) -> Result<T, HostError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("sandbox".to_owned());
        let entered = thread.spawn_scoped(scope, || {
            let entered = setns(file.as_fd(), CloneFlags::CLONE_NEWNET);
            entered.map_err(|error| entering(path)(error.into()))?;
            job()
        });
        let panicked = |_| entering(path)(io::Error::other("its thread has ended"));
        entered.map_err(entering(path))?.join().map_err(panicked)?
    })
}

/// All addresses but those of loopback and of the link, with their devices, in the namespace of
/// this thread.
fn addresses() -> Result<BTreeMap<IpAddr, u32>, HostError> {
    let all = known_addresses()?;
    let of_pods = all.iter().filter(|one| !one.net.addr().is_loopback());
    let of_pods = of_pods.filter(|one| !is_of_link(one.net.addr()));
    Ok(of_pods.map(|one| (one.net.addr(), one.device)).collect())
}

/// The node's end of a pod's device. The node's route to the address may not lead to another
/// pod's: whoever has the address there is not whom others reach by it.
fn peer(sandbox: &Sandbox, file: &File, address: IpAddr) -> Result<Option<u32>, HostError> {
    let reading = |source: KernelError| HostError::Read { what: "way to a pod", source };
    let mut kernel = Conversation::about_routing().map_err(reading)?;
    let route = route_to(&mut kernel, address).map_err(reading)?;
    let is_peer = |device: &Device, number: Option<u32>| {
        device.is_pair
            && device.link == Some(sandbox.device)
            && number.is_some()
            && device.link_namespace == number
    };
    // With each device the kernel gives a number to the namespace that it leads to. Most routes
    // lead by that of the pod, and all others need not be read.
    if let RouteTo::Device(index) = route {
        let device = read_device(&mut kernel, index).map_err(reading)?;
        let number = id_of_namespace(&mut kernel, file.as_raw_fd()).map_err(reading)?;
        if device.is_some_and(|device| is_peer(&device, number)) {
            return Ok(Some(index));
        }
    }
    let devices = read_devices(&mut kernel).map_err(reading)?;
    let number = id_of_namespace(&mut kernel, file.as_raw_fd()).map_err(reading)?;
    let peer = devices.iter().find(|device| is_peer(device, number));
    let by = match route {
        RouteTo::Device(index) => devices.iter().find(|device| device.index == index),
        RouteTo::Itself => None,
        RouteTo::Nowhere => return Ok(peer.map(|device| device.index)),
    };
    let is_right = by.is_some_and(|by| {
        let is_anothers = by.is_pair && by.link_namespace.is_some();
        peer.is_some_and(|peer| peer.index == by.index) || !is_anothers
    });
    if !is_right {
        return Err(HostError::Elsewhere { address, path: sandbox.path.clone() });
    }
    Ok(peer.map(|device| device.index))
}

fn is_number(error: &io::Error, number: Errno) -> bool {
    error.raw_os_error() == Some(number as i32)
}
