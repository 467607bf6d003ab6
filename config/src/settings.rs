//! The configuration file. Each key has a default, and none is needed; an unknown key is
//! an error.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use mercato_broker::syntax::Seconds;
use mercato_protocol::names::is_domain;
use serde::{Deserialize, Deserializer};
use thiserror::Error;

use crate::admin_port::AdminPort;
use crate::explained::explained;
use crate::gateway::Gateway;
use crate::policy::Buy;
use crate::share::Share;
use crate::switch::Switch;
use crate::text::some_text;
use crate::webhook::Webhook;

/// The annotated example, with every key at its default or at a plausible value.
pub const EXAMPLE: &str = include_str!("../mercato.yaml");

/// The configuration is not what it should be: where, why, and the lines around it.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct SettingsError(String);

/// How a daemon runs. What is none is the daemon's to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// What the owner calls the cluster; none: the name of the machine. Fixed at the
    /// first start.
    pub name: Option<String>,
    /// Where identity and records are kept.
    pub data_dir: Option<PathBuf>,
    /// Where peers may connect: `IP:PORT`. Empty: on all interfaces, port 7474 or a free
    /// one.
    pub listen: Vec<String>,
    /// Where others are told to connect: `HOST` or `HOST:PORT`. Empty: wherever it listens that
    /// another machine can reach.
    pub public_addresses: Vec<String>,
    /// Clusters to connect to: `HOST:PORT`, or a multiaddr.
    pub peers: Vec<String>,
    /// Whether peers are searched on the local network.
    pub lan: Switch,
    /// Where health and metrics are to be had.
    pub health: Health,
    /// The name server that is asked for federations and their peers, `IP:PORT`; none: the
    /// system's.
    pub dns: Option<SocketAddr>,
    /// The gateway of the tunnels to other clusters.
    pub gateway: Gateway,
    /// The Kubernetes cluster that is shared from and bought for.
    pub kubernetes: Kubernetes,
    /// ISO 3166 country of the law that applies here.
    pub jurisdiction: Option<String>,
    /// The owner's word for where this is.
    pub region: Option<String>,
    /// Grams of CO2 equivalent for each kilowatt-hour.
    pub carbon: Option<u32>,
    /// Time between two usage reports of what is sold here.
    #[serde(deserialize_with = "some_text")]
    pub metering_interval: Option<Seconds>,
    /// What is shared from the first start on; later `mercato share` decides.
    pub share: Option<Share>,
    /// What may be bought; none: anything from whom the owner trusts.
    pub buy: Option<Buy>,
}

/// Where health and metrics are to be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// On this machine alone, at the usual port or a free one.
    #[default]
    Usual,
    /// There, or the start fails.
    At(SocketAddr),
    /// No port is opened for it.
    Off,
}

impl<'de> Deserialize<'de> for Health {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text == "off" {
            return Ok(Self::Off);
        }
        let wrong = "expected IP:PORT, for example 0.0.0.0:7476, or off";
        text.parse().map(Self::At).map_err(|_| serde::de::Error::custom(wrong))
    }
}

/// The Kubernetes cluster that a daemon works for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubernetes {
    /// Off: none, even where there is one.
    pub enabled: Switch,
    /// Another kubeconfig than `$KUBECONFIG`, `~/.kube/config` or that of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// Another context than the current one.
    pub context: Option<String>,
    /// Where the API server finds the virtual nodes' kubelet APIs and the webhook; none: the
    /// address from which the API server is reached.
    pub address: Option<IpAddr>,
    /// Where the API server finds the webhook there.
    pub webhook: Webhook,
    /// A file of certificates (PEM) of which one must have signed the certificate that the API
    /// server shows the webhook; none: the webhook answers whoever knows the path that it
    /// registered.
    pub webhook_client_ca: Option<PathBuf>,
    /// What this cluster calls itself, as names of its Services end; none: as its name server or the
    /// daemon's resolver has it, else `cluster.local`.
    #[serde(deserialize_with = "domain")]
    pub cluster_domain: Option<String>,
    /// Whose pods may leave home.
    pub offload: Offload,
    /// Whom service account tokens may be for that leave home with pods, whatever their
    /// namespace says of the API server's. None by default.
    #[serde(deserialize_with = "audiences")]
    pub token_audiences: BTreeSet<String>,
    /// Where people of this cluster are answered by their rights in it.
    pub admin_port: AdminPort,
    /// What guests of other clusters get in this one.
    pub guests: Guests,
}

/// What guests of other clusters get in this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Guests {
    /// Their name servers; empty: those that the daemon itself uses.
    #[serde(deserialize_with = "name_servers")]
    pub name_servers: Vec<IpAddr>,
    /// Which of them have users of their own, that are nobody on the node.
    pub user_namespaces: UserNamespaces,
}

/// As many name servers as Kubernetes lets a pod have.
pub const NAME_SERVERS: usize = 3;

/// Which guests have users of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UserNamespaces {
    /// Those that ask for it.
    #[default]
    Asked,
    /// All, where all nodes for guests say that their container runtime can.
    Supported,
}

/// Whose pods may leave home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Offload {
    /// Those of namespaces that were chosen by `mercato offload`.
    #[default]
    Chosen,
    /// All but the cluster's own; virtual nodes are not tainted.
    All,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            enabled: Switch::On,
            kubeconfig: None,
            context: None,
            address: None,
            webhook: Webhook::default(),
            webhook_client_ca: None,
            cluster_domain: None,
            offload: Offload::Chosen,
            token_audiences: BTreeSet::new(),
            admin_port: AdminPort::Usual,
            guests: Guests::default(),
        }
    }
}

impl Settings {
    /// Reads a configuration file's text. `name` is what it is called in errors.
    pub fn parse(name: &str, yaml: &str) -> Result<Self, SettingsError> {
        // An empty file, or one of comments alone, changes nothing.
        if yaml.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#')) {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(yaml)
            .map_err(|error| SettingsError(format!("{name}: {}", explained(&error))))
    }
}

fn name_servers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpAddr>, D::Error> {
    let servers = Vec::deserialize(from)?;
    if servers.len() > NAME_SERVERS {
        let text = format!("at most {NAME_SERVERS} name servers, as in any pod");
        return Err(serde::de::Error::custom(text));
    }
    Ok(servers)
}

fn domain<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let domain = String::deserialize(from)?;
    if !is_domain(&domain) {
        let text = "expected a domain such as cluster.local: lower case, without a dot at the end";
        return Err(serde::de::Error::custom(text));
    }
    Ok(Some(domain))
}

/// An empty audience would be the API server's own.
fn audiences<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<String>, D::Error> {
    let audiences = BTreeSet::<String>::deserialize(from)?;
    if audiences.iter().any(|audience| audience.trim().is_empty()) {
        let text = "an empty audience: write whom the tokens are for, for example vault";
        return Err(serde::de::Error::custom(text));
    }
    Ok(audiences)
}

#[cfg(test)]
mod tests {
    use mercato_broker::Amount;
    use mercato_protocol::egress::EgressKind;
    use mercato_protocol::resources::Resource;

    use super::*;
    use crate::gateway::Nodes;

    fn refused(yaml: &str) -> String {
        Settings::parse("mercato.yaml", yaml).unwrap_err().to_string()
    }

    #[test]
    fn nothing_needs_to_be_written() {
        for nothing in ["", "# a comment\n"] {
            assert_eq!(Settings::parse("x", nothing).unwrap(), Settings::default());
        }
    }

    #[test]
    fn the_example_shows_every_key() {
        let example = Settings::parse("mercato.yaml", EXAMPLE).unwrap();
        let written = Settings {
            name: Some("rome".to_owned()),
            data_dir: Some("/var/lib/mercato".into()),
            listen: vec!["0.0.0.0:7474".to_owned()],
            public_addresses: vec!["203.0.113.7".to_owned()],
            peers: vec!["hub.example:7474".to_owned()],
            lan: Switch::On,
            health: Health::At(SocketAddr::from(([127, 0, 0, 1], 7476))),
            dns: Some("192.0.2.53:53".parse().unwrap()),
            gateway: Gateway {
                enabled: Switch::On,
                addresses: vec!["203.0.113.7:7475".parse().unwrap()],
                nodes: Nodes {
                    image: Some("registry.example/mercato:1".to_owned()),
                    image_pull_secrets: vec!["/etc/mercato/registry.json".into()],
                    ..Nodes::default()
                },
                ..Gateway::default()
            },
            kubernetes: Kubernetes {
                enabled: Switch::On,
                kubeconfig: Some("/etc/mercato/kubeconfig".into()),
                context: Some("rome".to_owned()),
                address: Some(IpAddr::from([192, 0, 2, 7])),
                webhook: example.kubernetes.webhook.clone(),
                webhook_client_ca: Some("/etc/mercato/webhook-client-ca.pem".into()),
                cluster_domain: Some("cluster.local".to_owned()),
                offload: Offload::Chosen,
                token_audiences: ["vault".to_owned()].into(),
                admin_port: AdminPort::At(crate::admin_port::ADMIN_PORT),
                guests: Guests {
                    name_servers: vec![IpAddr::from([192, 0, 2, 53])],
                    user_namespaces: UserNamespaces::Asked,
                },
            },
            jurisdiction: Some("IT".to_owned()),
            region: Some("eu-south-1".to_owned()),
            carbon: Some(180),
            metering_interval: Some(Seconds(300)),
            share: example.share.clone(),
            buy: example.buy.clone(),
        };
        assert_eq!(example, written);
        assert_eq!(example.buy.unwrap().policy().namespaces.len(), 1);
        let policy = example.share.unwrap().policy();
        assert_eq!(policy.rules.len(), 4);
        assert_eq!(policy.rules[1].egress, Some(EgressKind::Internet));
        assert_eq!(policy.amounts[&Resource::Cpu], Amount::Percent(30));
        assert_eq!(policy.amounts[&"gpu.h100".parse().unwrap()], Amount::Exactly(2));
        assert_eq!((policy.keep_free.cpu_millis, policy.reclaim_notice_s), (2_000, 3_600));
        assert_eq!(policy.max_term_s, 30 * 86_400);
    }

    #[test]
    fn what_helm_makes_of_bare_words_is_understood() {
        let read = |yaml: &str| Settings::parse("mercato.yaml", yaml).unwrap();
        let helm = read("lan: false\ngateway: {enabled: true}\nkubernetes: {enabled: false}");
        let words = read("lan: off\ngateway: {enabled: on}\nkubernetes: {enabled: off}");
        assert_eq!(helm, words);
        assert_ne!(words, Settings::default());
    }

    #[test]
    fn an_error_says_where_and_what_would_be_right() {
        let said = refused("name: rome\nshare:\n  price: cpu=0.02 EUR\n");
        assert!(said.contains("expected '/' at character 13"), "{said}");
        assert!(said.contains("for example cpu=0.02 EUR/h"), "{said}");
        assert!(said.contains("line 3"), "{said}");
        let said = refused("health: 7476\n");
        assert!(said.contains("for example 0.0.0.0:7476, or off"), "{said}");
        assert_eq!(Settings::parse("x", "health: off").unwrap().health, Health::Off);
        let said = refused("kubernetes:\n  guests:\n    nameServers: [::1, ::2, ::3, ::4]\n");
        assert!(said.contains("at most 3 name servers"), "{said}");
        for pool in ["10.200.0.0", "10.200.0.1/13", "10.0.0.0/7", "10.200.0.0/24", "fd00::/48"] {
            let said = refused(&format!("gateway:\n  pool: {pool}\n"));
            assert!(said.contains("line 2") && said.contains("10.200.0.0/13"), "{said}");
        }
        let ranges =
            ["fd4d::", "fd4d::1/96", "fd4d::/64", "10.200.0.0/13", "fe80::/96", "::/96", "on"];
        for pool in ranges.into_iter().chain(["::ffff:0.0.0.0/96", "ff02::/96"]) {
            let said = refused(&format!("gateway:\n  poolV6: {pool}\n"));
            assert!(said.contains("line 2") && said.contains("fd4d:6572:6361:746f::/96"), "{said}");
        }
        let pool = |text: &str| {
            let text = format!("gateway:\n  poolV6: {text}\n");
            Settings::parse("x", &text).unwrap().gateway.pool_v6
        };
        assert_eq!((pool("off"), pool("fd00:7475::/96")), (None, "fd00:7475::/96".parse().ok()));
        for port in ["0", "70000", "-1"] {
            let said = refused(&format!("gateway:\n  port: {port}\n"));
            assert!(said.contains("line 2") && said.contains("from 1 to 65535"), "{said}");
        }
        for key in ["port", "overlayPort", "vni", "gatePort"] {
            let said = refused(&format!("gateway:\n  nodes:\n    {key}: 16777216\n"));
            assert!(said.contains("line 3") && said.contains("from 1 to"), "{said}");
        }
        for image in ["''", "'a b'", "[a]"] {
            let said = refused(&format!("gateway:\n  nodes:\n    image: {image}\n"));
            assert!(said.contains("line 3"), "{said}");
        }
        let said = refused("shares: {}\n");
        assert!(said.contains("shares"), "{said}");
        let said = refused("share:\n  tolerate: ['sku=gpu:NoExecute']\n");
        assert!(said.contains("line 2") && said.contains("NoSchedule alone"), "{said}");
        let said = refused("share:\n  tolerate: [sku gpu]\n");
        assert!(said.contains("\"sku gpu\" is no taint"), "{said}");
        let share =
            Settings::parse("x", "share: {tolerate: ['sku=gpu:NoSchedule']}").unwrap().share;
        assert_eq!(share.unwrap().policy().devices.tolerate, ["sku=gpu".to_owned()].into());
        let said = refused("share:\n  cpu: 130%\n");
        assert!(said.contains("0 to 100 percent"), "{said}");
    }
}
