//! What is known of one peer, for whoever looks.

use std::net::SocketAddr;
use std::time::Duration;

use super::effect::Link;
use super::watch::Lost;
use crate::keys::PublicKey;
use crate::path_mtu::Path;

/// What is known of one peer at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerState {
    /// Its public key, which names it.
    pub key: PublicKey,
    /// Whether packets reach this peer now.
    pub link: Link,
    /// For how long that has been so; none if the link was never up.
    pub since: Option<Duration>,
    /// Which way packets are lost; none: they are not, or nobody asks.
    pub lost: Option<Lost>,
    /// Where packets to it go; none as long as it has answered nowhere.
    pub address: Option<SocketAddr>,
    /// How long the last ping and its echo took, in whole milliseconds; none if there was none. Only
    /// peers by which a lease is in force are asked.
    pub round_trip: Option<Duration>,
    /// How large packets to it may be.
    pub path: Path,
    /// How many sessions with it are open.
    pub sessions: usize,
}
