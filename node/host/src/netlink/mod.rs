//! What is said to the kernel, in its own messages: a conversation over a socket, and what steps
//! and lists are in it.
//!
//! Only what we use is written and read; attributes that are unknown, or longer than they were,
//! are passed over: kernels add to both.

mod conversation;
mod message;
mod packets;
mod routing;
mod words;

pub(crate) use self::conversation::Conversation;
pub(crate) use self::packets::{
    change_pods, read_dropping, read_packets, remove_packets, replace_packets,
};
pub(crate) use self::routing::{
    all_routes, change, own_routes, read_addresses, read_devices, read_forwarding, read_rules,
};
