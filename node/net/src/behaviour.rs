//! The swarm's make-up: transports, limits, and the behaviours of libp2p that we use.

use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::swarm::{NetworkBehaviour, Swarm};
use libp2p::{
    PeerId, SwarmBuilder, Transport as _, allow_block_list, connection_limits, identify, noise,
    ping, tcp,
};

use crate::error::StartError;
use crate::limits::{self, Limits};
use crate::ranks::Ranks;
use crate::run::Run;
use crate::unread::Upgrade;
use crate::{admission, identity, streams};

/// The limits come first: what they deny, no other behaviour hears of.
#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    admission: admission::Behaviour,
    connections: connection_limits::Behaviour,
    pub(crate) blocked: allow_block_list::Behaviour<allow_block_list::BlockedPeers>,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    pub(crate) streams: streams::Behaviour,
}

impl Behaviour {
    fn new(keypair: &Keypair, limits: &Limits, ranks: Ranks) -> Self {
        let connections = connection_limits::ConnectionLimits::default()
            .with_max_pending_outgoing(Some(limits.pending_outbound))
            .with_max_established_outgoing(Some(limits.outbound))
            .with_max_established_per_peer(Some(limits.per_peer));
        let identify = identify::Config::new("/mercato/1".to_owned(), keypair.public())
            .with_agent_version(Run::new().agent())
            .with_hide_listen_addrs(true)
            .with_cache_size(0);
        let ping = ping::Config::new()
            .with_interval(limits.ping_interval)
            .with_timeout(limits.ping_timeout);
        Self {
            admission: admission::Behaviour::new(limits, ranks),
            connections: connection_limits::Behaviour::new(connections),
            blocked: allow_block_list::Behaviour::default(),
            identify: identify::Behaviour::new(identify),
            ping: ping::Behaviour::new(ping),
            streams: streams::Behaviour::default(),
        }
    }
}

/// A swarm that neither listens nor dials yet. Needs a tokio runtime.
pub(crate) fn swarm(
    keypair: Keypair,
    limits: &Limits,
    ranks: Ranks,
) -> Result<Swarm<Behaviour>, StartError> {
    let security = noise::Config::new(&keypair);
    let security = security.map_err(|error| StartError::Keys(error.to_string()))?;
    let known = ranks.clone();
    let upgrade =
        move |peer: &PeerId, _: &_| Upgrade::new(identity::public_key(peer), known.clone());
    let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true));
    let tcp = tcp.upgrade(Version::V1Lazy).authenticate(security).multiplex_ext(upgrade);
    let swarm = SwarmBuilder::with_existing_identity(keypair)
        .with_tokio()
        .with_quic_config(|mut config| {
            config.max_connection_data = limits::QUIC_CONNECTION_BYTES;
            config.max_stream_data = limits::QUIC_STREAM_BYTES;
            config
        })
        .with_other_transport(|_| tcp)
        .map_err(|error| StartError::Keys(error.to_string()))?
        .with_behaviour(|keypair| Behaviour::new(keypair, limits, ranks))
        .map_err(|error| StartError::Keys(error.to_string()))?
        .with_swarm_config(|config| {
            config
                .with_idle_connection_timeout(limits::IDLE)
                .with_max_negotiating_inbound_streams(limits::NEGOTIATING_STREAMS)
                .with_smart_dial()
        })
        .build();
    Ok(swarm)
}
