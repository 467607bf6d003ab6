//! The tunnel of a lease as its virtual node says it: a condition, and events where it changes.

use mercato_protocol::text::shown;
use serde_json::{Value, json};

use crate::forge::labels::TUNNEL_READY;
use crate::limits;

/// How the tunnel to a lease's provider is, as home says it of the virtual node. Pods start and
/// run whatever it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TunnelWord {
    /// Nothing is known yet: it is being set up.
    #[default]
    Awaited,
    /// Pods of the two clusters reach each other.
    Up,
    /// They do not reach each other.
    Off {
        /// Why, and what can be done about it; perhaps in the words of the other side.
        reason: String,
    },
}

impl TunnelWord {
    /// The word that stands for it in a condition, or in an event.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Awaited => "Starting",
            Self::Up => "TunnelUp",
            Self::Off { .. } => "NoTunnel",
        }
    }

    /// The same for a person. What others wrote cannot steer a terminal.
    pub fn message(&self) -> String {
        match self {
            Self::Awaited => "the tunnel to the provider is being set up".to_owned(),
            Self::Up => "pods of both clusters reach each other".to_owned(),
            Self::Off { reason } => {
                shown(reason).chars().take(limits::TUNNEL_REASON_CHARS).collect()
            }
        }
    }

    /// The condition of the node, times aside.
    pub(super) fn condition(&self) -> Value {
        let status = match self {
            Self::Awaited => "Unknown",
            Self::Up => "True",
            Self::Off { .. } => "False",
        };
        json!({ "type": TUNNEL_READY, "status": status, "reason": self.reason(),
            "message": self.message() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_side_says_is_cut_and_steers_nothing() {
        let said = |reason: String| TunnelWord::Off { reason }.message();
        assert_eq!(said("no \u{1b}[31mred".to_owned()), "no \\u{1b}[31mred");
        assert_eq!(said("ü".repeat(9_000)).chars().count(), limits::TUNNEL_REASON_CHARS);
    }
}
