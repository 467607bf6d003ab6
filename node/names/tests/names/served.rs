//! A name server with guests of several leases.

use std::net::SocketAddr;

use hickory_proto::op::Message;
use mercato_names::{Bounds, Knowledge, NameServer};

use crate::samples::*;

/// Guests of two leases, and somebody who is none.
pub(crate) const ONE: &str = "127.0.0.11";
pub(crate) const TWO: &str = "127.0.0.12";
pub(crate) const ISOLATED: &str = "127.0.0.13";
pub(crate) const EARLY: &str = "127.0.0.14";
pub(crate) const STRANGER: &str = "127.0.0.99";

/// A name server of such a home that knows these guests.
pub(crate) async fn server(bounds: Bounds, servers: Vec<SocketAddr>) -> NameServer {
    let server = NameServer::start("127.0.0.53:0".parse().unwrap(), bounds).unwrap();
    server.know(with(servers));
    server
}

pub(crate) fn with(servers: Vec<SocketAddr>) -> Knowledge {
    let guests =
        [("127.0.0.1", LEASE), (ONE, LEASE), (TWO, OTHER), (ISOLATED, CLOSED), (EARLY, UNKNOWN)];
    let guests = guests.map(|(address, lease)| (at(address), lease)).into();
    Knowledge { guests, servers, ..knowledge() }
}

pub(crate) fn addresses(answer: &Message) -> Vec<String> {
    answer.answers.iter().map(|record| record.data.to_string()).collect()
}
