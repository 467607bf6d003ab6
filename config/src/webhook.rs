//! Where the API server finds the daemon's webhook.

use std::fmt;
use std::num::NonZeroU16;

use mercato_protocol::names::is_label;
use serde::{Deserialize, Deserializer};

/// Where the API server finds the webhook. By default at the daemon's address, at a port that the
/// kernel chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Written")]
pub struct Webhook {
    /// Where it listens, by TCP; none: at any free port.
    pub port: Option<NonZeroU16>,
    /// The Service that leads there; none: it is reached at the daemon's own address.
    pub service: Option<Service>,
}

/// A Service of the cluster, in front of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The namespace that it is in, a DNS label.
    pub namespace: String,
    /// Its name, a DNS label.
    pub name: String,
    /// The port of the Service, not of the daemon.
    pub port: NonZeroU16,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.namespace, self.name, self.port)
    }
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
struct Written {
    #[serde(deserialize_with = "port")]
    port: Option<NonZeroU16>,
    #[serde(deserialize_with = "service")]
    service: Option<Service>,
}

impl TryFrom<Written> for Webhook {
    type Error = &'static str;

    fn try_from(Written { port, service }: Written) -> Result<Self, Self::Error> {
        if service.is_some() && port.is_none() {
            return Err("a Service leads to a fixed port: write webhook.port, for example 7481");
        }
        Ok(Self { port, service })
    }
}

fn port<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NonZeroU16>, D::Error> {
    let port = i64::deserialize(from)?;
    let fits = u16::try_from(port).ok().and_then(NonZeroU16::new);
    fits.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!("expected a port from 1 to 65535, found {port}"))
    })
}

fn service<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Service>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "off" {
        return Ok(None);
    }
    let service = || {
        let (namespace, rest) = text.split_once('/')?;
        let (name, port) = rest.split_once(':').unwrap_or((rest, "443"));
        let names = is_label(namespace) && is_label(name);
        let [namespace, name] = [namespace, name].map(str::to_owned);
        names.then_some(Service { namespace, name, port: port.parse().ok()? })
    };
    service().map(Some).ok_or_else(|| {
        serde::de::Error::custom(
            "expected NAMESPACE/NAME or NAMESPACE/NAME:PORT, for example mercato/mercato-webhook, \
             or off",
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::Settings;

    fn read(text: &str) -> Result<super::Webhook, String> {
        let settings = Settings::parse("x", &format!("kubernetes:\n  webhook: {text}\n"));
        settings.map(|settings| settings.kubernetes.webhook).map_err(|error| error.to_string())
    }

    #[test]
    fn a_service_has_a_fixed_port_behind_it() {
        let webhook = read("{port: 7481, service: mercato/mercato-webhook}").unwrap();
        assert_eq!(webhook.port.unwrap().get(), 7481);
        assert_eq!(webhook.service.unwrap().to_string(), "mercato/mercato-webhook:443");
        let other = read("{port: 7481, service: 'shop/w:8443'}").unwrap();
        assert_eq!(other.service.unwrap().port.get(), 8443);
        assert_eq!(read("{port: 7481, service: off}").unwrap().service, None);
        assert_eq!(read("{port: 7481}").unwrap().service, None);
        assert_eq!(read("{}").unwrap(), super::Webhook::default());
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_could() {
        for (text, said) in [
            ("{service: mercato/w}", "write webhook.port"),
            ("{port: 0}", "from 1 to 65535"),
            ("{port: 70000}", "from 1 to 65535"),
            ("{port: 1, service: w}", "NAMESPACE/NAME"),
            ("{port: 1, service: A/w}", "NAMESPACE/NAME"),
            ("{port: 1, service: 'a/w:0'}", "NAMESPACE/NAME"),
            ("{port: 1, service: 'a/w/x'}", "NAMESPACE/NAME"),
            ("{ports: 1}", "unknown"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
