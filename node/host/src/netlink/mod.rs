//! What is said to the kernel, in its own messages: a conversation over a socket, and what steps
//! and lists are in it.
//!
//! Only what we use is written and read; attributes that are unknown, or longer than they were,
//! are passed over: kernels add to both.

mod connections;
mod conversation;
mod device_routes;
mod devices;
mod entries;
mod frames;
mod maps;
mod masquerade;
mod message;
mod nets;
mod numbers;
mod others;
mod packets;
mod pairs;
mod routing;
mod sets;
mod tally;
mod verdicts;
mod way;
mod words;

pub(crate) use self::connections::forget_connections;
pub(crate) use self::conversation::{Change, Conversation};
pub(crate) use self::device_routes::{
    DeviceRoute, append_route, remove_exact_route, routes_of_device,
};
pub(crate) use self::devices::{
    Device, add_vxlan, read_device, read_devices, read_forwarding, remove_device, set_device,
    set_mtu, set_up,
};
pub(crate) use self::entries::{
    add_endpoint, add_neighbour, read_endpoints, read_neighbours, remove_endpoint, remove_neighbour,
};
pub(crate) use self::frames::{
    names_of_frames, read_frame_map, read_frames, remove_frames, replace_frames,
};
pub(crate) use self::masquerade::masquerade_as;
pub(crate) use self::others::{read_dropping, read_generation};
pub(crate) use self::packets::{
    change_nets, change_set, read_packets, remove_packets, replace_packets,
};
pub(crate) use self::pairs::add_pair;
pub(crate) use self::routing::{
    Address, add_address, add_route, add_rule, all_routes, own_routes, read_addresses, read_rules,
    remove_address, remove_route, remove_rule,
};
pub(crate) use self::way::{RouteTo, id_of_namespace, route_to};
