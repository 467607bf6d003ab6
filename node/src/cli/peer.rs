//! `mercato peer`: connect to somebody, trust or block them.

use clap::Subcommand;
use mercato_broker::Standing;

use super::lookup;
use super::screen::Screen;
use crate::admin::{OperatorApi, Problem, Request};
use crate::present::text::{called, fingerprint, round_trip};

#[derive(Debug, Subcommand)]
pub(crate) enum Peer {
    /// Connect to the cluster at an address, until the daemon ends; `peers` in the
    /// configuration file is permanent
    #[command(after_help = "Examples:
  mercato peer add turin.example:7474
  mercato peer add /ip4/192.0.2.1/udp/7474/quic-v1")]
    Add {
        /// Where it is: HOST:PORT, or a multiaddr
        address: String,
    },
    /// Stop connecting to an address
    #[command(after_help = "Examples:
  mercato peer remove turin.example:7474
  mercato peer remove /ip4/192.0.2.1/udp/7474/quic-v1")]
    Remove {
        /// The address as it was added
        address: String,
    },
    /// See which cluster answers at an address, and how fast
    #[command(after_help = "Examples:
  mercato peer ping turin.example:7474
  mercato peer ping '[2001:db8::1]:7474'")]
    Ping {
        /// Where it is: HOST:PORT, or a multiaddr
        address: String,
    },
    /// Trust a cluster, so that you can buy from it: compare its fingerprint first
    #[command(after_help = "Examples:
  mercato peer trust turin
  mercato peer trust 4f3c21ab --yes

The other side sees its own fingerprint with: mercato status")]
    Trust {
        /// Its name, or the beginning of its id
        peer: String,
    },
    /// Refuse a cluster's connections, requests and offers
    #[command(after_help = "Examples:
  mercato peer block turin
  mercato peer block 4f3c21ab")]
    Block {
        /// Its name, or the beginning of its id
        peer: String,
    },
}

impl Peer {
    pub(crate) async fn perform(
        self,
        api: &dyn OperatorApi,
        screen: &Screen,
    ) -> Result<String, Problem> {
        match self {
            Self::Add { address } => {
                api.tell(Request::AddPeer(address.clone())).await?;
                Ok(screen.done(format!("connecting to {address}; see: mercato peers")))
            }
            Self::Remove { address } => {
                api.tell(Request::RemovePeer(address.clone())).await?;
                Ok(screen.done(format!("no longer connecting to {address}")))
            }
            Self::Ping { address } => {
                let pong = api.ping(address).await?;
                let who = pong.cluster.map_or_else(
                    || format!("key {}", pong.key.short()),
                    |cluster| called(pong.name.as_deref(), &cluster),
                );
                let rtt =
                    pong.rtt_us.map_or_else(String::new, |us| format!(" in {}", round_trip(us)));
                screen.render(&pong, || format!("{who} answers{rtt}\n"))
            }
            Self::Trust { peer } => trust(api, screen, &peer).await,
            Self::Block { peer } => {
                let known = lookup::cluster(api, &peer).await?;
                api.tell(Request::Judge(known.cluster, Standing::Blocked)).await?;
                Ok(screen.done(format!("{} is blocked", known.called())))
            }
        }
    }
}

async fn trust(api: &dyn OperatorApi, screen: &Screen, peer: &str) -> Result<String, Problem> {
    let known = lookup::cluster(api, peer).await?;
    let called = known.called();
    if known.standing == Standing::Trusted {
        return Ok(screen.done(format!("{called} is trusted already")));
    }
    let [first, second] = fingerprint(&known.cluster);
    let said = format!(
        "the fingerprint of {called}:\n  {first}\n  {second}\n\
         compare it with what its owner sees: mercato status"
    );
    screen.confirm(&said, &format!("buy from {called} from now on?"))?;
    api.tell(Request::Judge(known.cluster, Standing::Trusted)).await?;
    Ok(screen.done(format!("{called} is trusted")))
}
