//! An API server, as the daemon meets it: the one way to it, who the daemon is there and which rights
//! it has, watches, what its refusals mean; and the listener on which API servers call the daemon.

pub(crate) mod account;
pub(crate) mod api_servers;
pub(crate) mod callers;
pub(crate) mod cluster;
pub(crate) mod events;
pub(crate) mod failure;
pub(crate) mod kind;
pub(crate) mod life;
pub(crate) mod listener;
pub(crate) mod long_line;
mod long_request;
pub(crate) mod reviews;
pub mod rights;
pub(crate) mod watch;
pub(crate) mod write_pace;
