//! `mercato peer`: connect to somebody, trust or block them.

use clap::Subcommand;
use mercato_broker::Standing;
use mercato_protocol::text::shown;

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
  mercato peer trust 4f3c21ab --yes --jurisdiction IT

The other side sees its own fingerprint with: mercato status

Rules of what you share that name jurisdictions cover a cluster of which a certificate
says so, or you do.")]
    Trust {
        /// Its name, or the beginning of its id
        peer: String,
        /// Of which country it is, for your rules by jurisdiction
        #[arg(long, value_name = "COUNTRY", conflicts_with = "no_jurisdiction")]
        jurisdiction: Option<String>,
        /// Say no longer of which country it is
        #[arg(long)]
        no_jurisdiction: bool,
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
            Self::Trust { peer, jurisdiction, no_jurisdiction } => {
                let says = (no_jurisdiction || jurisdiction.is_some()).then_some(jurisdiction);
                trust(api, screen, &peer, says).await
            }
            Self::Block { peer } => {
                let known = lookup::cluster(api, &peer).await?;
                api.tell(Request::Judge(known.cluster, Standing::Blocked)).await?;
                Ok(screen.done(format!("{} is blocked", known.called())))
            }
        }
    }
}

/// Trusts it, unless that is so; and says of which country it is, if `country` is there: none
/// within takes that back.
async fn trust(
    api: &dyn OperatorApi,
    screen: &Screen,
    peer: &str,
    country: Option<Option<String>>,
) -> Result<String, Problem> {
    let known = lookup::cluster(api, peer).await?;
    let called = known.called();
    let is_trusted = known.standing == Standing::Trusted;
    if !is_trusted {
        let [first, second] = fingerprint(&known.cluster);
        let said = format!(
            "the fingerprint of {called}:\n  {first}\n  {second}\n\
             compare it with what its owner sees: mercato status"
        );
        screen.confirm(&said, &format!("buy from {called} from now on?"))?;
    }
    let of = match country {
        None => String::new(),
        Some(country) => {
            let of = country.as_deref().map_or_else(
                || ", of no jurisdiction by your word".to_owned(),
                |country| format!(", of {}", shown(country)),
            );
            api.tell(Request::Place(known.cluster, country)).await?;
            of
        }
    };
    if is_trusted {
        return Ok(screen.done(format!("{called} is trusted already{of}")));
    }
    api.tell(Request::Judge(known.cluster, Standing::Trusted)).await?;
    Ok(screen.done(format!("{called} is trusted{of}")))
}
