//! Why there is no tunnel with a peer, for its owner to read.

use mercato_protocol::text::shown;
use thiserror::Error;

/// See the module. What the other side wrote is shown escaped.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum Off {
    #[error("no lease with this cluster is in force")]
    NoLease,
    #[error("the gateway of this cluster is starting")]
    Starting,
    #[error("this cluster has no gateway: {}", shown(.0))]
    NoGatewayHere(String),
    #[error(
        "the other cluster has not said yet where its gateways are; it is asked when it is connected"
    )]
    NotMet,
    #[error(
        "the other cluster runs an earlier version, which has no tunnel: \
         ask its operator to update mercato"
    )]
    EarlierVersion,
    #[error("the other cluster refuses a tunnel: {}; it is asked again", shown(.0))]
    Refused(String),
    #[error("the other cluster has no gateway: {}", shown(.0))]
    NoGatewayThere(String),
    #[error("the two clusters have no secret in common yet; the one with the lower id draws it")]
    NoSecret,
}
