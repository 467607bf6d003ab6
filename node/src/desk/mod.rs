//! The admin API from a desk: from where there is no socket of the daemon, but a kubeconfig.
//!
//! The command line forwards a port of the daemon's pod by the person's own rights (`client`), shows
//! whatever their kubeconfig says they are (`credentials`), and takes the one certificate for the
//! daemon's that the daemon has published. The daemon (`server`) asks the API server who that is, and
//! whether they may do what they ask for: which right each request takes, `rights` says. What then is
//! answered is the same as at the socket.

mod client;
mod credentials;
mod place;
mod places;
mod reach;
mod rights;
mod server;
mod standing;
#[cfg(test)]
mod tests;

pub(crate) use client::Client;
pub(crate) use place::Place;
pub(crate) use server::serve;
pub(crate) use standing::Standing;
