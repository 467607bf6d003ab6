//! What a pod can do at most: threads of this process in the pod's own network, with all rights there.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, send, socket,
};

/// The device of a pod, as the bed's pod networks call it.
const DEVICE: &str = "eth0";
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const EVERYBODY: [u8; 6] = [0xff; 6];

/// The network of a pod.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    network: PathBuf,
    /// The number of its node, counted from 1.
    pub(crate) node: u8,
    /// The pod's address in its own cluster.
    pub(crate) own: Ipv4Addr,
    /// The one that its device has.
    pub(crate) on_device: Ipv4Addr,
}

/// A socket for frames at the pod's device, and the device's address.
pub(crate) struct Frames {
    socket: OwnedFd,
    mac: [u8; 6],
}

impl Inside {
    /// That of a pod which runs, by the cluster that runs it.
    pub(crate) async fn of(cluster: &Cluster, user: &User<'_>, pod: &str) -> Result<Self> {
        let node = ["get", "pod", pod, "-o", "jsonpath={.spec.nodeName}"];
        let node = user.kubectl(&node).await?;
        let number = node.rsplit('-').next().and_then(|number| number.parse().ok());
        let number = number.with_context(|| format!("{pod} is on {node:?}"))?;
        let address = user.address_of(pod).await?;
        let IpAddr::V4(own) = address else { return Err(anyhow!("{pod} has {address}")) };
        // The device of a guest has the one by which everybody knows it.
        let known = "jsonpath={.metadata.annotations.mercato\\.dev/home-address}";
        let known = user.kubectl(&["get", "pod", pod, "-o", known]).await?;
        let on_device = known.parse().unwrap_or(own);
        let network = cluster.network_of(number, on_device.into()).await?;
        Ok(Self { network, node: number, own, on_device })
    }

    /// Does something there, and waits for that.
    pub(crate) async fn does<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (this, network) = (self.clone(), std::fs::File::open(&self.network)?);
        let thread = std::thread::Builder::new().name("inside".to_owned());
        let (tell, told) = tokio::sync::oneshot::channel();
        thread.spawn(move || {
            let entered = setns(network, CloneFlags::CLONE_NEWNET).context("enter a pod's network");
            // Whoever asked waits for it.
            let _ = tell.send(entered.and_then(|()| job(&this)));
        })?;
        told.await.context("its thread has ended")?
    }
}

impl Frames {
    /// One of the network that this thread is in.
    pub(crate) fn open() -> Result<Self> {
        let (flags, all) = (SockFlag::SOCK_CLOEXEC, Some(SockProtocol::EthAll));
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, all).context("frames")?;
        let mut devices = getifaddrs()?.filter(|device| device.interface_name == DEVICE);
        let device = devices.find_map(|device| device.address?.as_link_addr().copied());
        let device = device.context("no such device")?;
        bind(socket.as_raw_fd(), &device)?;
        Ok(Self { socket, mac: device.addr().context("it has no address")? })
    }

    /// Sends one to everybody; whether it was dropped at once may be said, or not.
    fn send(&self, kind: u16, payload: &[u8]) {
        let frame = [&EVERYBODY[..], &self.mac, &kind.to_be_bytes(), payload].concat();
        let _ = send(self.socket.as_raw_fd(), &frame, MsgFlags::empty());
    }

    /// Asks who has an address, as somebody; behind the question, this is in the frame.
    pub(crate) fn ask(&self, from: Ipv4Addr, whom: Ipv4Addr, rest: &[u8]) {
        let head = [0, 1, 8, 0, 6, 4, 0, 1];
        let question = [&head[..], &self.mac, &from.octets(), &[0; 6], &whom.octets(), rest];
        self.send(ARP, &question.concat());
    }

    /// Sends a packet of a protocol.
    pub(crate) fn packet(&self, from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) {
        let length = (20 + payload.len()) as u16;
        let kind = [0, 7, 0, 0, 64, protocol, 0, 0];
        let (from, to) = (from.octets(), to.octets());
        let mut header = [&[0x45, 0][..], &length.to_be_bytes(), &kind, &from, &to].concat();
        let sum: u32 =
            header.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        self.send(IPV4, &[&header[..], payload].concat());
    }
}
