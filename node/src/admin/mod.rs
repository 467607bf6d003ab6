//! The admin API: what the owner can ask of a running daemon. HTTP and JSON over a Unix
//! socket that only the owner can open; `POST /v1/ask` takes a [`Request`] and answers an
//! [`Answer`], or a [`Problem`]. The same for others, over TLS, is `desk`'s.
//!
//! Whoever holds the agent is a [`OperatorApi`]. So is the [`Client`], so that the command line
//! does not know whether it speaks to a daemon or to a part of its own program. What an
//! answer looks like to a person is the command line's.

/// An enum of which there is a list, by names as programs read them.
macro_rules! closed_list {
    ($(#[doc = $about:literal])* $name:ident, $all:ident {
        $($(#[doc = $doc:literal])* $kind:ident,)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum $name {
            $($(#[doc = $doc])* $kind,)*
        }

        #[cfg(test)]
        pub(crate) const $all: &[$name] = &[$($name::$kind,)*];
    };
}

mod api;
mod attention;
mod client;
mod deal;
mod devices;
mod event;
#[cfg(test)]
pub(crate) mod every;
pub(crate) mod exchange;
mod join;
mod offload;
mod problem;
#[cfg(test)]
pub(crate) mod samples;
mod server;
mod status;
#[cfg(test)]
mod tests;
mod tunnel;
mod types;

pub(crate) use api::{OperatorApi, unexpected};
#[cfg(test)]
pub(crate) use attention::ATTENTION_KINDS;
pub(crate) use attention::{Attention, AttentionKind};
pub(crate) use client::Client;
pub(crate) use deal::{Asked, Change, Deal};
pub(crate) use devices::Devices;
pub(crate) use event::{Event, EventFederation, EventKind, EventPeer};
pub(crate) use join::{Invitation, go_by, is_by, join};
pub(crate) use offload::{Leaving, Offload};
pub(crate) use problem::{Class, Problem};
pub(crate) use server::{Server, status};
pub(crate) use status::{Bursts, BuyersObjects, GuestObjects, NamespaceBursts, Status};
pub(crate) use tunnel::{
    NoTunnels, NodeTrouble, OpenNamespace, OwnApiServer, OwnGateway, TunnelLink, TunnelLost,
    TunnelState, Tunnels,
};
pub(crate) use types::{
    Announced, Answer, Found, OnSale, Peer, Pong, Provider, Request, Share, Token,
};

/// The only path, with the version of the vocabulary.
pub(crate) const PATH: &str = "/v1/ask";
