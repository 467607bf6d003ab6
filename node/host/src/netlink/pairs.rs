//! Pairs of devices, of which one is in another network namespace.

use std::os::fd::RawFd;

use super::conversation::Change;
use super::devices::{LINK_BYTES, PAIR};
use super::message::{CREATE_ANEW, Message};

/// The other end (`VETH_INFO_PEER`), and where that is (`IFLA_NET_NS_FD`).
const PEER: u16 = 1;
const NAMESPACE: u16 = 28;

/// Makes a pair that is not set up yet: this end here, and the other one, by its own name, in the
/// namespace of that file.
pub(crate) fn add_pair(name: &str, other: &str, namespace: RawFd) -> Change {
    let mut message = Message::new(libc::RTM_NEWLINK, CREATE_ANEW, &[0; LINK_BYTES]);
    message.put_text(libc::IFLA_IFNAME, name);
    message.nest(libc::IFLA_LINKINFO, |message| {
        message.put_text(libc::IFLA_INFO_KIND, PAIR);
        message.nest(libc::IFLA_INFO_DATA, |message| {
            message.nest(PEER, |message| {
                message.put_header(&[0; LINK_BYTES]);
                message.put_text(libc::IFLA_IFNAME, other);
                message.put(NAMESPACE, &namespace.to_ne_bytes());
            });
        });
    });
    Change { message, done: None }
}
