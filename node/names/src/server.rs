//! The name server: its sockets, and who is answered on them. Whoever is no guest hears nothing.

use std::collections::BTreeSet;
use std::net::{self, SocketAddr};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::{io, thread};

use mercato_protocol::node::UnopenedName;
use socket2::SockRef;
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::connection::converse;
use crate::knowledge::Knowledge;
use crate::limits::{self, Bounds};
use crate::resolver::{Outcome, Resolver};

/// A name server that answers guests until it is dropped: in a thread of its own, so that whatever guests
/// ask, no link and no lease waits for it.
pub struct NameServer {
    resolver: Arc<Resolver>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
    /// It answers for as long as this is there.
    stop: Option<oneshot::Sender<()>>,
}

impl NameServer {
    /// Answers there from now on, by UDP and TCP, nobody at first. No other program has this port then,
    /// neither there nor at all addresses: none of the two is shared with anybody.
    ///
    /// # Errors
    /// When it cannot listen there: the address is not on this machine, or another program listens; or
    /// when the machine has no thread for it.
    pub fn start(at: SocketAddr, bounds: Bounds) -> io::Result<Self> {
        let sockets = Sockets::bind(at)?;
        let address = sockets.datagrams.local_addr()?;
        let resolver = Arc::new(Resolver::new(bounds));
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::sync_channel(1);
        let asked = resolver.clone();
        let thread = thread::Builder::new().name("names".to_owned());
        let thread = thread.spawn(move || {
            let mut builder = runtime::Builder::new_current_thread();
            // It looks for datagrams after each answer: connections that all ask for as much as there may
            // be in one keep nobody waiting for longer than one of these takes.
            let built = builder.enable_all().event_interval(1).build();
            let built = built.and_then(|runtime| {
                let _inside = runtime.enter();
                let datagrams = UdpSocket::from_std(sockets.datagrams)?;
                Ok((datagrams, TcpListener::from_std(sockets.connections)?, runtime))
            });
            match built {
                Ok((datagrams, connections, runtime)) => {
                    let _ = tell.send(Ok(()));
                    runtime.block_on(answer(datagrams, connections, asked, stopped));
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        })?;
        told.recv().map_err(io::Error::other)??;
        Ok(Self { resolver, address, thread: Some(thread), stop: Some(stop) })
    }

    /// Where it answers: an address and a port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// It knows this from now on, and nothing else.
    pub fn know(&self, knowledge: Knowledge) {
        self.resolver.know(knowledge);
    }

    /// For which names of namespaces that are not open to them guests have asked lately.
    pub fn unopened(&self) -> BTreeSet<UnopenedName> {
        self.resolver.unopened()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for NameServer {
    /// Its port is free afterwards.
    fn drop(&mut self) {
        self.stop = None;
        // What it panicked of was printed then.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where guests ask, by both ways.
struct Sockets {
    datagrams: net::UdpSocket,
    connections: net::TcpListener,
}

impl Sockets {
    fn bind(at: SocketAddr) -> io::Result<Self> {
        let datagrams = net::UdpSocket::bind(at).map_err(|error| told(error, at))?;
        let address = datagrams.local_addr()?;
        // The kernel gives what the machine allows.
        SockRef::from(&datagrams).set_recv_buffer_size(limits::RECEIVE_BYTES)?;
        let connections = net::TcpListener::bind(address).map_err(|error| told(error, address))?;
        datagrams.set_nonblocking(true)?;
        connections.set_nonblocking(true)?;
        Ok(Self { datagrams, connections })
    }
}

async fn answer(
    datagrams: UdpSocket,
    connections: TcpListener,
    resolver: Arc<Resolver>,
    stopped: oneshot::Receiver<()>,
) {
    tokio::select! {
        () = answer_datagrams(datagrams, resolver.clone()) => {},
        () = answer_connections(connections, resolver) => {},
        _ = stopped => {},
    }
}

/// Why it cannot listen, and what to do.
fn told(error: io::Error, at: SocketAddr) -> io::Error {
    let more = if error.kind() == io::ErrorKind::PermissionDenied {
        "the process needs CAP_NET_BIND_SERVICE (securityContext.capabilities.add: \
         [NET_BIND_SERVICE])"
            .to_owned()
    } else if error.kind() == io::ErrorKind::AddrInUse {
        format!(
            "another program listens there, or at this port of all addresses (ss -lntup sport = :{}): \
             have it listen at its own addresses alone",
            at.port()
        )
    } else {
        return error;
    };
    io::Error::new(error.kind(), format!("{error}: {more}"))
}

async fn answer_datagrams(socket: UdpSocket, resolver: Arc<Resolver>) {
    let socket = Arc::new(socket);
    let mut buffer = [0; limits::QUESTION_BYTES];
    let mut forwards = JoinSet::new();
    loop {
        while forwards.try_join_next().is_some() {}
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                // That nobody hears what was said there before, most often.
                tracing::trace!(%error, "nothing was received");
                tokio::task::yield_now().await;
                continue;
            }
        };
        let (guest, bytes) = (from.ip(), &buffer[..length]);
        let read = resolver.may_ask(guest).then(|| resolver.read(guest, bytes));
        let Some(asked) = read.flatten() else { continue };
        let asked = match asked {
            Ok(asked) => asked,
            Err(wrong) => {
                send(&socket, &wrong, from).await;
                continue;
            }
        };
        let room = asked.question.room();
        match resolver.look_up(&asked, room) {
            Outcome::Said(reply) => send(&socket, &reply, from).await,
            Outcome::Nothing => {}
            Outcome::Forward(name, before) => {
                let Some(place) = resolver.place(&asked) else { continue };
                let (resolver, socket) = (resolver.clone(), socket.clone());
                forwards.spawn(async move {
                    let said = resolver.forward(&asked, name, before, place).await;
                    let reply = said.and_then(|said| asked.question.reply(said, room));
                    if let Some(reply) = reply {
                        send(&socket, &reply, from).await;
                    }
                });
            }
        }
    }
}

/// Whoever hears nothing asks again.
async fn send(socket: &UdpSocket, reply: &[u8], to: SocketAddr) {
    if let Err(error) = socket.send_to(reply, to).await {
        tracing::trace!(%to, %error, "an answer is lost");
    }
}

async fn answer_connections(listener: TcpListener, resolver: Arc<Resolver>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((connection, from)) => {
                let guest = from.ip();
                // Without a place it is closed.
                let Some(mut place) = resolver.connect(guest) else { continue };
                let resolver = resolver.clone();
                connections.spawn(async move {
                    let done = tokio::select! {
                        done = converse(connection, guest, &resolver) => done,
                        () = place.lost() => Err(io::ErrorKind::ConnectionAborted.into()),
                    };
                    if let Err(error) = done {
                        tracing::trace!(%guest, %error, "a connection has ended");
                    }
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                sleep(limits::ACCEPT_AGAIN).await;
            }
        }
    }
}
