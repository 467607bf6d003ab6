//! What the owner says of the gateway of the tunnels, and of the way to it from the cluster's other
//! nodes.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use mercato_protocol::gate;
use mercato_protocol::tunnel::{SECOND_POOL, SECOND_PREFIX};
use serde::{Deserialize, Deserializer};

use crate::switch::Switch;

/// The gateway of the tunnels to other clusters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Gateway {
    /// Off, which is the default: none, pods elsewhere have no address at home.
    pub enabled: Switch,
    /// Where other gateways reach it, by UDP.
    #[serde(deserialize_with = "port")]
    pub port: NonZeroU16,
    /// Where they are told that it is, `IP:PORT`; empty: at the addresses of this machine, with the
    /// port above.
    pub addresses: Vec<SocketAddr>,
    /// By addresses of this range pods are known inside tunnels: nothing else here may use it. Of
    /// IPv4, and of [`POOL_PREFIXES`].
    #[serde(deserialize_with = "pool")]
    pub pool: IpNet,
    /// The range behind which the same pods are known by IPv6, in a cluster that has it: nothing else
    /// here may use it. Of a length of [`SECOND_PREFIX`]; none: by IPv4 alone.
    #[serde(rename = "poolV6", deserialize_with = "pool_v6")]
    pub pool_v6: Option<Ipv6Net>,
    /// The way from the cluster's other nodes to the gateway's.
    pub nodes: Nodes,
}

/// The way from the cluster's other nodes to the gateway's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Nodes {
    /// Where the daemon is reached by them, by TCP.
    #[serde(deserialize_with = "port")]
    pub port: NonZeroU16,
    /// By which nodes reach each other (VXLAN), by UDP: of nobody else on any of them.
    #[serde(deserialize_with = "port")]
    pub overlay_port: NonZeroU16,
    /// The number of the network between them, of 24 bits.
    #[serde(deserialize_with = "vni")]
    pub vni: NonZeroU32,
    /// The image of this program on the nodes: in guests whose contract requires isolation it holds
    /// back all else until they are isolated. None: no such guest is made.
    #[serde(deserialize_with = "image")]
    pub image: Option<String>,
    /// Files of logins for the registry of that image, as docker keeps them: the first that has one
    /// counts. Empty: nodes pull it without.
    pub image_pull_secrets: Vec<PathBuf>,
    /// Where the process on each node answers those guests, by TCP.
    #[serde(deserialize_with = "port")]
    pub gate_port: NonZeroU16,
}

impl Default for Nodes {
    fn default() -> Self {
        Self {
            port: NODES_PORT,
            overlay_port: OVERLAY_PORT,
            vni: VNI,
            image: None,
            image_pull_secrets: Vec::new(),
            gate_port: gate::PORT,
        }
    }
}

/// Where nodes reach the daemon, unless the owner says otherwise.
const NODES_PORT: NonZeroU16 = NonZeroU16::new(7478).expect("it is not zero");
/// Nobody's default: Calico has 4789, Submariner 4800, flannel, k3s and Cilium 8472.
const OVERLAY_PORT: NonZeroU16 = NonZeroU16::new(7477).expect("it is not zero");
/// Numbered as the gateway's port.
const VNI: NonZeroU32 = NonZeroU32::new(7475).expect("it is not zero");
/// 24 bits (RFC 7348, section 5).
const LARGEST_VNI: u32 = (1 << 24) - 1;
/// Bytes of an image's name: of a host and a path 255 (the distribution project's `reference`), of a
/// tag 128, of a digest fewer than the rest.
const IMAGE_BYTES: usize = 512;

/// How long the prefix of a pool is: a wider one is of the Internet's, a narrower one has no room for
/// two leases.
pub const POOL_PREFIXES: std::ops::RangeInclusive<u8> = 8..=22;

/// Nobody's on the Internet, and seldom anybody's elsewhere: flannel, k3s, Calico and kubeadm have
/// other ranges of 10/8 by default.
const POOL: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 200, 0, 0), 13);

impl Default for Gateway {
    fn default() -> Self {
        Self {
            enabled: Switch::Off,
            port: GATEWAY_PORT,
            addresses: Vec::new(),
            pool: POOL.into(),
            pool_v6: Some(SECOND_POOL),
            nodes: Nodes::default(),
        }
    }
}

/// Where other gateways reach it, unless the owner says otherwise.
pub const GATEWAY_PORT: NonZeroU16 = NonZeroU16::new(7475).expect("it is not zero");

fn port<'de, D: Deserializer<'de>>(from: D) -> Result<NonZeroU16, D::Error> {
    let port = i64::deserialize(from)?;
    let fits = u16::try_from(port).ok().and_then(NonZeroU16::new);
    fits.ok_or_else(|| {
        let wrong = format!("expected a port from 1 to 65535, found {port}");
        serde::de::Error::custom(wrong)
    })
}

fn vni<'de, D: Deserializer<'de>>(from: D) -> Result<NonZeroU32, D::Error> {
    let vni = i64::deserialize(from)?;
    let fits = u32::try_from(vni).ok().filter(|vni| *vni <= LARGEST_VNI);
    fits.and_then(NonZeroU32::new).ok_or_else(|| {
        let wrong = format!("expected a number from 1 to {LARGEST_VNI}, found {vni}");
        serde::de::Error::custom(wrong)
    })
}

fn image<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let Some(image) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let of_image = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    if (1..=IMAGE_BYTES).contains(&image.len()) && image.bytes().all(of_image) {
        return Ok(Some(image));
    }
    Err(serde::de::Error::custom(
        "expected the name of an image that nodes can pull, for example registry.example/mercato:1",
    ))
}

fn pool<'de, D: Deserializer<'de>>(from: D) -> Result<IpNet, D::Error> {
    let text = String::deserialize(from)?;
    let is_good =
        |pool: &IpNet| pool.addr().is_ipv4() && POOL_PREFIXES.contains(&pool.prefix_len());
    let pool = text.parse::<IpNet>().ok().filter(is_good).filter(|pool| *pool == pool.trunc());
    pool.ok_or_else(|| {
        let (wide, narrow) = (POOL_PREFIXES.start(), POOL_PREFIXES.end());
        serde::de::Error::custom(format!(
            "expected an IPv4 range of /{wide} to /{narrow} by its first address, for example {POOL}"
        ))
    })
}

fn pool_v6<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ipv6Net>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "off" {
        return Ok(None);
    }
    let is_good = |pool: &Ipv6Net| pool.prefix_len() == SECOND_PREFIX && *pool == pool.trunc();
    let pool = text.parse::<Ipv6Net>().ok().filter(is_good).filter(is_ones_own);
    pool.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "expected an IPv6 range of /{SECOND_PREFIX} by its first address, for example \
             {SECOND_POOL}, or off"
        ))
    })
}

/// Neither of all networks, as those of IPv4 in the form of IPv6, nor of each link.
fn is_ones_own(pool: &Ipv6Net) -> bool {
    let first = pool.network();
    let is_ipv4 = first.to_ipv4_mapped().is_some();
    !is_ipv4 && !first.is_unspecified() && !first.is_multicast() && !first.is_unicast_link_local()
}
