//! Guests elsewhere call this cluster's API server: their connections end at an address of the gateway's
//! machine, and what is said on them is passed on to one of the servers, as it is. TLS is between the
//! guest and the server, so that nothing here reads it.
//!
//! Who may is said by others, and looked at for each connection; whose access ends loses those that he
//! has. That packets come here by tunnels alone, of these guests alone, is the machine's rules' to see to
//! (`node/host/`): either of the two is enough.

mod pass;
mod places;
mod servers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::workload::Uid;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

pub(super) use self::places::RelayBounds;
use self::places::{Place, Places};
pub(super) use self::servers::AskServers;
use self::servers::Servers;
use crate::limits;

/// A guest that may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// The provider in whose cluster it runs.
    pub(super) cluster: ClusterId,
    /// The lease under which it runs there.
    pub(super) lease: ContractId,
    /// Which pod it is: another one may have its address later.
    pub(super) pod: Uid,
}

/// Who may call, by the addresses inside the tunnels.
pub(super) type Callers = Arc<BTreeMap<IpAddr, Caller>>;

/// Takes connections of guests until it is dropped.
pub(super) struct Relay {
    shared: Arc<Shared>,
    address: SocketAddr,
    tasks: JoinSet<()>,
}

struct Shared {
    callers: watch::Sender<Callers>,
    places: Arc<Places>,
    servers: Servers,
    refused: AtomicU64,
}

impl Relay {
    /// Listens there from now on, for nobody at first.
    ///
    /// # Errors
    /// When it cannot listen there: the address is not on this machine, or another program listens.
    pub(super) async fn start(
        at: SocketAddr,
        ask: AskServers,
        bounds: RelayBounds,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await.map_err(told)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            callers: watch::Sender::default(),
            places: Arc::new(Places::new(bounds)),
            servers: Servers::new(ask),
            refused: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, shared.clone()));
        Ok(Self { shared, address, tasks })
    }

    /// Where it listens: an address and a port.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// These may call from now on, and nobody else: what others have ends.
    pub(super) fn allow(&self, callers: &Callers) {
        self.shared.callers.send_if_modified(|before| {
            let is_new = before != callers;
            *before = callers.clone();
            is_new
        });
    }

    /// How many connections there are.
    pub(super) fn connections(&self) -> usize {
        self.shared.places.taken()
    }

    /// How many were refused since it began.
    pub(super) fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Why the last guest that called reached no API server, if so.
    pub(super) fn trouble(&self) -> Option<String> {
        self.shared.servers.trouble()
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.tasks.try_join_next().is_some()
    }
}

/// Why it cannot listen, and what to do.
fn told(error: io::Error) -> io::Error {
    let more = if error.kind() == io::ErrorKind::PermissionDenied {
        "the process needs CAP_NET_BIND_SERVICE (securityContext.capabilities.add: \
         [NET_BIND_SERVICE])"
    } else if error.kind() == io::ErrorKind::AddrInUse {
        "another program listens at this port of all addresses: have it listen at its own addresses \
         alone"
    } else {
        return error;
    };
    io::Error::new(error.kind(), format!("{error}: {more}"))
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((connection, from)) => match shared.admit(from.ip()) {
                Some((caller, place)) => {
                    let (shared, guest) = (shared.clone(), from.ip());
                    connections.spawn(async move {
                        shared.serve(connection, guest, caller).await;
                        drop(place);
                    });
                }
                None => {
                    shared.refused.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(%from, "a connection to the API server is refused");
                    reset(connection);
                }
            },
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                sleep(limits::API_ACCEPT_AGAIN).await;
            }
        }
    }
}

impl Shared {
    /// Who it is, and a place for the connection; none: it is refused.
    fn admit(&self, guest: IpAddr) -> Option<(Caller, Place)> {
        let caller = self.callers.borrow().get(&guest).cloned()?;
        let place = self.places.take(guest, caller.cluster)?;
        Some((caller, place))
    }

    /// Until either side has ended it, or the guest may call no more.
    async fn serve(&self, connection: TcpStream, guest: IpAddr, caller: Caller) {
        let mut callers = self.callers.subscribe();
        let over = callers.wait_for(|all| all.get(&guest) != Some(&caller));
        tokio::select! {
            _ = over => tracing::debug!(%guest, "a guest may not call the API server any more"),
            passed = self.pass(connection) => if let Err(error) = passed {
                tracing::debug!(%guest, %error, "a connection to the API server has ended");
            }
        }
    }

    async fn pass(&self, guest: TcpStream) -> io::Result<()> {
        let server = match self.servers.connect().await {
            Ok(server) => server,
            Err(error) => {
                reset(guest);
                return Err(error);
            }
        };
        keep_alive(&guest)?;
        keep_alive(&server)?;
        pass::both_ways(guest, server).await
    }
}

/// Whoever called hears at once that nobody answers.
fn reset(connection: TcpStream) {
    if let Err(error) = SockRef::from(&connection).set_linger(Some(Duration::ZERO)) {
        tracing::trace!(%error, "a connection is closed, and not reset");
    }
}

/// Whoever watches may hear nothing for long; whoever is not there any more is noticed.
fn keep_alive(connection: &TcpStream) -> io::Result<()> {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(limits::API_ALIVE)
        .with_interval(limits::API_ALIVE_AGAIN)
        .with_retries(limits::API_ALIVE_TRIES);
    let socket = SockRef::from(connection);
    socket.set_tcp_keepalive(&keepalive)?;
    // The same for what was said, and is not confirmed.
    socket.set_tcp_user_timeout(Some(limits::API_ALIVE * 2))?;
    connection.set_nodelay(true)
}
