//! The kubelet API of a virtual node, over HTTPS: what API servers, kubectl
//! (through them) and monitoring ask a node for. One listener per virtual node,
//! since an API server tells nodes apart by address and port alone. Who asks
//! and whether they may is settled before anything else is looked at.

mod access;
pub mod certificate;
mod figures;
mod figures_text;
pub mod node_facts;
mod pass;
mod pods;
mod request;
mod routes;
mod run;
mod target;
mod text;
mod tls;
mod user;
mod virtual_kubelet;

pub use access::Access;
pub use routes::router;
pub use tls::{Tls, TlsError, certified_key, follow_client_ca};
pub(crate) use user::Certified;
pub use user::User;
pub use virtual_kubelet::{NodePods, VirtualKubelet};

#[cfg(test)]
mod tests;
