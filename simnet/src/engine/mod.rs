//! What runs: virtual time, the network between the clusters, the clusters themselves, the world
//! that lets them act, and the course of it. What may go wrong is chosen in `explore`, what must
//! hold is judged in `verify`.

pub(crate) mod address;
pub(crate) mod agenda;
mod body_store;
pub(crate) mod course;
mod event;
pub(crate) mod gateway;
pub(crate) mod lease;
pub(crate) mod link;
mod mishaps;
pub(crate) mod network;
pub(crate) mod packet;
mod parcel;
pub(crate) mod queue;
pub(crate) mod rng;
pub(crate) mod signature_cache;
pub(crate) mod site;
pub(crate) mod sites;
pub(crate) mod trace;
mod tunnels;
pub(crate) mod world;
