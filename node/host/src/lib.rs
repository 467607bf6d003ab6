//! Reads the machine and changes it, by the kernel's own interfaces. What it should have is
//! `mercato-machine`'s.
//!
//! [`read`] says what is there, and [`apply`] does the steps of a plan; [`clean`] removes what is
//! ours. The kernel is asked by netlink, no program is run. The gateway's device itself is the
//! gateway's (`node/tunnel/`), and which pods and nodes there are is decided elsewhere.
//!
//! A pod that may reach few is closed in its own network namespace: [`sandbox_of`] finds it,
//! [`close`] sets the rules of its device, [`close_at_node`] the same ones at the node's end of it.
//! Whether what it sends comes through the node at all is tried by [`try_to_forward`].

mod apply;
mod at_node;
mod closed;
mod error;
mod folders;
mod forwarding;
mod interface;
mod known;
mod limits;
mod netlink;
mod own_address;
mod sandbox;
mod trial;

pub use apply::{apply, clean, dropping, forget, mtu_of, networks, read};
pub use at_node::{close_at_node, forget_at_node, is_closed_at_node, open_at_node};
pub use closed::{close, close_both, is_closed, open};
pub use error::{HostError, KernelError};
pub use forwarding::{generation, try_to_forward};
pub use own_address::{has_address, put_address};
pub use sandbox::{Namespaces, Sandbox, sandbox_of, try_to_see};
pub use trial::try_to_close;
