//! What the kernel refused, and what to do.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use mercato_machine::{NotForwarded, WantedError};
use thiserror::Error;

/// Why the machine was not read or changed.
#[derive(Debug, Error)]
pub enum HostError {
    /// The kernel refused a change. Those before it are in force.
    #[error("cannot {doing}: {source}")]
    Apply {
        /// What was to be done.
        doing: String,
        /// Why that did not work.
        source: KernelError,
    },
    /// The kernel did not say what is there.
    #[error("cannot read the {what} of this machine: {source}")]
    Read {
        /// Which part of the machine.
        what: &'static str,
        /// Why that did not work.
        source: KernelError,
    },
    /// Whether this machine closes anybody could not be tried.
    #[error("cannot try whether a pod is closed here: {source}{}", right(.source))]
    Trial {
        /// Why that did not work.
        source: io::Error,
    },
    /// A rule is there and does nothing.
    #[error(
        "this kernel lets through what its rules drop: it takes nf_tables with hooks of the family \
         netdev for what leaves (Linux 5.16 or later)"
    )]
    NotClosed,
    /// What pods send is dropped on its way through.
    #[error(transparent)]
    NotForwarded(#[from] NotForwarded),
    /// What is wanted of a pod cannot be.
    #[error("{0}")]
    Wanted(#[from] WantedError),
    /// No folder of network namespaces can be read.
    #[error(
        "cannot read the folder of network namespaces {}: {source}; mount it from the node, with \
         mountPropagation: HostToContainer", .folder.display()
    )]
    Folder {
        /// Where one is expected on the node.
        folder: PathBuf,
        /// Why that did not work.
        source: io::Error,
    },
    /// There are pods here, and nothing of them is seen.
    #[error(
        "{count} devices of this node lead to pods, and none of those has its network namespace in {}: \
         mount that folder from the node, with mountPropagation: HostToContainer", .folder.display()
    )]
    Unseen {
        /// Where their files are expected.
        folder: PathBuf,
        /// How many devices lead to some.
        count: usize,
    },
    /// Namespaces of pods that begin do not come here.
    #[error(
        "{} is no network namespace as it is seen here: mount its folder from the node with \
         mountPropagation: HostToContainer, or remove that file if it is left over", .path.display()
    )]
    Unmounted {
        /// Where one of them should be.
        path: PathBuf,
    },
    /// A pod's network namespace was not entered.
    #[error(
        "cannot enter the network namespace {}: {source}{}", .path.display(), right(.source)
    )]
    Enter {
        /// The file of the namespace.
        path: PathBuf,
        /// Why that did not work.
        source: io::Error,
    },
    /// More than are looked at.
    #[error(
        "this machine has more than {most} network namespaces, so that no pod is looked for in \
         them; remove those that nobody uses (ip netns list)"
    )]
    Namespaces {
        /// How many are looked at.
        most: usize,
    },
    /// It is not known which of them is meant.
    #[error(
        "the network namespaces {} and {} both have the address {address}, so that it is not known \
         who is meant; remove the one that no pod uses any more", .one.display(), .other.display()
    )]
    TwoSandboxes {
        /// The address that both have.
        address: IpAddr,
        /// The file of the first one.
        one: PathBuf,
        /// The file of the second one.
        other: PathBuf,
    },
    /// Whoever has the address is not whom others reach by it.
    #[error(
        "the network namespace {} has the address {address}, but this node's route to it leads to \
         somebody else; look at ip route get {address}, and at what the pod network has left over",
        .path.display()
    )]
    Elsewhere {
        /// The address that it has.
        address: IpAddr,
        /// The file of the namespace that has it.
        path: PathBuf,
    },
    /// The pod has ended, or was given another namespace.
    #[error("the network namespace {} is not there any more; look for the pod again", .path.display())]
    SandboxGone {
        /// The file of the namespace.
        path: PathBuf,
    },
    /// Its device is no pair, or the pod has gone.
    #[error(
        "the network namespace {} has no end of its device on this node, at which it could be \
         closed; look for the pod again, and use a pod network that joins pods by pairs (veth)",
        .path.display()
    )]
    NoPair {
        /// The file of the namespace.
        path: PathBuf,
    },
    /// A way out that no rule sees.
    #[error(
        "the network namespace {} has a second device that is up, {device}, by which a pod would \
         reach what it may not; give such pods one network alone", .path.display()
    )]
    SecondDevice {
        /// The file of the namespace.
        path: PathBuf,
        /// The name of that device.
        device: String,
    },
    /// More than is looked at.
    #[error(
        "this machine has more than {most} networks, so that the pool is not compared with them; \
         keep large routing tables off nodes"
    )]
    Networks {
        /// How many are looked at.
        most: usize,
    },
}

/// What the kernel said, or did not.
#[derive(Debug, Error)]
pub enum KernelError {
    /// The kernel refused the request.
    #[error("{source}{}{}", spoken(.words), advice(.source))]
    Refused {
        /// The number that it gave.
        source: io::Error,
        /// Its own words, where it had any.
        words: Option<String>,
    },
    /// There is no netlink socket, or it failed.
    #[error("netlink: {source}{}", advice(.source))]
    Socket {
        /// The number that it gave.
        source: io::Error,
    },
    /// Its answer makes no sense.
    #[error("the kernel's answer is cut off; report that with its version (uname -r)")]
    Garbled,
    /// Whatever was read had changed meanwhile, again and again.
    #[error("it changes faster than it can be read; try again")]
    Changing,
}

impl KernelError {
    /// Whether the kernel gave this number.
    pub(crate) fn is(&self, number: i32) -> bool {
        match self {
            Self::Refused { source, .. } => source.raw_os_error() == Some(number),
            Self::Socket { .. } | Self::Garbled | Self::Changing => false,
        }
    }
}

/// What to do, for whoever may not enter.
fn right(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; the daemon needs CAP_SYS_ADMIN for that: start it as root, or in a pod with \
             securityContext.capabilities.add: [NET_ADMIN, SYS_ADMIN], and with /run/netns mounted \
             with mountPropagation: HostToContainer"
        }
        Some(_) | None => "",
    }
}

fn spoken(words: &Option<String>) -> String {
    words.as_ref().map(|words| format!(" ({words})")).unwrap_or_default()
}

/// What to do, for what the owner of a node can do something about.
fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "; the daemon needs CAP_NET_ADMIN on the node's network: start it as root, or in a pod \
             with hostNetwork: true and securityContext.capabilities.add: [NET_ADMIN]"
        }
        // Only an address of IPv6 is refused so.
        Some(libc::EACCES) => {
            "; IPv6 is off on that device (see sysctl net.ipv6.conf.DEVICE.disable_ipv6, and that \
             of default): set both to 0, or leave out the pool of IPv6"
        }
        Some(libc::ENODEV) => "; the gateway's device is gone: it makes it anew when it starts",
        // Also what a kernel says of a module that it does not have.
        Some(libc::ENOENT) => {
            "; somebody has removed it meanwhile, which the next try mends, or the kernel lacks \
             nf_tables with NAT and conntrack (modules nf_tables, nft_chain_nat, nft_ct, \
             nft_fib_ipv4, nft_fib_ipv6)"
        }
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
            "; the kernel needs nf_tables, policy routing (CONFIG_IP_MULTIPLE_TABLES), and for \
             other nodes VXLAN (module vxlan)"
        }
        Some(libc::EADDRINUSE) => {
            "; somebody has the UDP port of the overlay: set another one, the same at all nodes"
        }
        Some(libc::EAGAIN) => {
            "; the kernel does not answer: look at its log (dmesg), and at what else changes the \
             network of this machine"
        }
        Some(libc::ENFILE | libc::EMFILE) => "; raise the limit of open files",
        Some(_) | None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_lacks_a_right_hears_which() {
        let refused = KernelError::Refused {
            source: io::Error::from_raw_os_error(libc::EPERM),
            words: Some("no".to_owned()),
        };
        let error = HostError::Apply { doing: "set the device up".to_owned(), source: refused };
        let said = error.to_string();
        for part in ["cannot set the device up", "not permitted", "(no)", "CAP_NET_ADMIN"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
