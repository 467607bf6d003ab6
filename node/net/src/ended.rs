//! Who has ended a connection.

use std::error::Error;

use libp2p::swarm::ConnectionError;

/// Whether the other side has closed it, by what its transport says. A process that is killed closes its
/// connections by TCP as well; one that is cut off does not.
pub(crate) fn is_by_peer(cause: Option<&ConnectionError>) -> bool {
    match cause {
        // We have closed it.
        None | Some(ConnectionError::KeepAliveTimeout) => false,
        Some(ConnectionError::IO(error)) => {
            let mut next: Option<&dyn Error> = Some(error);
            while let Some(error) = next {
                let said = error.to_string();
                if CLOSED.iter().any(|words| said.starts_with(words)) {
                    return true;
                }
                next = error.source();
            }
            false
        }
    }
}

/// What QUIC and yamux say of it: their errors have no types that can be looked at from here.
const CLOSED: [&str; 2] = ["closed by peer", "connection is closed"];
