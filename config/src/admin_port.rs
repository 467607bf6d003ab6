//! Whether people of the cluster ask the daemon by their rights there, and at which port.

use std::num::NonZeroU16;

use serde::{Deserialize, Deserializer};

/// Where the admin API is served to people of the cluster, on this machine's loopback alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdminPort {
    /// At the usual port where the daemon runs in a pod, by which it is reached; nowhere else.
    #[default]
    Usual,
    /// At this port, wherever the daemon runs.
    At(NonZeroU16),
    /// Nowhere: the socket alone is asked.
    Off,
}

/// The port that nobody has to name.
pub const ADMIN_PORT: NonZeroU16 = NonZeroU16::new(7480).expect("it is not zero");

/// As it is written: to Helm the bare word `off` is `false`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Port(NonZeroU16),
    Switch(bool),
    Word(String),
}

impl<'de> Deserialize<'de> for AdminPort {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Written::deserialize(from) {
            Ok(Written::Port(port)) => Ok(Self::At(port)),
            Ok(Written::Switch(false)) => Ok(Self::Off),
            Ok(Written::Word(word)) if word == "off" => Ok(Self::Off),
            Ok(Written::Switch(true) | Written::Word(_)) | Err(_) => {
                let wrong =
                    format!("expected a port from 1 to 65535, such as {ADMIN_PORT}, or off");
                Err(serde::de::Error::custom(wrong))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn read(value: &str) -> Result<AdminPort, String> {
        let text = format!("kubernetes:\n  adminPort: {value}\n");
        let read = Settings::parse("mercato.yaml", &text);
        read.map(|settings| settings.kubernetes.admin_port).map_err(|error| error.to_string())
    }

    #[test]
    fn a_port_or_off_is_written() {
        assert_eq!(read("7480"), Ok(AdminPort::At(ADMIN_PORT)));
        for off in ["off", "'off'", "false"] {
            assert_eq!(read(off), Ok(AdminPort::Off), "{off}");
        }
        for wrong in ["0", "65536", "-1", "on", "true", "127.0.0.1:7480", "[]"] {
            let said = read(wrong).unwrap_err();
            assert!(said.contains("such as 7480, or off"), "{wrong}: {said}");
        }
        assert_eq!(Settings::default().kubernetes.admin_port, AdminPort::Usual);
    }
}
