//! What a gateway and its peers are.

use std::net::SocketAddr;

use mercato_protocol::id::ClusterId;

use crate::keys::{KeyPair, PublicKey, SharedSecret};
use crate::start::Start;
use crate::suite::Suites;

/// What a gateway is, and what it can do.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its own keys.
    pub keys: KeyPair,
    /// The suites that its processor does well.
    pub suites: Suites,
    /// How many shards seal here: from one to [`crate::limits::SHARDS`].
    pub shards: u8,
    /// The largest packet of its own link, IP's header included: larger ones are never tried.
    pub link_mtu: usize,
    /// When it began: after every earlier start with the same keys.
    pub start: Start,
}

/// Another gateway.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Its public key, which names it.
    pub key: PublicKey,
    /// Each cluster that says that it is its own: once. Of several, that one has it by whose secret
    /// a session comes up first.
    pub claims: Vec<Claim>,
}

/// A cluster says that a gateway is its own.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The cluster that says so.
    pub cluster: ClusterId,
    /// What it and this cluster share. No other two clusters have the same, whoever draws it: else
    /// one could have two others take each other for itself.
    pub secret: SharedSecret,
    /// Where it may be, the best one first; empty if it only ever comes to us.
    pub addresses: Vec<SocketAddr>,
}
