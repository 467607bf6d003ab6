//! What the kernel refused, and what to do.

use std::io;

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
        Some(libc::ENODEV) => "; the gateway's device is gone: it makes it anew when it starts",
        // Also what a kernel says of a module that it does not have.
        Some(libc::ENOENT) => {
            "; somebody has removed it meanwhile, which the next try mends, or the kernel lacks \
             nf_tables with NAT and conntrack (modules nf_tables, nft_chain_nat, nft_ct)"
        }
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
            "; the kernel needs nf_tables, and policy routing (CONFIG_IP_MULTIPLE_TABLES)"
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
